"""Codes of 1 to 8 bits <-> bytes: one little-endian stream of bits, ceil(values x bits / 8) bytes.

Code i fills bits i x b ... i x b + b - 1 of the stream, bit 0 being the lowest of byte 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` codes of `bits` bits take: 32 codes of 3 bits take 12."""
    return (count * bits + 7) // 8


def _check(bits: int) -> None:
    if not 1 <= bits <= 8:
        raise ValueError(f"a code has 1 to 8 bits, not {bits}")


def pack(codes: Tensor, bits: int) -> Tensor:
    """(n,) uint8 codes below 2^bits -> (ceil(n bits / 8),) uint8. Raises ValueError on a code that does not fit."""
    _check(bits)
    low, high = (int(codes.min()), int(codes.max())) if codes.numel() else (0, 0)
    if low < 0 or high >= 1 << bits:
        raise ValueError(f"code {low if low < 0 else high} does not fit {bits} bits")
    shifts = torch.arange(bits, dtype=torch.uint8)
    stream = (codes.reshape(-1, 1) >> shifts & 1).reshape(-1)  # (n bits,)
    stream = torch.nn.functional.pad(stream, (0, -len(stream) % 8)).reshape(-1, 8)
    return (stream << torch.arange(8, dtype=torch.uint8)).sum(1, dtype=torch.uint8)


def unpack(packed: Tensor, bits: int, count: int) -> Tensor:
    """The first `count` codes (count,) uint8. Raises ValueError where the bytes are not packed_size(count, bits)."""
    _check(bits)
    if packed.numel() != packed_size(count, bits):
        raise ValueError(
            f"{count} codes of {bits} bits take {packed_size(count, bits)} bytes, not {packed.numel()}"
        )
    stream = packed.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8) & 1
    stream = stream.reshape(-1)[: count * bits].reshape(count, bits)
    return (stream << torch.arange(bits, dtype=torch.uint8)).sum(1, dtype=torch.uint8)
