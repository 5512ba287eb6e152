"""The two protocols the loop is written against: a Model that scores text, and a Draft that proposes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from micro.chance import Chance
from micro.sampling import Sampling
from specdec.proposal import Proposal, Step


class Cache(Protocol):
    """What a model has read: `length` tokens."""

    length: int

    def truncate(self, length: int) -> None: ...

    def gather(self, start: int, kept: list[int]) -> None: ...


class Model(Protocol):
    """micro, its quantized copies, and a test's table model alike."""

    vocab: int
    context: int

    def new_cache(self, rows: int = 1, lanes: int = 0) -> Cache: ...

    def forward(
        self,
        tokens: Tensor,
        cache: Cache,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """tokens (B, T) -> logits (B, T, V), hidden (B, T, D)."""
        ...


class Draft(Protocol):
    """A proposer. `bytes_per_pass`: weight bytes one draft pass reads.

    start: a new text begins; nothing of the last one survives. propose: at most gamma tokens (at least one), with the laws
    they were drawn from. commit: the round's outcome; roll back own state.
    """

    bytes_per_pass: int

    def start(self, prompt: Sequence[int], target: Model) -> None: ...

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal: ...

    def commit(self, step: Step) -> None: ...
