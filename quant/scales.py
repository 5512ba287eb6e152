"""How a group's scale is stored. A scale of a byte instead of two saves 8/g bits a weight.

    fp16   float16. Codes are taken from the unrounded scale, as GGUF does.
    fp8    E4M3 over a float32 of the whole tensor: unit = max |scale| / 448, stored = scale / unit. E4M3 ends at 448; what lies
           beyond, torch's cast turns into NaN or into 448, by its version, so the quotient is clamped first (Micikevicius et al.
           2022, arXiv 2209.05433).
    e8m0   a byte e that means 2^(e - 127): 2^floor(log2(1.5 x scale)), which is 3/4 to 3/2 of the scale (OCP Microscaling
           Formats 1.0, section 5.4.1). Holds no sign.

Under fp8 and e8m0 codes are taken from the stored scale: its rounding is too coarse to leave to the decoder.
Worked: scales (.7, 44.8) have unit .1 and are stored as 7 and 448; .7 as e8m0 is 2^0 = 1 (1.5 x .7 = 1.05), byte 127.

Stored, for a matrix (O, I): (O, ceil(I / g)) float16 or uint8; `unit` float32 (1,), fp8 alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

E4M3_MOST = 448.0
BIAS = 127  # of an E8M0 exponent


@dataclass(frozen=True)
class ScaleType:
    """unit: (scales) -> (1,) float32, None where `has_unit` is false. store: (scales, unit) -> what is written. load: back to float32."""

    dtype: torch.dtype
    unit: Callable[[Tensor], Tensor | None]
    store: Callable[[Tensor, Tensor | None], Tensor]
    load: Callable[[Tensor, Tensor | None], Tensor]
    signed: bool = True
    has_unit: bool = False
    rounds_codes: bool = True  # codes are taken from the stored scale

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize


def _no_unit(scales: Tensor) -> None:
    return None


def _store_fp16(scales: Tensor, unit: None) -> Tensor:
    return scales.to(torch.float16)


def _load_fp16(stored: Tensor, unit: None) -> Tensor:
    return stored.float()


def _unit_fp8(scales: Tensor) -> Tensor:
    # never so small that a quotient overflows
    return (scales.abs().amax() / E4M3_MOST).clamp(min=torch.finfo(torch.float32).tiny).reshape(1)


def _store_fp8(scales: Tensor, unit: Tensor) -> Tensor:
    return (scales / unit).clamp(-E4M3_MOST, E4M3_MOST).to(torch.float8_e4m3fn).view(torch.uint8)


def _load_fp8(stored: Tensor, unit: Tensor) -> Tensor:
    return stored.contiguous().view(torch.float8_e4m3fn).float() * unit


def _store_e8m0(scales: Tensor, unit: None) -> Tensor:
    _, exponent = torch.frexp(
        1.5 * scales
    )  # x = m 2^e with m in [1/2, 1), so floor(log2 x) = e - 1
    stored = (exponent - 1 + BIAS).clamp(0, 254)
    return torch.where(scales > 0, stored, 0).to(torch.uint8)


def _load_e8m0(stored: Tensor, unit: None) -> Tensor:
    return torch.exp2(stored.float() - BIAS)


SCALES: dict[str, ScaleType] = {
    "fp16": ScaleType(torch.float16, _no_unit, _store_fp16, _load_fp16, rounds_codes=False),
    "fp8": ScaleType(torch.uint8, _unit_fp8, _store_fp8, _load_fp8, has_unit=True),
    "e8m0": ScaleType(torch.uint8, _no_unit, _store_e8m0, _load_e8m0, signed=False),
}
