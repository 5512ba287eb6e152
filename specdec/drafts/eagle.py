"""EAGLE: a one-layer head that drafts on the target's features (Li et al. 2024, arXiv 2401.15077, section 4).

    feature of token t+1  ~  norm(Block(W [feature of t, embedding of token t+1])),    its law  softmax(W_out feature)

A feature is the target's last state behind its final norm: what the output matrix W_out reads, and what the authors' code takes too. W
(D, 2D), one Llama block with a cache of its own and the last norm are the head's; embedding and W_out are the target's. The token
that stands beside a feature is the one that was really drawn behind it, which the feature alone cannot know.

Features of verified tokens are the target's; of drafted ones, the head's own guesses. So after a round everything drafted leaves the
cache, and the verified features are read in with the next round's first pass. Chain: each token from the head's law. Tree: the
likeliest paths, a level a pass (specdec/drafts/dynamic_tree.py).

Bytes of a pass: the head, W_out, and, where it is not W_out itself, a row of the embedding. In micro's size this is no cheap draft: one
layer is a quarter of four, while it is a thirtieth of a large model's. The mechanism is shown here, not its cost.

Shapes: T pairs  D width  V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from micro.cache import KVCache
from micro.chance import Chance
from micro.model import Block, Linear, Pass, RMSNorm, Transformer
from micro.sampling import Sampling
from quant.bytes import STORED_BYTES, pass_bytes
from specdec.drafts.dynamic_tree import Paths, likeliest_tree
from specdec.drafts.head_folder import Choice, read_heads, rounded
from specdec.drafts.spec import Spec
from specdec.model import Cache, Model
from specdec.proposal import Proposal, Step

TREE_DEPTH = 4  # of `eagle:tree`: at most so many passes


class EagleHead(nn.Module):
    """What is trained and stored: fc (D, 2D), one block, a norm; for a target of the same sizes."""

    def __init__(self, target: Transformer) -> None:
        super().__init__()
        config = replace(target.config, num_hidden_layers=1)
        width = config.hidden_size
        with torch.device("meta"):  # no draw from the global generator
            self.fc = Linear(2 * width, width)
            self.layers = nn.ModuleList([Block(config, 0.0)])
            self.norm = RMSNorm(width, config.rms_norm_eps)
        self.to_empty(device="cpu")

    @torch.no_grad()
    def initialise(self, target: Transformer, seed: int) -> None:
        """Matrices normal of deviation 1 / sqrt(inputs), what writes into the stream a third of that; the last norm is the target's."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                scale = parameter.shape[1] ** -0.5 * (1 / 3 if writes else 1)
                parameter.normal_(0.0, scale, generator=generator)
            else:
                parameter.fill_(1.0)
        self.norm.weight.copy_(target.model.norm.weight)

    def forward(self, features: Tensor, embeddings: Tensor, pass_: Pass) -> Tensor:
        """features, embeddings (B, T, D) -> the next tokens' features (B, T, D)."""
        x = self.fc(torch.cat((features, embeddings), dim=-1)).flatten(0, 1)
        x = x.to(features.dtype)  # the stream stays whole where autocast makes products in 16 bits
        return self.norm(self.layers[0](x, pass_, 0)).view(features.shape)


