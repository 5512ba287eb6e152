"""Round to nearest in groups: the schemes that need nothing but one group of weights.

A scheme is a pair of functions over groups. encode(groups (n, g) float32, bits) -> codes (n, g) uint8, scales (n,) float16;
decode(codes, scales, bits) -> (n, g) float32. Zeros that pad a short group never change its scale.

`rtn` (the plate's; GGUF's Q4_0 at 4 bits, ggml-quants.c `quantize_row_q4_0_ref`):
    d = (first entry of largest magnitude, with its sign) / -2^(b-1), float32
    code = min(2^b - 1, trunc(x / d + 2^(b-1) + 1/2)), with 1/d from the unrounded d and 0 where d = 0
    stored: codes, d as float16; decoded: (code - 2^(b-1)) x stored d
All 2^b codes are used: the extreme itself takes code 0 exactly, the far side is clipped by up to |d|. Worked, 3 bits:
x = (-4, 1.2, 3.6): d = 1, codes 0, 5, 7 (7.6 + .5 = 8.1 clipped), decoded -4, 1, 3.

`absmax` (the naive one): scale = max |x| / (2^(b-1) - 1), code = round(x / scale) + 2^(b-1) - 1; 2^b - 1 codes used.
"""

from __future__ import annotations

import torch
from torch import Tensor


def encode_rtn(groups: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    half = 1 << (bits - 1)
    largest = groups.abs().amax(1, keepdim=True)  # (n, 1)
    index = torch.arange(groups.shape[1])
    first = torch.where(groups.abs() == largest, index, groups.shape[1]).amin(1, keepdim=True)
    d = groups.gather(1, first) / -half  # (n, 1) float32, not yet rounded
    inverse = torch.where(d == 0, 0.0, 1.0 / d)
    # a group so tiny that 1/d is infinite decodes to zero anyway: its fp16 scale is zero
    inverse = torch.where(inverse.isfinite(), inverse, 0.0)
    codes = (groups * inverse + (half + 0.5)).trunc().clamp(0, 2 * half - 1)
    return codes.to(torch.uint8), d.squeeze(1).to(torch.float16)


def decode_rtn(codes: Tensor, scales: Tensor, bits: int) -> Tensor:
    return (codes.float() - (1 << (bits - 1))) * scales.float()[:, None]


def encode_absmax(groups: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    top = (1 << (bits - 1)) - 1
    scale = groups.abs().amax(1, keepdim=True) / top
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale)
    inverse = torch.where(inverse.isfinite(), inverse, 0.0)
    codes = (groups * inverse).round().clamp(-top, top) + top
    return codes.to(torch.uint8), scale.squeeze(1).to(torch.float16)


def decode_absmax(codes: Tensor, scales: Tensor, bits: int) -> Tensor:
    return (codes.float() - ((1 << (bits - 1)) - 1)) * scales.float()[:, None]
