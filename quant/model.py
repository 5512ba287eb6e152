"""A quantized copy of any torch module, and its file.

Every matrix is quantized, embeddings included; a tied pair once, and it stays tied in the copy. The copy computes with
what the packed bytes decode to, so the draft that is measured is the draft that is stored. The original is not touched.

A file holds NAME.codes and NAME.scales of each matrix (NAME.minima, NAME.unit where its format has them), and the rest in bfloat16.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from quant.bytes import STORED_BYTES, looked_up, pass_bytes, unique_parameters
from quant.formats import Format, parse_format
from quant.mix import Mix
from quant.scales import SCALES
from quant.tensor import QuantizedTensor, quantize


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
    format: Format | Mix
    report: list[TensorReport]

    @property
    def bytes_per_pass(self) -> int:
        return pass_bytes(self.module, self.packed)

    @property
    def stored_bytes(self) -> int:
        return sum(row.bytes for row in self.report)

    @property
    def nominal_bits(self) -> float:
        """Bits a code, averaged over the weights of all matrices: the bits of `format` where it is one for all."""
        return self._mean(lambda q: q.format.bits * math.prod(q.shape))

    @property
    def bits_per_weight(self) -> float:
        """Bits stored for a weight of a matrix, scales included."""
        return self._mean(lambda q: 8 * q.bytes)

    def relative_squared_error(self, module: nn.Module) -> float:
        """sum (w - w')^2 / sum w^2 over all matrices, against the `module` this is a copy of."""
        mine, theirs = (unique_parameters(m) for m in (self.module, module))
        error = sum(float((mine[n] - theirs[n]).double().square().sum()) for n in self.packed)
        return error / sum(float(theirs[n].double().square().sum()) for n in self.packed)

    def _mean(self, total) -> float:
        weights = sum(math.prod(q.shape) for q in self.packed.values())
        return sum(map(total, self.packed.values())) / weights


def quantize_model(
    module: nn.Module, format: Format | Mix, moments: Mapping[str, Tensor] | None = None
) -> QuantizedModel:
    """A copy of `module` in eval mode with every matrix rounded to `format`.

    moments: of the matrices' inputs (quant/moments.py), where the format needs them. Raises ValueError naming a tensor that
    cannot be quantized, or where there is no matrix at all.
    """
    matrices = {n: p for n, p in unique_parameters(module).items() if p.dim() == 2}
    if not matrices:
        raise ValueError(f"{type(module).__name__} holds no matrix to quantize")
    if isinstance(format, Mix):
        format.check(matrices)
    moments = with_look_ups(module, moments) if moments is not None else {}
    packed = {n: quantize(p, format.of(n), n, moments.get(n)) for n, p in matrices.items()}
    return assemble(module, packed, format)


def with_look_ups(module: nn.Module, moments: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`moments`, and the identity for embeddings that are only looked up: all their errors weigh alike, and none helps another."""
    parameters = unique_parameters(module)
    rows_only = {n: torch.eye(parameters[n].shape[1]) for n in looked_up(module)}
    return {**rows_only, **moments}


def assemble(
    module: nn.Module, packed: dict[str, QuantizedTensor], format: Format | Mix
) -> QuantizedModel:
    """The copy of `module` that computes with `packed`; matrices that are not in it stay in 16 bits."""
    draft = _with_weights(module, packed)
    return QuantizedModel(draft, packed, format, _report(module, draft, packed))


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
    """The tensors of a file, and the format's fields."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in unique_parameters(model.module).items():
        if name in model.packed:
            parts = model.packed[name].parts
            tensors |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
        else:
            tensors[name] = parameter.detach().to(torch.bfloat16)
    f = model.format
    if isinstance(f, Mix):
        return tensors, {"format": "mix", "bits": model.nominal_bits, "matrices": f.to_json()}
    return tensors, {"format": f.name} | {name: getattr(f, name) for name in FIELDS}


FIELDS = ("bits", "group", "scheme", "scale")


def expected_state(module: nn.Module, format: Format | Mix) -> dict[str, torch.Size]:
    """Names and shapes packed_state writes for a module of this shape."""
    shapes: dict[str, torch.Size] = {}
    for name, parameter in unique_parameters(module).items():
        if parameter.dim() == 2:
            stored = format.of(name).stored_shapes(tuple(parameter.shape))
            shapes |= {f"{name}.{part}": torch.Size(shape) for part, shape in stored.items()}
        else:
            shapes[name] = parameter.shape
    return shapes


@torch.no_grad()
def from_packed_state(
    module: nn.Module, tensors: dict[str, Tensor], format: Format | Mix
) -> QuantizedModel:
    """The draft of `tensors` (names and shapes as expected_state says) in the shape of `module`, which stays as it is.

    Raises ValueError where a tensor has another type than the format's.
    """
    packed = {}
    for name, parameter in unique_parameters(module).items():
        if parameter.dim() == 2:
            packed[name] = _stored_matrix(name, tuple(parameter.shape), tensors, format.of(name))
        elif tensors[name].dtype != torch.bfloat16 or not tensors[name].isfinite().all():
            raise ValueError(f"{name}: must be finite numbers in bfloat16")
    draft = copy.deepcopy(module)
    for name, parameter in draft.named_parameters(remove_duplicate=True):
        if name not in packed:
            parameter.copy_(tensors[name].float())
    return assemble(draft, packed, format)


def _stored_matrix(
    name: str, shape: tuple[int, int], tensors: dict[str, Tensor], format: Format
) -> QuantizedTensor:
    parts = {part: tensors[f"{name}.{part}"] for part in format.stored_shapes(shape)}
    kind = SCALES[format.scale].dtype
    types = {"codes": torch.uint8, "scales": kind, "minima": torch.float16, "unit": torch.float32}
    for part, tensor in parts.items():
        if tensor.dtype != types[part]:
            raise ValueError(f"{name}: {part} must be {str(types[part]).removeprefix('torch.')}")
    matrix = QuantizedTensor(format, shape, **parts)
    floats = [matrix.scale_values(), *(parts[p] for p in ("minima",) if p in parts)]
    if not all(bool(values.isfinite().all()) for values in floats):
        raise ValueError(f"{name}: a scale is NaN or infinite")
    return matrix


def parse_fields(fields: object) -> Format | Mix:
    """The Format a config records. Raises ValueError where it is none."""
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        raise ValueError("no quantization fields (format, bits, group, scheme, scale)")
    if fields["format"] == "mix":
        return Mix.from_json("mix", fields.get("matrices"))
    format = parse_format(fields["format"])
    for name in FIELDS:
        if fields.get(name) != getattr(format, name):
            raise ValueError(
                f"{name} {fields.get(name)!r} is not that of format {format.name} "
                f"({getattr(format, name)!r})"
            )
    return format
