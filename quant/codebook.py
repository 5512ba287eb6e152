"""Codes that name entries of a fixed table: unevenly spaced levels, dense where weights are.

    decoded = table[code] x scale; code = the nearest entry, a tie going to the smaller magnitude (fp) or value (nf)

`nf` (normal float; Dettmers et al. 2023, QLoRA, arXiv 2305.14314, section 3 and appendix E): 2^b quantiles of the normal law, a
true zero among them, scaled to -1 ... 1; scale = max |x|. Worked, 4 bits: x = (-2, .2, 1): scale 2, table -1, .0796, .4407
(x / scale = .5 lies between .4407 and .5626), decoded -2, .159, .881.

`fp` (E2M1, the four-bit float of OCP's Microscaling Formats 1.0, section 5.3.3): 0, .5, 1, 1.5, 2, 3, 4, 6 and their
negatives, code = sign x 8 + place; scale = max |x| / 6. Worked, scale 1: x = (6, -2.4, 2.5) gives 6, -2, 2 (a tie). With E8M0
scales this is MXFP4: quant/scales.py rounds max |x| / 6 to 2^(floor(log2 max |x|) - 2), and GGUF's MXFP4 has the same codes.

Stored: codes (O, I) packed, scales (O, ceil(I / g)); b + 16/g bits a weight, b + 8/g with scales of a byte.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from quant.scheme import Scheme, inverse

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@lru_cache
def normal_float(bits: int) -> Tensor:
    """(2^bits,) float32, ascending from -1 to 1. At 4 bits the published NF4 table.

    One half more entries above zero than below; the outermost quantile is the mean of 1 / (2 x 2^b) and 1 / (2 (2^b - 1)) from the end.
    """
    entries = 1 << bits
    outer = 1 - (1 / (2 * entries) + 1 / (2 * (entries - 1))) / 2
    above = _quantiles(outer, entries // 2 + 1)
    below = -_quantiles(outer, entries // 2)
    table = torch.cat((below, torch.zeros(1, dtype=torch.float64), above)).sort().values
    return (table / table.max()).float()


def _quantiles(outer: float, count: int) -> Tensor:
    """The normal law's quantiles at `count` even steps from `outer` down to 1/2, which is left out."""
    return torch.special.ndtri(torch.linspace(outer, 0.5, count, dtype=torch.float64)[:-1])


def fit_nf(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    return groups.abs().amax(1), None


def code_nf(x: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    return torch.bucketize(x * inverse(scale), _midpoints(normal_float(bits))).to(torch.uint8)


def decode_nf(codes: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    return normal_float(bits)[codes.long()] * scale


def fit_fp(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    return groups.abs().amax(1) / E2M1[-1], None


def code_fp(x: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    scaled = x * inverse(scale)
    place = torch.bucketize(scaled.abs(), _midpoints(torch.tensor(E2M1)))
    return (place + 8 * ((scaled < 0) & (place > 0))).to(torch.uint8)  # no negative zero


def decode_fp(codes: Tensor, scale: Tensor, minimum: None, bits: int) -> Tensor:
    table = torch.tensor(E2M1)
    return torch.cat((table, -table))[codes.long()] * scale


def _midpoints(table: Tensor) -> Tensor:
    return (table[1:] + table[:-1]) / 2


NF = Scheme(fit_nf, code_nf, decode_nf)
FP = Scheme(fit_fp, code_fp, decode_fp, widths=(4,))
