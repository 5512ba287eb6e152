"""safetensors files, in and out, with every claim of a header checked before anything is allocated.

Format: 8 bytes little-endian header length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, then the
numbers (huggingface/safetensors, README, "Format").
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialise
from torch import Tensor

from micro.files import FileFault, read_bytes, write_atomically

# bytes; a model of a thousand tensors needs about 100 KB. JSON of nested lists takes 45 times its size in memory
MAX_HEADER = 4 << 20
MAX_DIMENSIONS = 8  # their product would else be a number of millions of digits
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all. Raises FileFault naming it."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    blob = serialise(tensors, metadata)
    write_atomically(path, lambda file: file.write(blob))


def read_header(path: Path) -> dict[str, dict]:
    """name -> {dtype, shape, data_offsets} of a safetensors file, its claims checked against its size.

    Raises FileFault naming the file, its size and the likely reason.
    """
    path = Path(path)
    if not path.is_file():
        raise FileFault(f"{path} cannot be read: no such file")
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        claimed = int.from_bytes(start, "little")
        if len(start) < 8 or claimed > min(MAX_HEADER, size - 8):
            raise FileFault(f"{path} ({size:,} bytes) is no safetensors file: {_guess(path, size)}")
        try:
            header = json.loads(file.read(claimed))
            header.pop("__metadata__", None)
            ends = [_check_entry(name, entry) for name, entry in header.items()]
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise FileFault(f"{path} ({size:,} bytes) has a broken header: {error}") from error
    end = 8 + claimed + max(ends, default=0)
    if end != size:
        raise FileFault(
            f"{path} has {size:,} bytes where its header promises {end:,}: it was cut off or added to; "
            f"copy it again"
        )
    return header


def _check_entry(name: str, entry: dict) -> int:
    """End offset of one tensor whose shape and extent agree."""
    start, end = entry["data_offsets"]
    widths = {
        "F64": 8,
        "I64": 8,
        "F32": 4,
        "I32": 4,
        "F16": 2,
        "BF16": 2,
        "I16": 2,
        "U8": 1,
        "I8": 1,
    }
    if entry["dtype"] not in widths:
        raise ValueError(f"tensor {name!r} has the unknown dtype {entry['dtype']!r}")
    shape = entry["shape"]
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"tensor {name!r} has no shape of at most {MAX_DIMENSIONS} numbers")
    if not all(type(n) is int and n >= 0 for n in (start, end, *shape)):
        raise ValueError(f"tensor {name!r} has a shape or offsets that are no whole numbers")
    if end - start != math.prod(shape) * widths[entry["dtype"]]:
        raise ValueError(f"tensor {name!r} of shape {shape} does not fill its {end - start} bytes")
    return end


def _guess(path: Path, size: int) -> str:
    with open(path, "rb") as file:
        head = file.read(64).lstrip()
    if size == 0:
        return "it is empty"
    if head.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; fetch the real file with `git lfs pull`"
    if head[:1] == b"<":
        return "it looks like a web page saved in its place; download the file itself"
    return "its header length does not fit its size; it was cut off or is something else"


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of one file. Raises FileFault naming it."""
    read_header(path)
    try:
        return load_file(str(path))
    except (SafetensorError, OSError) as error:
        raise FileFault(f"{path} cannot be loaded: {error}") from error


def find_shards(folder: Path) -> tuple[list[Path], str]:
    """The weight files of a model's folder, and a note about files passed over ("" if none).

    Raises FileFault: no weights, an index beside a single file, a shard missing or outside the folder.
    """
    folder = Path(folder)
    single, index = folder / SINGLE, folder / INDEX
    if not os.path.isdir(folder):  # unlike Path.is_dir, no error where a name is too long
        raise FileFault(f"{folder} is no folder; a model is a folder with config.json and {SINGLE}")
    if single.is_file() and index.is_file():
        raise FileFault(f"{folder} holds both {SINGLE} and {INDEX}; keep the one that is meant")
    if not index.is_file():
        if not single.is_file():
            raise FileFault(f"{folder} holds no {SINGLE}")
        return [single], ""
    names = _indexed(index)
    missing = [name for name in names if not os.path.isfile(folder / name)]  # False for any name
    if missing:
        raise FileFault(f"{index} names {missing[0]!r}, which is missing from the folder")
    stale = sorted({p.name for p in folder.glob("*.safetensors")} - set(names))
    note = f"{folder}: passed over {', '.join(stale)}, not named in {INDEX}" if stale else ""
    return [folder / name for name in names], note


def _indexed(index: Path) -> list[str]:
    try:
        names = sorted(set(json.loads(read_bytes(index))["weight_map"].values()))
        outside = [name for name in names if Path(name).name != name]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileFault(f"{index} is no index of shards: {error}") from error
    if outside:
        raise FileFault(f"{index} names {outside[0]!r}, which lies outside the folder")
    return names


def load_folder(
    folder: Path, expected: Iterable[tuple[str, torch.Size]]
) -> tuple[dict[str, Tensor], str]:
    """All of a model's tensors from its shards, each once and in the `expected` shape; and find_shards' note.

    `expected` (name, shape) is read no further than the first that is not there. Raises FileFault, naming the tensor,
    before anything is loaded.
    """
    shards, note = find_shards(folder)
    found: dict[str, tuple[Path, list[int]]] = {}
    for path in shards:
        for name, entry in read_header(path).items():
            if name in found:
                raise FileFault(f"{path} holds {name!r} a second time, after {found[name][0].name}")
            found[name] = (path, entry["shape"])
    wanted = set()
    for name, shape in expected:
        wanted.add(name)
        if name not in found:
            raise FileFault(f"{folder}: tensor {name!r} is missing from the weights")
        if list(shape) != found[name][1]:
            raise FileFault(
                f"{found[name][0]}: tensor {name!r} has shape {found[name][1]}, config.json asks for "
                f"{list(shape)}"
            )
    extra = sorted(set(found) - wanted)
    if extra:
        raise FileFault(f"{found[extra[0]][0]}: tensor {extra[0]!r} has no place in this model")
    tensors: dict[str, Tensor] = {}
    for path in shards:
        tensors |= load_tensors(path)
    return tensors, note
