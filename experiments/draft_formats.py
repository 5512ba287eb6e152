"""From what a person or a table names to a copy that drafts: a format, a mix from a file, or a tuned copy that ships."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from micro.files import read_json
from micro.model import Transformer
from quant.formats import Format, parse_format
from quant.mix import Mix
from quant.model import QuantizedModel, quantize_model
from specdec.calibration import calibration_windows
from specdec.drafts.shipped import fingerprint
from specdec.drafts.stored import read_quantized
from specdec.drafts.tuned import ENDING, folder_of

MIX = "mix:"


def read_format(spec: str) -> Format | Mix:
    """A format's name, or mix:FILE.json. Raises ValueError, FileFault naming the file."""
    if not spec.startswith(MIX):
        return parse_format(spec)
    path = Path(spec.removeprefix(MIX))
    return Mix.from_json(str(path), read_json(path))


def low_bit_copy(
    target: Transformer, spec: str, moments: Callable[[], dict[str, Tensor]]
) -> QuantizedModel:
    """The copy of the target that `spec` names: read_format's, or tuned (rtn3+tuned). moments: of inputs, asked for where they are
    needed. Raises as read_format, and where no such tuned copy ships for this target."""
    if spec.endswith(ENDING):
        return read_quantized(folder_of(spec, target), target)
    format = read_format(spec)
    return quantize_model(target, format, moments() if format.needs_inputs else None)


def decided_by(target: Transformer, spec: str) -> dict:
    """What the copy depends on beside the target and its name: a record's key. Raises as low_bit_copy."""
    if spec.endswith(ENDING):
        return {"tuned": fingerprint(read_quantized(folder_of(spec, target), target).module)}
    format = read_format(spec)
    return {
        "calibration": calibration_hash(target.context) if format.needs_inputs else None,
        "mix": format.to_json() if isinstance(format, Mix) else None,
    }


@lru_cache
def calibration_hash(context: int) -> str:
    """Of the text that inputs are collected on."""
    return hashlib.sha256(calibration_windows(context).numpy().tobytes()).hexdigest()[:16]
