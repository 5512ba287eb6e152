"""What the loop and the drafts ask of whatever scores text: a Model, and the Cache of what it has read."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Cache(Protocol):
    """What a model has read: `length` tokens."""

    length: int

    def truncate(self, length: int) -> None: ...

    def gather(self, start: int, kept: list[int]) -> None: ...

    def copy_from(self, other: Cache, start: int, end: int) -> None: ...


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
