"""A Format says how a matrix becomes codes and scales; a QuantizedTensor is the result, packed as it is stored.

Groups run along the input: a row of I weights is ceil(I / g) groups, the last one possibly short. Stored, for a matrix
(O, I) at b bits: `codes` uint8 (ceil(O I b / 8),) and `scales` float16 (O, ceil(I / g)). Within a full group the codes
are packed in the order 0, g/2, 1, g/2 + 1, ...: at 4 bits that is GGUF's Q4_0, whose byte holds entries i and i + 16.
Bits per weight: b + 16 / g.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from quant import rtn
from quant.packing import pack, packed_size, unpack

# name -> (encode, decode); see quant/rtn.py for their shapes
SCHEMES: dict[str, tuple[Callable, Callable]] = {
    "rtn": (rtn.encode_rtn, rtn.decode_rtn),
    "absmax": (rtn.encode_absmax, rtn.decode_absmax),
}


@dataclass(frozen=True)
class Format:
    """bits a code (2 ... 8), weights a group (even), scheme, type of the stored scale.

    Raises ValueError naming the field.
    """

    name: str
    bits: int
    group: int = 32
    scheme: str = "rtn"
    scale: str = "fp16"

    def __post_init__(self) -> None:
        if not isinstance(self.bits, int) or not 2 <= self.bits <= 8:
            raise ValueError(f"format {self.name!r}: bits must be 2 to 8, not {self.bits!r}")
        if not isinstance(self.group, int) or self.group < 2 or self.group % 2:
            raise ValueError(
                f"format {self.name!r}: group must be even, 2 or above, not {self.group!r}"
            )
        if self.scheme not in SCHEMES:
            raise ValueError(
                f"format {self.name!r}: scheme {self.scheme!r} is none of {', '.join(SCHEMES)}"
            )
        if self.scale != "fp16":
            raise ValueError(f"format {self.name!r}: scale {self.scale!r} is none of fp16")

    @property
    def bits_per_weight(self) -> float:
        """Of a matrix whose width the group divides: rtn4 has 4 + 16/32 = 4.5."""
        return self.bits + 16 / self.group

    def stored_bytes(self, shape: tuple[int, int]) -> int:
        """Bytes of codes and scales of a matrix (O, I)."""
        rows, width = shape
        return packed_size(rows * width, self.bits) + 2 * rows * -(-width // self.group)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("rtn8", 8),
        Format("rtn4", 4),
        Format("rtn3", 3),
        Format("rtn2", 2),
        Format("absmax4", 4, scheme="absmax"),
        Format("absmax3", 3, scheme="absmax"),
    )
}


def parse_format(name: str) -> Format:
    """A Format by its name: one of FORMATS, or scheme, bits and -gN as in `rtn3-g64`. Raises ValueError listing them."""
    if name in FORMATS:
        return FORMATS[name]
    match = re.fullmatch(r"([a-z]+)([2-8])(?:-g([1-9]\d{0,3}))?", name)
    if match and match[1] in SCHEMES:
        return Format(name, int(match[2]), int(match[3] or 32), match[1])
    raise ValueError(
        f"unknown format {name!r}; there are {', '.join(FORMATS)}, and any of "
        f"{', '.join(SCHEMES)} with 2 to 8 bits and a group, as in rtn3-g64"
    )


@dataclass(frozen=True)
class QuantizedTensor:
    """A matrix as it is stored. codes uint8 (packed bytes,), scales float16 (O, groups a row)."""

    format: Format
    shape: tuple[int, int]
    codes: Tensor
    scales: Tensor

    @property
    def bytes(self) -> int:
        return self.codes.numel() + self.scales.numel() * self.scales.element_size()

    def dequantize(self) -> Tensor:
        """(O, I) float32: what a draft computes with."""
        rows, width = self.shape
        f = self.format
        codes = unpack(self.codes, f.bits, rows * width)[_unpacking_order(rows, width, f.group)]
        groups = _to_groups(codes.reshape(rows, width), f.group)
        values = SCHEMES[f.scheme][1](groups, self.scales.reshape(-1), f.bits)
        return values.reshape(rows, -1)[:, :width].contiguous()


def quantize(weight: Tensor, format: Format, name: str = "weight") -> QuantizedTensor:
    """Encode a matrix (O, I), which stays as it was.

    Raises ValueError naming the tensor: not a matrix, NaN or infinity, or a scale beyond float16.
    """
    if weight.dim() != 2 or not weight.numel():
        raise ValueError(f"{name} has shape {tuple(weight.shape)}; only matrices are quantized")
    weight = weight.detach().float().cpu().contiguous()
    if not weight.isfinite().all():
        raise ValueError(f"{name} holds NaN or infinity and cannot be quantized")
    rows, width = weight.shape
    codes, scales = SCHEMES[format.scheme][0](_to_groups(weight, format.group), format.bits)
    if not scales.isfinite().all():
        raise ValueError(f"{name} needs a scale beyond float16's 65504 and cannot be quantized")
    codes = codes.reshape(rows, -1)[:, :width].reshape(-1)
    order = _packing_order(rows, width, format.group)
    return QuantizedTensor(
        format, (rows, width), pack(codes[order], format.bits), scales.reshape(rows, -1)
    )


def _to_groups(matrix: Tensor, group: int) -> Tensor:
    """(O, I) -> (O x groups a row, g), a short last group padded with zeros."""
    padding = -matrix.shape[1] % group
    return torch.nn.functional.pad(matrix, (0, padding)).reshape(-1, group)


def _packing_order(rows: int, width: int, group: int) -> Tensor:
    """(O I,) where in the matrix the n-th packed code comes from: halves of each full group interleaved."""
    full = width - width % group
    index = torch.arange(width)
    halves = index[:full].reshape(-1, 2, group // 2).transpose(1, 2).reshape(-1)
    row = torch.cat((halves, index[full:]))
    return (torch.arange(rows)[:, None] * width + row).reshape(-1)


def _unpacking_order(rows: int, width: int, group: int) -> Tensor:
    """Where in the packed stream the n-th code of the matrix lies."""
    return _packing_order(rows, width, group).argsort()
