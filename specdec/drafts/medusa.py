"""Medusa: extra heads on the target's last state, each for one place further ahead (Cai et al. 2024, arXiv 2401.10774, section 2.1).

    head i:  law of the token i places behind the root  =  softmax(W_out (h + silu(W_i h)))

h (D,) is the target's normed last state, the one that its own output matrix W_out reads; W_i (D, D) is the head's own, and W_out the
target's: with 256 tokens of width 192 an output matrix of each head's own would cost more (98,304 bytes) than its W_i (73,728).

Which h? After a round the text ends in a token that the target added and has not read: the root of the next round. The last state
there is, behind the token before it, gave that token; head i looks i places beyond it. So no head has seen the root, and none sees what
another head proposes: all laws follow from one state at once. That is the price of one cheap pass a round.

Chain: each token is drawn from its head's law. Tree: the likeliest paths (specdec/drafts/dynamic_tree.py), as point masses.

Bytes of a pass: the W_i that are used, and W_out. The target's own pass has read W_out before, but is over when the state to draft from
is known, so it is charged again.

Shapes: D width  V vocabulary  K heads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from micro.chance import Chance
from micro.model import Linear, Transformer
from micro.sampling import Sampling
from quant.bytes import pass_bytes
from specdec.drafts.dynamic_tree import likeliest_tree
from specdec.drafts.head_folder import Choice, read_heads, rounded
from specdec.drafts.spec import Spec
from specdec.model import Model
from specdec.proposal import Proposal, Step

Heads = Callable[[Tensor, int], Tensor]  # state (D,), K -> logits (K, V) of the first K heads


class MedusaHeads(nn.Module):
    """`count` residual blocks h + silu(W_i h). They begin as zeros: each head starts out as the target's own."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        with torch.device("meta"):  # no draw from the global generator
            self.layers = nn.ModuleList(Linear(width, width) for _ in range(count))
        self.to_empty(device="cpu")
        for layer in self.layers:
            nn.init.zeros_(layer.weight)

    def forward(self, state: Tensor, count: int) -> Tensor:
        """state (..., D) -> (count, ..., D): what the output matrix reads for the first `count` heads."""
        return torch.stack([state + F.silu(layer(state)) for layer in self.layers[:count]])


class MedusaDraft:
    """Drafts with `heads`, up to `count` of them, at head_bytes each and matrix_bytes for the output matrix. `state` (D,) is what
    they read, None where the target has read nothing yet; it may be looked at between rounds.

    tree: the likeliest paths instead of a drawn chain; depth is the number of heads, gamma that of nodes.
    """

    def __init__(
        self,
        heads: Heads,
        count: int,
        head_bytes: int,
        matrix_bytes: int = 0,
        extra_parameters: int = 0,
        tree: bool = False,
    ) -> None:
        self.heads, self.count, self.tree = heads, count, tree
        self.head_bytes, self.matrix_bytes = head_bytes, matrix_bytes
        self.bytes_per_pass = count * head_bytes + matrix_bytes
        self.extra_bytes, self.extra_parameters = count * head_bytes, extra_parameters

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Reads all but the prompt's last token with the target, as its own prefill does, for the state."""
        self.text, self.state = list(prompt), None
        if len(prompt) > 1:
            read = torch.tensor([list(prompt[:-1])])
            self.state = target.forward(read, target.new_cache(1))[1][0, -1]

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """Nothing behind a prompt of one token, before which there is no state."""
        if self.state is None:
            return Proposal.chain((), (), passes=0)
        count = min(gamma, self.count)
        logits = self.heads(self.state, count)  # (K, V)
        cost = {"passes": 1, "bytes_read": count * self.head_bytes + self.matrix_bytes}
        if self.tree:
            laws = logits.softmax(-1)
            tokens, parents = likeliest_tree(
                laws[0], lambda paths, nodes: [laws[paths.depths[i]] for i in nodes], gamma, count
            )
            return Proposal(tokens, parents, (None,) * len(tokens), **cost)
        laws = list(sampling.probs(logits))
        tokens = [chance.draw(law, len(self.text) + place) for place, law in enumerate(laws)]
        return Proposal.chain(tokens, laws, **cost)

    def commit(self, step: Step) -> None:
        """The state behind the last token that the target has read: of the row that added the text's new last one."""
        rows = [0, *(node + 1 for node in step.kept)][: len(step.emitted)]
        self.text, self.state = list(step.tokens), step.hidden[rows[-1]]


def medusa_draft(target: Transformer, spec: Spec, make: object) -> MedusaDraft:
    """Extra heads on the target's last state, as in `medusa:4`; `medusa:4,tree`; `medusa:./DIR,4` for heads of one's own; `medusa:4+rtn4`.

    Raises ValueError saying what would be right, or FileFault naming what is wrong with the heads' folder.
    """
    choice = Choice.parse(spec, "medusa")
    modules = read_heads(choice.folder, "medusa", target, heads_for)
    has = len(modules.layers)
    wanted = choice.number or has
    if wanted > has:
        raise ValueError(f"draft {spec.text!r}: {choice.folder} holds {has} heads")
    del modules.layers[wanted:]  # neither read nor kept
    modules, size, numbers = rounded(modules, spec)

    def heads(state: Tensor, count: int) -> Tensor:
        return target.lm_head(modules(state, count))

    return MedusaDraft(
        heads, wanted, size // wanted, pass_bytes(target.lm_head), numbers, choice.tree
    )


def heads_for(target: Transformer, count: int) -> MedusaHeads:
    return MedusaHeads(target.config.hidden_size, count)
