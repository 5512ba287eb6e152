"""A greedy draft that answers no question twice: what it said behind a text is kept, from one decoding to the next.

For studies of the target: the same text checked at every gamma, in every number type, asks a draft the same questions over and
over, and in those studies drafting would cost more than what is studied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from micro.chance import Chance
from micro.sampling import Sampling, first_argmax
from specdec.model import Model
from specdec.proposal import Proposal, Step


@dataclass
class Place:
    """Behind one text: the token the draft said there, if it was asked, and the places one token on."""

    said: int | None = None
    after: dict[int, Place] = field(default_factory=dict)

    def next(self, token: int) -> Place:
        return self.after.setdefault(token, Place())


class RememberingDraft:
    """Proposes what a ModelDraft of `model` does at temperature 0, as point masses; a pass is made, and counted, only once."""

    def __init__(self, model: Model, bytes_per_pass: int) -> None:
        self.model, self.bytes_per_pass = model, bytes_per_pass
        self.extra_bytes, self.extra_parameters = bytes_per_pass, 0
        self._root = Place()
        self._cache = model.new_cache(1)
        self._read: list[int] = []  # what the cache holds

    def start(self, prompt: Sequence[int], target: Model) -> None:
        self._tokens = list(prompt)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """gamma tokens, each the likeliest behind the one before."""
        text, place, passes = list(self._tokens), self._root, 0
        for token in text:
            place = place.next(token)
        for _ in range(gamma):
            if place.said is None:
                place.said, passes = self._ask(text), passes + 1
            text.append(place.said)
            place = place.next(place.said)
        drafted = text[len(self._tokens) :]
        return Proposal.chain(drafted, [None] * gamma, passes)

    def commit(self, step: Step) -> None:
        self._tokens = list(step.tokens)

    def _ask(self, text: list[int]) -> int:
        """The likeliest token behind `text`. Reads what the cache lacks."""
        pairs = enumerate(zip(self._read, text))
        common = next((i for i, (a, b) in pairs if a != b), min(len(self._read), len(text)))
        kept = min(
            common, len(text) - 1
        )  # the last token is read in any case: its logits are wanted
        self._cache.truncate(kept)
        logits, _ = self.model.forward(torch.tensor([text[kept:]]), self._cache)
        self._read = list(text)
        return int(first_argmax(logits[0, -1]))
