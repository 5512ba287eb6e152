"""From what a person or a table names to a copy that drafts: formats, mixes from a file, and the inputs some formats ask for.

Inputs are collected on the course's training plates alone: windows of 512 bytes, evenly spaced over all of them. So a format
that looks at inputs has seen no prompt, and no plate that prompts come from.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from experiments.paths import DATA
from micro.files import read_json
from micro.model import Transformer
from micro.text import as_tokens, read_course
from quant.formats import Format, parse_format
from quant.mix import Mix
from quant.moments import input_moments

MIX = "mix:"
WINDOWS, BATCH = 16, 8


def read_format(spec: str) -> Format | Mix:
    """A format's name, or mix:FILE.json. Raises ValueError, FileFault naming the file."""
    if not spec.startswith(MIX):
        return parse_format(spec)
    path = Path(spec.removeprefix(MIX))
    return Mix.from_json(str(path), read_json(path))


def calibration_windows(context: int) -> Tensor:
    """(WINDOWS, context) bytes of the training plates. Raises FileFault where the course cannot be read."""
    tokens = as_tokens(read_course(DATA).joined("train"))
    starts = torch.linspace(0, len(tokens) - context, WINDOWS).long().tolist()
    return torch.stack([tokens[start : start + context] for start in starts])


@lru_cache
def calibration_hash(context: int) -> str:
    """Of the text that inputs are collected on."""
    return hashlib.sha256(calibration_windows(context).numpy().tobytes()).hexdigest()[:16]


@torch.inference_mode()
def calibrated(model: Transformer) -> dict[str, Tensor]:
    """The second moments of every matrix's inputs; about a second for micro."""
    windows = calibration_windows(min(model.context, 512))
    return input_moments(model, lambda: [model(part) for part in windows.split(BATCH)])
