"""Scale and minimum: the codes span exactly what the group holds (GGUF's Q4_1 at 4 bits, ggml-quants.c `quantize_row_q4_1_ref`).

    d = (max - min) / (2^b - 1), float32; code = trunc((x - min) / d + 1/2), with 1/d from the unrounded d and 0 where d = 0
    stored: codes, d and min as float16; decoded: code x d + min

Nothing is clipped and no code is lost where a group leans to one side; the price is 16 more bits a group, b + 32/g a weight.
Worked, 2 bits: x = (-1, 0, 0.9, 2): d = 1, codes 0, 1, 2 (1.9 + .5), 3, decoded -1, 0, 1, 2. Stored: codes (O, I) packed,
scales and minima (O, ceil(I / g)). A group of zeros has min = d = 0 and stays zeros.
"""

from __future__ import annotations

import torch
from torch import Tensor

from quant.scheme import Scheme, inverse


def fit(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    minimum = groups.amin(1)
    return (groups.amax(1) - minimum) / ((1 << bits) - 1), minimum


def code(x: Tensor, scale: Tensor, minimum: Tensor, bits: int) -> Tensor:
    codes = ((x - minimum) * inverse(scale) + 0.5).trunc()
    return codes.clamp(0, (1 << bits) - 1).to(torch.uint8)


def decode(codes: Tensor, scale: Tensor, minimum: Tensor, bits: int) -> Tensor:
    return codes.float() * scale + minimum


MINMAX = Scheme(fit, code, decode, minimum=True)
