"""What general compressors reach on the same held-out bytes: the yardstick beside a model's bits per byte.

Twice: on the held-out text alone, and with the training text before it, size(training + held-out) - size(training), which is what a
compressor that has read the training text pays. zlib looks back 32 KB and gains little from it.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": lambda data: zlib.compress(data, 9),
    "bz2": lambda data: bz2.compress(data, 9),
    "lzma": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
}


def compressor_rates(train: bytes, held_out: bytes) -> dict[str, dict[str, float]]:
    """name -> {"alone", "after training text"} in bits per held-out byte. Raises ValueError where there are none."""
    if not held_out:
        raise ValueError("no held-out bytes to compress")
    rates = {}
    for name, compress in COMPRESSORS.items():
        more = len(compress(train + held_out)) - len(compress(train))
        sizes = {"alone": len(compress(held_out)), "after training text": more}
        rates[name] = {kind: 8 * size / len(held_out) for kind, size in sizes.items()}
    return rates
