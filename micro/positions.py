"""Where a token stands: the rotary embedding, and the mask that hides what comes later.

A pair (x[i], x[i + d/2]) of a query or key turns by the angle position x theta^(-2i/d), so that their product depends on the
distance of two tokens only. Su et al. 2021 (arXiv 2104.09864), section 3.4; the halves are split as Hugging Face does.

Shapes: B rows  T new tokens  S cache slots  H heads  d head width
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def rotary_table(head_dim: int, theta: float, rows: int) -> tuple[Tensor, Tensor]:
    """cos and sin of position x frequency, each (rows, head_dim), the frequencies written twice; sin with its sign in `rotate`.

    Computed in float32 as the reference does: other roundings would show in logits at far positions.
    """
    inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    angles = torch.arange(rows).float()[:, None] * inverse  # (rows, d/2)
    angles = torch.cat((angles, angles), dim=-1)  # (rows, d)
    sin = angles.sin()
    sin[:, : head_dim // 2].neg_()
    return angles.cos(), sin


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) by its position's angle. x (B, H, T, d); cos, sin of rotary_table broadcast to it.

    x[i] cos - x[i + d/2] sin, and x[i + d/2] cos + x[i] sin: the halves change places, and the minus lies in the table.
    """
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


class Tables:
    """The rotary table and the causal band of a model, kept for the type and device they were last asked for."""

    def __init__(self, head_dim: int, theta: float) -> None:
        self._head_dim, self._theta = head_dim, theta
        self._held: dict[str, tuple] = {}  # name -> (rows, dtype, device, tensors)

    def rotary(self, rows: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of at least `rows` positions, (rows or more, d), in the type and place of `like`."""
        return self._table(
            "rotary", rows, like, lambda: rotary_table(self._head_dim, self._theta, rows)
        )

    def causal(self, rows: int, start: int, seen: int, slots: int, like: Tensor) -> Tensor:
        """The additive mask (rows, seen) of tokens from slot `start` on: a window of one band, not copied.

        Row r of the band is 0 up to column `slots` + r and minus infinity behind. It has as many rows as the longest pass
        so far, so a long context does not cost its square.
        """

        def build() -> tuple[Tensor]:
            return (torch.full((rows, 2 * slots), float("-inf")).triu_(slots + 1),)

        (band,) = self._table(f"causal {slots}", rows, like, build)
        return band[:rows, slots - start : slots - start + seen]

    def _table(self, name: str, rows: int, like: Tensor, build: Callable[[], tuple]) -> tuple:
        """What `build` gives, built anew only when it must be longer or of another type or place."""
        held, dtype, device, tensors = self._held.get(name, (0, None, None, ()))
        if held < rows or dtype != like.dtype or device != like.device:
            with torch.inference_mode(False):  # else a first call in that mode would bar training
                tensors = tuple(t.to(like.dtype).to(like.device) for t in build())
            self._held[name] = (rows, like.dtype, like.device, tensors)
        return tensors


def hide_later(slots: Tensor, seen: int, dtype: torch.dtype) -> Tensor:
    """The additive mask (B, T, seen) of ragged rows, whose tokens stand in `slots` (B, T)."""
    later = torch.arange(seen, device=slots.device) > slots[..., None]
    return torch.zeros_like(later, dtype=dtype).masked_fill_(later, float("-inf"))
