"""A matrix of which only some weights are stored, and what that takes: the values, and where they stand.

    free   any weights may stay. Places: a bitmap, 1 bit a weight of the whole matrix; or, where that is less, compressed rows (CSR): a
           column number for each value, 1 byte up to 256 columns and 2 beyond, and for each row and the end 4 bytes of where it begins
    2:4    two of each four: a place of 2 bits for each value, as the tensor cores of NVIDIA's Ampere read it (Mishra et al. 2021,
           arXiv 2104.08378, section 3.1)

Values are 2 bytes each in bfloat16. In a format, the values that stay are rounded in its groups one behind the other, row by row: a group
then holds weights that need not be neighbours. Worked, (4, 8) with half of it free: 16 values x 2 + 32 / 8 = 36 bytes of 64; 2:4
the same 16 x 2 + 16 x 2 / 8 = 36; in rtn4 16 / 2 + 2 + 4 = 14 (one short group). So half of the weights is .5625 of the bytes: 9 bits a weight,
and in rtn4 .5 x 4.5 + 1 = 3.25.

Shapes: matrix (O, I), mask (O, I) bool, values (N,)
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from quant.bytes import STORED_BYTES, pass_bytes, unique_parameters
from quant.formats import Format
from quant.tensor import QuantizedTensor, quantize

PATTERNS = ("free", "2:4")


@dataclass(frozen=True)
class SparseTensor:
    """mask: what is stored; values (N,) bfloat16, or a QuantizedTensor (1, N); pattern: how the places are."""

    mask: Tensor
    values: Tensor | QuantizedTensor
    pattern: str = "free"

    @property
    def kept(self) -> int:
        return int(self.mask.sum())

    @property
    def bytes(self) -> int:
        values = self.values
        packed = values.bytes if isinstance(values, QuantizedTensor) else STORED_BYTES * len(values)
        return packed + place_bytes(tuple(self.mask.shape), self.kept, self.pattern)

    def dequantize(self) -> Tensor:
        """(O, I) float32: what a draft computes with."""
        values = self.values
        values = values.dequantize()[0] if isinstance(values, QuantizedTensor) else values.float()
        matrix = torch.zeros(self.mask.shape)
        matrix[self.mask] = values
        return matrix


def place_bytes(shape: tuple[int, int], kept: int, pattern: str) -> int:
    """Of where `kept` values of a matrix stand."""
    rows, width = shape
    if pattern == "2:4":
        return -(-2 * kept // 8)
    bitmap = -(-rows * width // 8)
    return min(bitmap, kept * (1 if width <= 256 else 2) + 4 * (rows + 1))


def sparsify(
    weight: Tensor, mask: Tensor, pattern: str, format: Format | None = None, name: str = "weight"
) -> SparseTensor:
    """What is stored of a matrix. Raises ValueError where nothing stays, or as `quantize`."""
    if not mask.any():
        raise ValueError(f"{name}: no weight of it stays")
    values = weight.detach()[mask]  # row by row
    stored = values.to(torch.bfloat16) if format is None else quantize(values[None], format, name)
    return SparseTensor(mask, stored, pattern)


@dataclass(frozen=True)
class SparseModel:
    """`module` computes with what `packed` holds of its matrices, pruned ones and others; the rest is in 16 bits."""

    module: nn.Module
    packed: dict[str, SparseTensor | QuantizedTensor]

    @property
    def bytes_per_pass(self) -> int:
        return pass_bytes(self.module, self.packed)

    @property
    def stored_bytes(self) -> int:
        return sum(
            self.packed[n].bytes if n in self.packed else STORED_BYTES * p.numel()
            for n, p in unique_parameters(self.module).items()
        )

    @property
    def numbers(self) -> int:
        """Weights that are stored."""
        found = 0
        for name, parameter in unique_parameters(self.module).items():
            part = self.packed.get(name)
            found += part.kept if isinstance(part, SparseTensor) else parameter.numel()
        return found


@torch.no_grad()
def sparse_model(
    module: nn.Module, masks: Mapping[str, Tensor], pattern: str, format: Format | None = None
) -> SparseModel:
    """A copy of `module` with the matrices of `masks` pruned; in `format`, where one is given, every matrix. `module` stays as it was.

    Raises ValueError as sparsify and quantize.
    """
    packed: dict[str, SparseTensor | QuantizedTensor] = {}
    pruned = copy.deepcopy(module).eval().requires_grad_(False)
    for name, parameter in unique_parameters(pruned).items():
        if name in masks:
            packed[name] = sparsify(parameter, masks[name], pattern, format, name)
        elif format is not None and parameter.dim() == 2:
            packed[name] = quantize(parameter, format, name)
        stays = packed[name].dequantize() if name in packed else parameter.to(torch.bfloat16)
        parameter.copy_(stays)
    return SparseModel(pruned, packed)
