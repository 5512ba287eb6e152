"""A model that counts its passes, and a loop that cannot go on for ever."""

from __future__ import annotations

from torch import Tensor

from specdec.model import Cache, Model


class Metered:
    """A Model that counts its passes and refuses more than `most`: a loop that never ends is caught, and does not hang."""

    def __init__(self, model: Model, most: int = 10**9) -> None:
        self.model, self.most, self.passes = model, most, 0
        self.vocab, self.context = model.vocab, model.context

    def new_cache(self, rows: int = 1, lanes: int = 0) -> Cache:
        return self.model.new_cache(rows, lanes)

    def forward(self, tokens: Tensor, cache: Cache, *rest) -> tuple[Tensor, Tensor]:
        """Raises RuntimeError beyond `most`."""
        self.passes += 1
        if self.passes > self.most:
            raise RuntimeError(f"more than {self.most} passes: the loop does not end")
        return self.model.forward(tokens, cache, *rest)