class Net(Protocol):
    """What an EagleDraft drafts with."""

    def new_cache(self) -> Cache: ...

    def forward(
        self,
        features: Tensor,
        tokens: Tensor,
        cache: Cache,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """T pairs: features (1, T, D) and, of each, the token behind it (1, T) -> logits (1, T, V) behind those tokens, their features.
        Positions and mask as a Model's."""
        ...


class EagleNet:
    """A head beside its target, whose embedding, output matrix and geometry it borrows."""

    def __init__(self, head: EagleHead, target: Transformer) -> None:
        self.head, self.target = head, target

    def new_cache(self) -> KVCache:
        c, t = self.target.config, self.target
        shape = (1, 1, c.num_key_value_heads, t.context, c.head_dim)
        return KVCache(shape, t.context, 0, t.dtype, t.device)

    def forward(self, features, tokens, cache=None, positions=None, mask=None):
        """As Net, for B rows where there is no cache: the pairs are then whole texts."""
        B, T = tokens.shape
        if cache is None:
            pass_ = self.target.whole_pass(B, T, mask)
        else:
            cache.check(B, T)
            pass_ = self.target.cached_pass(cache, T, T, positions, mask)
        features = self.head(features, self.target.model.embed_tokens(tokens), pass_)
        if cache is not None:
            cache.advance(T)
        return self.target.lm_head(features), features


class EagleDraft:
    """Drafts with `net`, a chain, or with a depth the likeliest paths down to it. `cache` may be read between rounds: it holds the pairs
    (feature of t, token t + 1) of the text up to some t."""

    def __init__(
        self,
        net: Net,
        bytes_per_pass: int,
        extra_bytes: int = 0,
        extra_parameters: int = 0,
        depth: int = 0,
    ) -> None:
        self.net, self.bytes_per_pass, self.depth = net, bytes_per_pass, depth
        self.extra_bytes, self.extra_parameters = extra_bytes, extra_parameters

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Reads all but the prompt's last token with the target, as its own prefill does, for the features."""
        self.text, self.cache, self._held = list(prompt), self.net.new_cache(), 0
        read = torch.tensor([list(prompt[:-1])], dtype=torch.long)
        # of the tokens whose pairs the cache lacks (T, D); None before any is known
        self._features = None
        if len(prompt) > 1:
            self._features = target.forward(read, target.new_cache(1))[1][0]

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """Nothing behind a prompt of one token: no token before it has a feature."""
        if self._features is None:
            return Proposal.chain((), (), passes=0)
        logits, feature = self._pass(self._features, self.text[self._held + 1 :])
        self._held, self._features = self.cache.length, self._features[:0]
        if self.depth:
            return self._tree(logits[-1], feature[-1], gamma)
        return self._chain(logits[-1], feature[-1], gamma, sampling, chance)

    def _pass(self, features: Tensor, tokens: Sequence[int], *where) -> tuple[Tensor, Tensor]:
        """features (T, D) and T tokens -> logits (T, V), features (T, D)."""
        logits, features = self.net.forward(
            features[None], torch.tensor([list(tokens)]), self.cache, *where
        )
        return logits[0], features[0]

    def _chain(self, logits, feature, gamma: int, sampling, chance) -> Proposal:
        tokens, laws = [], []
        while True:
            law = sampling.probs(logits)
            tokens.append(chance.draw(law, len(self.text) + len(tokens)))
            laws.append(law)
            if len(tokens) == gamma:
                return Proposal.chain(tokens, laws, passes=gamma)
            (logits,), (feature,) = self._pass(feature[None], tokens[-1:])

    def _tree(self, logits: Tensor, feature: Tensor, gamma: int) -> Proposal:
        features, fed, passes = {-1: feature}, [], 1

        def ask(paths: Paths, nodes: list[int]) -> list[Tensor]:
            nonlocal passes
            passes += 1
            first = len(fed)
            fed.extend(nodes)
            mask = torch.zeros(len(nodes), len(fed), dtype=torch.bool)
            for row, node in enumerate(nodes):
                mask[row, first + row] = True
                mask[row, [fed.index(above) for above in paths.ancestors(node)]] = True
            depths = torch.tensor([paths.depths[node] for node in nodes])
            above = torch.stack([features[paths.parents[node]] for node in nodes])
            tokens = [paths.tokens[node] for node in nodes]
            logits, new = self._pass(above, tokens, self._held + depths - 1, mask)
            features.update(zip(nodes, new))
            return list(logits.softmax(-1))

        tokens, parents = likeliest_tree(logits.softmax(-1), ask, gamma, self.depth)
        return Proposal(tokens, parents, (None,) * len(tokens), passes)

    def commit(self, step: Step) -> None:
        """What was drafted leaves the cache; the target's features of the root and of what was kept wait to be read."""
        rows = [0, *(node + 1 for node in step.kept)][: len(step.emitted)]
        self.cache.truncate(self._held)
        known = step.hidden[rows]
        self._features = known if self._features is None else torch.cat((self._features, known))
        self.text = list(step.tokens)


def eagle_draft(target: Transformer, spec: Spec, make: object) -> EagleDraft:
    """A one-layer head on the target's features, as in `eagle`; `eagle:tree`, or `eagle:3,tree` of depth 3; `eagle:./DIR` for a head of
    one's own; `eagle+rtn4`.

    Raises ValueError saying what would be right, or FileFault naming what is wrong with the head's folder.
    """
    choice = Choice.parse(spec, "eagle")
    if choice.number and not choice.tree:
        raise ValueError(
            f"draft {spec.text!r}: a chain is as deep as gamma; a depth belongs to a tree, as in eagle:{choice.number},tree"
        )
    head = read_heads(choice.folder, "eagle", target, head_for)
    head, size, numbers = rounded(head, spec)
    depth = (choice.number or TREE_DEPTH) if choice.tree else 0
    return EagleDraft(EagleNet(head, target), size + borrowed_bytes(target), size, numbers, depth)


def borrowed_bytes(target: Transformer) -> int:
    """Of the target's own matrices that a pass reads: the output matrix, and a row of an embedding that is another."""
    tied = target.lm_head.weight is target.model.embed_tokens.weight
    row = 0 if tied else STORED_BYTES * target.config.hidden_size
    return pass_bytes(target.lm_head) + row


def head_for(target: Transformer, depth: int) -> EagleHead:
    return EagleHead(target)
