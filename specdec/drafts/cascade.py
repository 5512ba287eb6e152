"""A cascade: a small draft drafts for a larger one, which drafts for the target, as in `cascade:ngram:5>rtn3`.

To draft gamma tokens the larger model *decodes speculatively*, by the very rounds of specdec/decode.py, with the smaller draft
as its draft. Its text is then distributed as if it had drafted alone, so the law of each token is its own, and the target judges by
that; only its passes become fewer. With c the smaller's bytes over the larger's and g tokens drafted at once, a drafted token
costs (1 + g c) / (the larger's tokens a pass) of a pass that the larger alone would make for it. Cascades nest: in `ngram:5>rtn3>rtn4`
the first two together draft for rtn4. Spector and Re 2023 (arXiv 2308.04623) call it staged speculation, Chen et al. 2023 (arXiv
2312.11462) a vertical cascade.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from micro.chance import Chance, KeyedChance
from micro.model import Transformer
from micro.sampling import Sampling

# the module, not its names: decode imports drafts.base, and with it this package, before it has any
from specdec import decode
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.spec import Spec
from specdec.drafts.table import TextDraft
from specdec.model import Cache, Model
from specdec.proposal import Proposal, Step


class CatchingUp:
    """`model` as a target that may be behind: its pass first reads what the cache lacks of `text`, all but the last token.
    `passes` counts them."""

    def __init__(self, model: Model, text: list[int]) -> None:
        self.model, self.text, self.passes = model, text, 0
        self.vocab, self.context, self.new_cache = model.vocab, model.context, model.new_cache

    def forward(
        self,
        tokens: Tensor,
        cache: Cache,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As the model's, of the given tokens (1, T) alone."""
        self.passes += 1
        lacking = self.text[cache.length : -1]
        start, count = cache.length, len(lacking)
        tokens = torch.cat((torch.tensor([lacking], dtype=torch.long), tokens), dim=1)
        if mask is not None:  # those who catch up see what is before them, the others all of them
            whole = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
            whole[count:, count:] = mask
            mask, positions = whole, torch.cat((torch.arange(start, start + count), positions))
        logits, hidden = self.model.forward(tokens, cache, positions, mask)
        return logits[:, count:], hidden[:, count:]


class CascadeDraft:
    """A chain that `larger`'s model would draft, made by speculating with `smaller`, `block` tokens at once.

    block: None is 4, or 1 where the smaller is a model that reads half of the larger's bytes or more: then four at once cost more
    than they bring; a cascade's are read by far fewer passes (experiments/LOG.md, 2026-11-30). smaller: one whose commit is
    among TEXT_ALONE. bytes_per_pass is the larger's; what all levels read is told by each proposal, as its passes are.
    `cache`, the larger's, may be read between rounds.
    """

    def __init__(self, smaller: Draft, larger: ModelDraft, block: int | None = None) -> None:
        self.smaller, self.larger = smaller, larger
        is_model = isinstance(smaller, ModelDraft)
        dear = is_model and 2 * smaller.bytes_per_pass >= larger.bytes_per_pass
        self.block = block or (1 if dear else 4)
        self.bytes_per_pass = larger.bytes_per_pass
        self.extra_bytes = smaller.extra_bytes + larger.extra_bytes
        self.extra_parameters = smaller.extra_parameters + larger.extra_parameters

    @property
    def cache(self) -> Cache:
        return self.larger.cache

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Raises ValueError where a level cannot stand in for the one above it."""
        self.larger.start(prompt, target)
        self.smaller.start(prompt, self.larger.model)
        self._tokens = list(prompt)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """gamma tokens and the larger model's laws (V,) of them."""
        text, laws, done = list(self._tokens), [], []
        model = CatchingUp(self.larger.model, text)
        state = decode.Decoding(model, text, len(text), gamma, (), self.cache)
        rule = "coupled" if isinstance(chance, KeyedChance) else "token"  # both judge trees too
        while not state.ended:
            one = decode.one_round(state, self.smaller, self.block, sampling, chance, rule)
            rows = [0, *(node + 1 for node in one.kept)][: len(one.emitted)]
            laws += sampling.probs(state.last_logits[rows])
            done.append(one)
        return Proposal.chain(
            text[len(self._tokens) :],
            laws,
            passes=model.passes + sum(one.draft_passes for one in done),
            bytes_read=model.passes * self.larger.bytes_per_pass
            + sum(one.draft_bytes for one in done),
        )

    def commit(self, step: Step) -> None:
        """Every level holds a prefix of the old text and the drafted tokens; each keeps what the new text has of it."""
        self.larger.commit(step)
        self.smaller.commit(step)
        self._tokens = list(step.tokens)


# what a draft does behind a round that looks at the new text and no further: the step it is told is the target's, not that of
# the model it drafts for
TEXT_ALONE = (TextDraft.commit, ModelDraft.commit, CascadeDraft.commit)


def cascade_draft(target: Transformer, spec: Spec, make: Callable) -> CascadeDraft:
    """A small draft for a larger one, and that one for the target (`cascade:ngram:5>rtn3`), of as many levels as one likes.

    `@N` behind a level but the last: how many tokens it drafts at once, as in `cascade:ngram:5@8>rtn3`. Raises ValueError where a
    level is missing or cannot stand where it is put, and as the levels' own makers.
    """
    *lower, top = spec.rest.split(">")
    if not top or not lower or not all(lower):
        raise ValueError(
            f"draft {spec.text!r}: a cascade needs two drafts or more, the smaller first, as in cascade:ngram:5>rtn3"
        )
    levels = [_level(spec, text) for text in lower]
    draft = make(target, levels[0][0])
    if type(draft).commit not in TEXT_ALONE:
        raise ValueError(
            f"draft {spec.text!r}: {levels[0][0]} learns more than text from what it drafts for; begin with counts, copies or a model"
        )
    for (_, block), name in zip(levels, [*(name for name, _ in levels[1:]), top]):
        larger = make(target, name)
        if type(larger) is not ModelDraft:  # one made of it may lack a cache of its own
            raise ValueError(f"draft {spec.text!r}: {name} is no model that another can draft for")
        draft = CascadeDraft(draft, larger, block)
    return draft


def _level(spec: Spec, text: str) -> tuple[str, int | None]:
    """The draft and how much it drafts at once, of `rtn3@2`. Where no number stands behind it, an @ belongs to the name."""
    name, at, number = text.rpartition("@")
    if not (at and number.isdigit()):
        return text, None
    return name, spec.number(number, "the tokens behind @")
