"""A quantized copy of any torch module, and its file.

Every matrix is quantized, embeddings included; a tied pair once, and it stays tied in the copy. The copy computes with
what the packed bytes decode to, so the draft that is measured is the draft that is stored. The original is not touched.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from quant.bytes import STORED_BYTES, pass_bytes, unique_parameters
from quant.formats import Format, QuantizedTensor, parse_format, quantize


@dataclass(frozen=True)
class TensorReport:
    """One tensor of a draft, each name of a tied one a row of its own: bytes stored, bits a weight, and 10 log10(sum w^2 / sum (w - w')^2) in dB."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    bits_per_weight: float
    sqnr_db: float | None  # None: stored as it is, or without error
    quantized: bool
    note: str = ""


@dataclass
class QuantizedModel:
    """`module` computes; `packed` is what is stored and counted; `report` says how each tensor fared."""

    module: nn.Module
    packed: dict[str, QuantizedTensor]
    format: Format
    report: list[TensorReport]

    @property
    def bytes_per_pass(self) -> int:
        return pass_bytes(self.module, self.packed)

    @property
    def stored_bytes(self) -> int:
        return sum(row.bytes for row in self.report)


def quantize_model(module: nn.Module, format: Format) -> QuantizedModel:
    """A copy of `module` in eval mode with every matrix rounded to `format`.

    Raises ValueError naming a tensor that cannot be quantized, or where there is no matrix at all.
    """
    packed = {
        name: quantize(parameter, format, name)
        for name, parameter in unique_parameters(module).items()
        if parameter.dim() == 2
    }
    if not packed:
        raise ValueError(f"{type(module).__name__} holds no matrix to quantize")
    draft = _with_weights(module, packed)
    report = _report(module, draft, packed)
    return QuantizedModel(draft, packed, format, report)


@torch.no_grad()
def _with_weights(module: nn.Module, packed: dict[str, QuantizedTensor]) -> nn.Module:
    """A deep copy (ties kept) whose parameters are the decoded ones; nothing is shared with `module`."""
    draft = copy.deepcopy(module).eval().requires_grad_(False)
    for name, parameter in draft.named_parameters(remove_duplicate=True):
        if name in packed:
            parameter.copy_(packed[name].dequantize())
        else:
            parameter.copy_(parameter.to(torch.bfloat16))  # what stays, stays in 16 bits
    return draft


def sqnr_db(weight: Tensor, decoded: Tensor) -> float | None:
    """Signal over error in dB, None where there is no error."""
    weight = weight.detach().double()
    error = float((weight - decoded.double()).square().sum())
    signal = float(weight.square().sum())
    return 10 * math.log10(signal / error) if error > 0 and signal > 0 else None


def _aliases(module: nn.Module) -> dict[str, list[str]]:
    """First name of a tied parameter -> its other names."""
    first = {id(p): name for name, p in unique_parameters(module).items()}
    aliases: dict[str, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first[id(parameter)] != name:
            aliases.setdefault(first[id(parameter)], []).append(name)
    return aliases


def _report(module: nn.Module, draft: nn.Module, packed) -> list[TensorReport]:
    decoded, tied, rows = dict(draft.named_parameters()), _aliases(module), []
    for name, parameter in unique_parameters(module).items():
        size = packed[name].bytes if name in packed else parameter.numel() * STORED_BYTES
        note = "" if name in packed else "kept in 16 bits: no matrix"
        row = TensorReport(
            name,
            tuple(parameter.shape),
            size,
            8 * size / parameter.numel(),
            sqnr_db(parameter, decoded[name]),
            name in packed,
            note,
        )
        rows.append(row)
        for other in tied.get(name, ()):
            note = f"tied to {name}, stored there"
            rows.append(replace(row, name=other, bytes=0, bits_per_weight=0.0, note=note))
    return rows


def packed_state(model: QuantizedModel) -> tuple[dict[str, Tensor], dict]:
    """What a file holds: NAME.codes and NAME.scales of each matrix, the rest in bfloat16; and the format's fields."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in unique_parameters(model.module).items():
        if name in model.packed:
            tensors[f"{name}.codes"] = model.packed[name].codes
            tensors[f"{name}.scales"] = model.packed[name].scales
        else:
            tensors[name] = parameter.detach().to(torch.bfloat16)
    f = model.format
    fields = {
        "format": f.name,
        "bits": f.bits,
        "group": f.group,
        "scheme": f.scheme,
        "scale": f.scale,
    }
    return tensors, fields


def expected_state(module: nn.Module, format: Format) -> dict[str, torch.Size]:
    """Names and shapes packed_state writes for a module of this shape."""
    shapes: dict[str, torch.Size] = {}
    for name, parameter in unique_parameters(module).items():
        if parameter.dim() == 2:
            rows, width = parameter.shape
            scales = torch.Size((rows, -(-width // format.group)))
            codes = format.stored_bytes((rows, width)) - 2 * scales.numel()
            shapes[f"{name}.codes"], shapes[f"{name}.scales"] = torch.Size((codes,)), scales
        else:
            shapes[name] = parameter.shape
    return shapes


@torch.no_grad()
def from_packed_state(
    module: nn.Module, tensors: dict[str, Tensor], format: Format
) -> QuantizedModel:
    """The draft of `tensors` (names and shapes as expected_state says) in the shape of `module`, which stays as it is.

    Raises ValueError where a tensor has another type than the format's.
    """
    packed = {}
    for name, parameter in unique_parameters(module).items():
        if parameter.dim() != 2:
            if tensors[name].dtype != torch.bfloat16 or not tensors[name].isfinite().all():
                raise ValueError(f"{name}: must be finite numbers in bfloat16")
            continue
        codes, scales = tensors[f"{name}.codes"], tensors[f"{name}.scales"]
        if codes.dtype != torch.uint8 or scales.dtype != torch.float16:
            raise ValueError(f"{name}: codes must be uint8 and scales float16")
        if not scales.isfinite().all():
            raise ValueError(f"{name}: a scale is NaN or infinite")
        packed[name] = QuantizedTensor(format, tuple(parameter.shape), codes, scales)
    draft = copy.deepcopy(module)
    for name, parameter in draft.named_parameters(remove_duplicate=True):
        if name not in packed:
            parameter.copy_(tensors[name].float())
    draft = _with_weights(draft, packed)
    return QuantizedModel(draft, packed, format, _report(draft, draft, packed))


def parse_fields(fields: object) -> Format:
    """The Format a config records. Raises ValueError where it is none."""
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        raise ValueError("no quantization fields (format, bits, group, scheme, scale)")
    format = parse_format(fields["format"])
    for name in ("bits", "group", "scheme", "scale"):
        if fields.get(name) != getattr(format, name):
            raise ValueError(
                f"{name} {fields.get(name)!r} is not that of format {format.name} "
                f"({getattr(format, name)!r})"
            )
    return format
