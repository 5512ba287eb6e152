"""A QuantizedTensor is a matrix as it is stored: packed codes, scales, and what else its format keeps.

For a matrix (O, I) at b bits: `codes` uint8 (ceil(O I b / 8),), `scales` (O, ceil(I / g)) float16 or one byte each; minmax keeps
`minima` float16 (O, ceil(I / g)), scales in fp8 a `unit` float32 (1,). Within a full group the codes are packed in the order
0, g/2, 1, g/2 + 1, ...: at 4 bits those are the bytes of GGUF's Q4_0, Q4_1 and MXFP4, which hold entries i and i + 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quant.formats import SCHEMES, Format
from quant.gptq import compensated
from quant.hadamard import rotate, rotate_both
from quant.packing import pack, unpack
from quant.scales import SCALES

PARTS = ("codes", "scales", "minima", "unit")


@dataclass(frozen=True)
class QuantizedTensor:
    """A matrix as it is stored; the module says what its parts are."""

    format: Format
    shape: tuple[int, int]
    codes: Tensor
    scales: Tensor
    minima: Tensor | None = None
    unit: Tensor | None = None

    @property
    def parts(self) -> dict[str, Tensor]:
        """What is written of it, by name."""
        found = {name: getattr(self, name) for name in PARTS}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @property
    def bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self.parts.values())

    def scale_values(self) -> Tensor:
        """(O, ceil(I / g)) float32: the scales as decoding uses them."""
        return SCALES[self.format.scale].load(self.scales, self.unit)

    def dequantize(self) -> Tensor:
        """(O, I) float32: what a draft computes with."""
        rows, width = self.shape
        f = self.format
        codes = unpack(self.codes, f.bits, rows * width)[_unpacking_order(rows, width, f.group)]
        minima = None if self.minima is None else per_weight(self.minima.float(), f.group, width)
        scales = per_weight(self.scale_values(), f.group, width)
        values = SCHEMES[f.scheme].decode(codes.reshape(rows, width), scales, minima, f.bits)
        return (rotate(values, f.group) if f.rotated else values).contiguous()


def quantize(
    weight: Tensor, format: Format, name: str = "weight", moment: Tensor | None = None
) -> QuantizedTensor:
    """Encode a matrix (O, I), which stays as it was.

    moment: (I, I) second moments of its inputs, where the format needs them. Raises ValueError naming the tensor: not a
    matrix, NaN or infinity, a scale beyond float16, moments missing or of another size.
    """
    weight = _checked(weight, name)
    moment = _checked_moment(moment, format, weight.shape[1], name)
    if format.rotated:
        weight = rotate(weight.double(), format.group).float()
        moment = None if moment is None else rotate_both(moment, format.group)
    rows, width = weight.shape
    importance = moment.diagonal().float() if format.weighed else None
    scale, minimum = _fit(weight, format, importance)
    _check_range(scale, minimum, format, name)
    kind = SCALES[format.scale]
    unit = kind.unit(scale)
    if format.compensated:
        codes, stored, minima = _compensated(weight, moment, format, importance, unit)
        _check_range(kind.load(stored, unit), minima, format, name)
    else:
        stored = kind.store(scale, unit)
        minima = None if minimum is None else minimum.to(torch.float16)
        used = kind.load(stored, unit) if kind.rounds_codes else scale
        minima_at = None if minimum is None else per_weight(minimum, format.group, width)
        code = SCHEMES[format.scheme].code
        codes = code(weight, per_weight(used, format.group, width), minima_at, format.bits)
    return QuantizedTensor(format, (rows, width), pack_matrix(codes, format), stored, minima, unit)


def _checked(weight: Tensor, name: str) -> Tensor:
    if weight.dim() != 2 or not weight.numel():
        raise ValueError(f"{name} has shape {tuple(weight.shape)}; only matrices are quantized")
    weight = weight.detach().float().cpu().contiguous()
    if not weight.isfinite().all():
        raise ValueError(f"{name} holds NaN or infinity and cannot be quantized")
    return weight


def _checked_moment(moment: Tensor | None, format: Format, width: int, name: str) -> Tensor | None:
    if not format.needs_inputs:
        return None
    if moment is None:
        raise ValueError(
            f"{name}: {format.name} needs the second moments of its inputs, collected on some text"
        )
    if moment.shape != (width, width) or not moment.isfinite().all():
        raise ValueError(f"{name}: moments must be finite and ({width}, {width}), its inputs' own")
    return moment.detach().double().cpu()


def _check_range(scale: Tensor, minimum: Tensor | None, format: Format, name: str) -> None:
    """Raises ValueError where a scale or minimum is beyond what stores it: float16, or float32 for the others."""
    fp16 = format.scale == "fp16"
    for values in (scale, minimum):
        if values is not None and not (values.half() if fp16 else values).isfinite().all():
            what = "float16's 65504" if fp16 else "float32"
            raise ValueError(f"{name} needs a scale beyond {what} and cannot be quantized")


def _fit(weight: Tensor, format: Format, importance: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Scales (O, ceil(I / g)) float32, and minima; the short last group is fitted by itself."""
    rows, width = weight.shape
    fit, found = SCHEMES[format.scheme].fit, []
    full = width - width % format.group
    for columns, size in ((slice(0, full), format.group), (slice(full, width), width - full)):
        if columns.start < columns.stop:
            groups = weight[:, columns].reshape(-1, size)
            weights = None
            if importance is not None:  # a row's groups follow one another
                weights = importance[columns].reshape(1, -1).expand(rows, -1).reshape(-1, size)
            found.append(
                [v if v is None else v.reshape(rows, -1) for v in fit(groups, format.bits, weights)]
            )
    scales, minima = zip(*found)
    return torch.cat(scales, 1), None if minima[0] is None else torch.cat(minima, 1)


def _compensated(
    weight: Tensor, moment: Tensor, format: Format, importance: Tensor | None, unit: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes (O, I), stored scales and minima of quant.gptq: every code is taken from what is stored."""
    scheme, kind = SCHEMES[format.scheme], SCALES[format.scale]
    stored, minima = [], []

    def fit(group: Tensor, columns: slice) -> tuple[Tensor, Tensor | None]:
        weights = None if importance is None else importance[columns].expand_as(group)
        scale, minimum = scheme.fit(group, format.bits, weights)
        stored.append(kind.store(scale, unit))
        if minimum is not None:
            minima.append(minimum.to(torch.float16))
            minimum = minima[-1].float()
        return kind.load(stored[-1], unit), minimum

    def rounded(x: Tensor, scale: Tensor, minimum: Tensor | None) -> tuple[Tensor, Tensor]:
        codes = scheme.code(x, scale, minimum, format.bits)
        return codes, scheme.decode(codes, scale, minimum, format.bits)

    codes = compensated(weight, moment, format.group, fit, rounded)
    return codes, torch.stack(stored, 1), torch.stack(minima, 1) if minima else None


def per_weight(per_group: Tensor, group: int, width: int) -> Tensor:
    """(O, ceil(I / g)) -> (O, I): each weight's own."""
    return per_group.repeat_interleave(group, dim=1)[:, :width]


def pack_matrix(codes: Tensor, format: Format) -> Tensor:
    """(O, I) codes -> (ceil(O I b / 8),) bytes, in the module's order."""
    rows, width = codes.shape
    return pack(codes.reshape(-1)[_packing_order(rows, width, format.group)], format.bits)


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
