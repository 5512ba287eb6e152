"""Trained heads in a folder: config.json (kind, depth, the target's fingerprint) and model.safetensors in bfloat16.

Heads read one target's states and are worth nothing beside another, so its fingerprint is checked. Those for the micro that ships
stand in trained/medusa and trained/eagle beside this file; `selfdraft heads` trains others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from micro.files import FileFault, read_json, write_json
from micro.model import Transformer
from micro.tensors import SINGLE, load_folder, save_tensors
from quant.bytes import pass_bytes, unique_parameters
from quant.model import quantize_model
from specdec.drafts.packed import format_for
from specdec.drafts.shipped import TRAINED, check_target, fingerprint
from specdec.drafts.spec import Spec

STORED = torch.bfloat16

Make = Callable[[Transformer, int], nn.Module]  # target, depth -> heads of its sizes


@dataclass(frozen=True)
class Choice:
    """What stands behind `medusa:` or `eagle:`: a folder, a number, whether a tree; each only once, in any order."""

    folder: Path
    number: int = 0  # 0: none was given
    tree: bool = False

    @classmethod
    def parse(cls, spec: Spec, kind: str) -> Choice:
        """Raises ValueError naming a part that is none of these."""
        found: dict[str, object] = {}
        for word in filter(None, spec.argument.split(",")):
            if "/" in word or os.sep in word:
                name, value = "folder", Path(word)
            elif word == "tree":
                name, value = "tree", True
            elif word.isdigit():
                name, value = "number", spec.number(word, "the number")
            else:
                raise ValueError(
                    f"draft {spec.text!r}: {word!r} is neither a number nor `tree` nor a folder, as in {kind}:4,tree or {kind}:./DIR"
                )
            if name in found:
                raise ValueError(f"draft {spec.text!r} names its {name} twice")
            found[name] = value
        return cls(**{"folder": TRAINED / kind, **found})


def save_heads(folder: Path, kind: str, heads: nn.Module, depth: int, target: Transformer) -> None:
    """Write the folder, each file whole or not at all. Raises FileFault naming a file that cannot be written."""
    tensors = {name: p.detach().to(STORED) for name, p in heads.named_parameters()}
    fields = {"heads": kind, "depth": depth, "target": fingerprint(target)}
    save_tensors(folder / SINGLE, tensors, {"format": "pt", "heads": kind})
    write_json(folder / "config.json", fields)


def read_heads(folder: Path, kind: str, target: Transformer, make: Make) -> nn.Module:
    """The folder's heads, in eval mode, without gradients.

    Raises FileFault naming the file and what does not fit: no heads, another kind's, another target's, a tensor missing or of another
    shape or type.
    """
    how = f"`selfdraft heads --kind {kind} --out DIR` trains some, and draft {kind}:DIR, with a / in it, names them"
    if not os.path.isdir(folder):
        raise FileFault(f"{folder} is no folder of {kind} heads; {how}")
    path = folder / "config.json"
    raw = read_json(path)
    depth = raw.get("depth")
    if raw.get("heads") != kind or type(depth) is not int or not 1 <= depth <= 64:
        raise FileFault(f"{path} does not describe {kind} heads; {how}")
    what, where = f"{path}: these heads were trained", f"{how} (--model names the target)"
    check_target(what, raw.get("target"), target, where)
    heads = make(target, depth)
    tensors, _ = load_folder(folder, ((n, p.shape) for n, p in heads.named_parameters()))
    for name, tensor in tensors.items():
        if tensor.dtype != STORED or not tensor.isfinite().all():
            raise FileFault(f"{folder / SINGLE}: {name!r} must be finite numbers in bfloat16")
    heads.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return heads.eval().requires_grad_(False)


def rounded(heads: nn.Module, spec: Spec) -> tuple[nn.Module, int, int]:
    """The heads in the format that stands behind the spec's "+", or as they are; their bytes, all of which a pass reads, and how many numbers
    they are. The target's embedding and output matrix stay in 16 bits. Raises ValueError as format_for and quantize_model."""
    numbers = sum(p.numel() for p in unique_parameters(heads).values())
    if not spec.format:
        return heads, pass_bytes(heads), numbers
    copy = quantize_model(heads, format_for(spec.text, spec.format))
    return copy.module, copy.bytes_per_pass, numbers
