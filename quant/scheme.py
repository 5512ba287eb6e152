"""A Scheme: how one group of weights becomes a scale (and perhaps a minimum), and how a weight becomes a code under them.

`fit` looks at whole groups; `code` and `decode` at single weights, with the scale broadcast beside them. So the same three
functions serve plain rounding, a scale that is stored in fewer bits, and rounding column by column (quant/gptq.py).

Shapes: n groups  g weights a group; a short last group comes by itself, so nothing ever pads a statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

# (n, g) groups, bits, (n, g) importance of each weight's error or None -> (n,) scale, (n,) minimum or None; float32
Fit = Callable[[Tensor, int, Tensor | None], tuple[Tensor, Tensor | None]]
# weights, scale, minimum or None, bits -> uint8 codes below 2^bits, of the weights' shape
Code = Callable[[Tensor, Tensor, Tensor | None, int], Tensor]
# codes, scale, minimum or None, bits -> float32 weights
Decode = Callable[[Tensor, Tensor, Tensor | None, int], Tensor]


@dataclass(frozen=True)
class Scheme:
    """widths: bits a code may have. signed: the scale may be negative. minimum: one is stored beside the scale.
    searched: `fit` heeds the importance it is given."""

    fit: Fit
    code: Code
    decode: Decode
    widths: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8)
    signed: bool = False
    minimum: bool = False
    searched: bool = False


def inverse(scale: Tensor) -> Tensor:
    """1 / scale, and 0 where that is infinite: a group so tiny has a stored scale of zero and decodes to zeros anyway."""
    inverse = (1.0 / scale).where(scale != 0, 0.0)
    return inverse.where(inverse.isfinite(), 0.0)
