"""The top bits of codes of eight bits: a draft that a target stored at 8 bits already holds.

    d, code8: rtn's at 8 bits (quant/rtn.py); code = code8 >> (8 - b), scale = d x 2^(8-b)
    decoded: (code - 2^(b-1) + 1/2 - 2^(b-9)) x scale, the middle of the 2^(8-b) values that share these bits

A scale is the 8-bit one times a power of two, so nothing is stored beside the target: `codes` and `scales` of slice4 are the
upper halves of rtn8's codes and 16 times its scales. To read half of the bytes, a target keeps its upper and lower bits in
two places. The price against rtn4 of its own: no code for zero, and the levels lie where 8 bits put them. Worked, 2 bits:
x = (-1.28, .5, .004), d = .01, code8 0, 178, 128, code 0, 2, 2, scale .64, decoded -.965, .315, .315 ((2 - 2 + 63/128) x .64).

Stored by itself: codes (O, I) packed, scales (O, ceil(I / g)); b + 16/g bits a weight.
"""

from __future__ import annotations

from torch import Tensor

from quant.rtn import code_rtn, fit_rtn
from quant.scheme import Scheme

WORD = 8  # bits of the stored target's codes


def fit(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    return fit_rtn(groups, WORD)[0] * (1 << (WORD - bits)), None


def code(x: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    # division by a power of two is exact: the 8-bit code is the one that rtn8 stores
    return code_rtn(x, scale / (1 << (WORD - bits)), None, WORD) >> (WORD - bits)


def decode(codes: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    return (codes.float() - (1 << (bits - 1)) + 0.5 - 2.0 ** (bits - WORD - 1)) * scale


SLICE = Scheme(fit, code, decode, widths=(2, 3, 4, 5, 6, 7), signed=True)
