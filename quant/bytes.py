"""What one pass reads, to the byte.

A pass over one token reads every matrix and norm once. Two exceptions: a tied matrix counts once; an untied input
embedding is only looked up, so it counts one row a pass. What is not quantized stays in 16 bits.

The three c's (draft bytes / target bytes):
    nominal      bits / 16                       4 bits: .25
    weights      the draft's weight bytes / the target's in bfloat16
    with cache   (draft weights + its cache) / (target weights + its cache), at a stated mean context
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from quant.tensor import QuantizedTensor

STORED_BYTES = 2  # of a number that stays as it is: bfloat16


@dataclass(frozen=True)
class Cost:
    """c of a draft by its three definitions."""

    nominal: float
    weights: float
    with_cache: float


def unique_parameters(module: nn.Module) -> dict[str, Tensor]:
    """name -> parameter, a tied pair under its first name only."""
    return dict(module.named_parameters(remove_duplicate=True))


def looked_up(module: nn.Module) -> set[str]:
    """Names of embeddings that only serve look-ups: no matrix product uses the same parameter."""
    products = {id(m.weight) for m in module.modules() if isinstance(m, nn.Linear)}
    return {
        f"{name}.weight" if name else "weight"
        for name, m in module.named_modules()
        if isinstance(m, nn.Embedding) and id(m.weight) not in products
    }


def pass_bytes(module: nn.Module, quantized: Mapping[str, QuantizedTensor] | None = None) -> int:
    """Weight bytes a one-token pass reads: packed size of what is `quantized`, 2 bytes a number of the rest."""
    quantized, rows_only = quantized or {}, looked_up(module)
    total = 0
    for name, parameter in unique_parameters(module).items():
        size = quantized[name].bytes if name in quantized else parameter.numel() * STORED_BYTES
        total += -(-size // parameter.shape[0]) if name in rows_only else size
    return total


def costs(
    draft: int, target: int, nominal_bits: float, draft_cache: int, target_cache: int
) -> Cost:
    """The three c's from weight bytes a pass and cache bytes at the mean context."""
    return Cost(
        nominal=nominal_bits / 16,
        weights=draft / target,
        with_cache=(draft + draft_cache) / (target + target_cache),
    )
