"""From logits to the law a token is drawn from: temperature, then top-k, then top-p.

Temperature 0 is not a special path but a law with one token in it, so that every rule downstream has one case. Ties are
always resolved towards the lowest ids, in the argmax, at top-k's edge and at top-p's.
Top-p: Holtzman et al. 2020 (arXiv 1904.09751).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How logits become a law. temperature >= 0; top_k = 0 or >= V keeps all; top_p in (0, 1], 1 keeps all.

    Raises ValueError, naming the field, for anything else.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (_is_real(self.temperature) and 0 <= self.temperature < math.inf):
            raise ValueError(f"temperature must be 0 or above and finite, not {self.temperature!r}")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 0:
            raise ValueError(f"top_k must be a whole number, 0 (off) or above, not {self.top_k!r}")
        if not (_is_real(self.top_p) and 0 < self.top_p <= 1):
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p!r}")

    def probs(self, logits: Tensor) -> Tensor:
        """The law (..., V) of logits (..., V): float32, or float64 where the logits are.

        Raises ValueError where a row holds NaN or plus infinity, or nothing above minus infinity: it states no law.
        """
        if logits.dtype != torch.float64:
            logits = logits.float()
        largest = logits.amax(-1, keepdim=True)  # NaN wherever one is
        # NaN or infinity times 0 is NaN, which differs from 0; isfinite() says it ten times slower
        if (largest * 0).sum() != 0:
            raise ValueError(
                "the model's logits hold NaN or infinity: its weights are damaged or its numbers overflow"
            )
        if self.temperature == 0:
            return one_hot(first_argmax(logits), logits)
        # the maximum goes first: at 1e-12 the quotient would otherwise be infinite for every token.
        # A temperature that the logits' type rounds to zero would make 0 / 0 of the likeliest one
        temperature = max(self.temperature, torch.finfo(logits.dtype).tiny)
        scaled = (logits - largest) / temperature
        law = scaled.softmax(-1)
        V = law.shape[-1]
        if 0 < self.top_k < V or self.top_p < 1:
            law = self._cut(law)
        return law

    def _cut(self, law: Tensor) -> Tensor:
        """Zero what top-k and top-p leave out and renormalise. The likeliest token always stays."""
        ranked, order = law.sort(dim=-1, descending=True, stable=True)  # stable: lowest ids first
        V = law.shape[-1]
        keep = torch.ones_like(ranked, dtype=torch.bool)
        if 0 < self.top_k < V:
            keep[..., self.top_k :] = False
            ranked = ranked * keep
            ranked = ranked / ranked.sum(-1, keepdim=True)
        if self.top_p < 1:
            before = ranked.cumsum(-1) - ranked  # mass that stands before each token
            keep &= before < self.top_p
            keep[..., 0] = True
        ranked = ranked * keep
        ranked = ranked / ranked.sum(-1, keepdim=True)
        return torch.zeros_like(law).scatter_(-1, order, ranked)


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def first_argmax(x: Tensor) -> Tensor:
    """(..., V) -> (...): the lowest id among the largest. torch.argmax promises no order among ties."""
    ids = torch.arange(x.shape[-1], device=x.device)
    largest = x == x.amax(-1, keepdim=True)
    return torch.where(largest, ids, x.shape[-1]).amin(-1)


def one_hot(index: Tensor, like: Tensor) -> Tensor:
    """The law with all its mass on `index` (...,), in the shape and type of `like` (..., V)."""
    return torch.zeros_like(like).scatter_(-1, index.unsqueeze(-1), 1.0)
