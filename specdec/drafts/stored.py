"""A draft from its own folder: the packed copy that `selfdraft quantize` writes.

The folder holds config.json (the model's fields, and under "quantization" the format's) and model.safetensors (NAME.codes and
NAME.scales of every matrix, the rest in bfloat16; the format's fields once more as metadata, so that files of two drafts
are not taken for one).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError, safe_open

from micro.checkpoint import config_from_json, config_to_json
from micro.files import FileFault, read_json, write_json
from micro.model import Transformer
from micro.tensors import SINGLE, load_folder, read_header, save_tensors
from quant.formats import Format
from quant.mix import Mix
from quant.model import (
    QuantizedModel,
    expected_state,
    from_packed_state,
    packed_state,
    parse_fields,
)
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import packed_draft


def save_quantized(folder: Path, model: QuantizedModel) -> None:
    """Write the folder, each file whole or not at all. Raises FileFault naming a file that cannot be written."""
    folder = Path(folder)
    tensors, fields = packed_state(model)
    save_tensors(folder / SINGLE, tensors, {"format": "pt", "quantization": _text(fields)})
    config = config_to_json(model.module.config)
    write_json(folder / "config.json", config | {"quantization": fields})


def load_quantized(folder: Path, target: Transformer) -> ModelDraft:
    """The folder's copy, to draft with. Raises as read_quantized."""
    return packed_draft(read_quantized(folder, target))


def read_quantized(folder: Path, target: Transformer) -> QuantizedModel:
    """The folder's copy of `target`, which stays as it is; it decodes to the bits it was saved with.

    Raises FileFault naming the file and what does not fit: no packed draft, another model's sizes, a format that is
    unknown or not that of the weights, a tensor missing or of another shape or type.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):  # unlike Path.is_dir, no error where a name is too long
        raise FileFault(f"{folder} is no folder; a draft is a folder that `quantize` wrote")
    path = folder / "config.json"
    raw = read_json(path)
    _check_sizes(raw, target, path)
    format = _format(raw, path)
    if _metadata(folder / SINGLE).get("quantization") != _text(raw["quantization"]):
        raise FileFault(f"{folder}: {SINGLE} was written in another format than {path.name} states")
    try:
        expected = expected_state(target, format)
    except ValueError as error:  # a mix that leaves a matrix out
        raise FileFault(f"{path}: quantization: {error}") from error
    tensors, _ = load_folder(folder, expected.items())
    try:
        return from_packed_state(target, tensors, format)
    except ValueError as error:
        raise FileFault(f"{folder / SINGLE}: {error}") from error


def _check_sizes(raw: dict, target: Transformer, path: Path) -> None:
    """Raises FileFault at the first field in which the draft is not a copy of the target."""
    config = asdict(config_from_json(raw, str(path)))
    for name, wanted in asdict(target.config).items():
        if config[name] != wanted:
            raise FileFault(f"{path}: {name} is {config[name]}, that of the target {wanted}")


def _format(raw: dict, path: Path) -> Format | Mix:
    if "quantization" not in raw:
        raise FileFault(f"{path} states no quantization: this is a model, not a draft of one")
    try:
        return parse_fields(raw["quantization"])
    except ValueError as error:
        raise FileFault(f"{path}: quantization: {error}") from error


def _text(fields: dict) -> str:
    return json.dumps(fields, sort_keys=True)


def _metadata(path: Path) -> dict[str, str]:
    read_header(path)  # refuses by name what is no safetensors file
    try:
        with safe_open(path, "pt") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise FileFault(f"{path} cannot be loaded: {error}") from error
