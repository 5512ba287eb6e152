"""Round to nearest: the two schemes whose scale is a group's largest magnitude.

`rtn` (the plate's; GGUF's Q4_0 at 4 bits, ggml-quants.c `quantize_row_q4_0_ref`):
    d = (first entry of largest magnitude, with its sign) / -2^(b-1), float32
    code = min(2^b - 1, trunc(x / d + 2^(b-1) + 1/2)), with 1/d from the unrounded d and 0 where d = 0
    stored: codes, d as float16; decoded: (code - 2^(b-1)) x stored d
All 2^b codes are used: the extreme itself takes code 0 exactly, the far side is clipped by up to |d|. Worked, 3 bits:
x = (-4, 1.2, 3.6): d = 1, codes 0, 5, 7 (7.6 + .5 = 8.1 clipped), decoded -4, 1, 3.

`absmax` (the naive one): scale = max |x| / (2^(b-1) - 1), code = round(x / scale) + 2^(b-1) - 1; 2^b - 1 codes used.
Worked, 3 bits: x = (-3, 1.2, 2.6): scale 1, codes 0, 4, 6, decoded -3, 1, 3. At 8 bits it is GGUF's Q8_0, but for exact
halves, which Q8_0 rounds away from zero and this to even.

Both: b + 16/g bits a weight; stored codes (O, I) packed and scales (O, ceil(I / g)).
"""

from __future__ import annotations

import torch
from torch import Tensor

from quant.scheme import Scheme, inverse


def fit_rtn(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    largest = groups.abs().amax(1, keepdim=True)  # (n, 1)
    index = torch.arange(groups.shape[1])
    first = torch.where(groups.abs() == largest, index, groups.shape[1]).amin(1, keepdim=True)
    return (groups.gather(1, first) / -(1 << (bits - 1))).squeeze(1), None


def code_rtn(x: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    half = 1 << (bits - 1)
    codes = (x * inverse(scale) + (half + 0.5)).trunc().clamp(0, 2 * half - 1)
    return codes.to(torch.uint8)


def decode_rtn(codes: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    return (codes.float() - (1 << (bits - 1))) * scale


def fit_absmax(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    return groups.abs().amax(1) / ((1 << (bits - 1)) - 1), None


def code_absmax(x: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    top = (1 << (bits - 1)) - 1
    return ((x * inverse(scale)).round().clamp(-top, top) + top).to(torch.uint8)


def decode_absmax(codes: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    return (codes.float() - ((1 << (bits - 1)) - 1)) * scale


RTN = Scheme(fit_rtn, code_rtn, decode_rtn, signed=True)
ABSMAX = Scheme(fit_absmax, code_absmax, decode_absmax)
