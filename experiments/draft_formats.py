"""From what a person or a table names to a copy that drafts: formats, and mixes from a file."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from micro.files import read_json
from quant.formats import Format, parse_format
from quant.mix import Mix
from specdec.calibration import calibration_windows

MIX = "mix:"


def read_format(spec: str) -> Format | Mix:
    """A format's name, or mix:FILE.json. Raises ValueError, FileFault naming the file."""
    if not spec.startswith(MIX):
        return parse_format(spec)
    path = Path(spec.removeprefix(MIX))
    return Mix.from_json(str(path), read_json(path))


@lru_cache
def calibration_hash(context: int) -> str:
    """Of the text that inputs are collected on."""
    return hashlib.sha256(calibration_windows(context).numpy().tobytes()).hexdigest()[:16]
