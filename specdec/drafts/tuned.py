"""Tuned copies that ship with the target: `rtn3+tuned` is the folder tuned/rtn3 beside this file.

Each belongs to the weights it was tuned for, and its training.json says which.
"""

from __future__ import annotations

from pathlib import Path

from micro.model import Transformer
from specdec.drafts.model import ModelDraft
from specdec.drafts.shipped import check_trained
from specdec.drafts.stored import load_quantized

FOLDER = Path(__file__).parent / "tuned"
ENDING = "+tuned"


def shipped() -> list[str]:
    """The specs there are, as in rtn3+tuned."""
    return sorted(p.parent.name + ENDING for p in FOLDER.glob("*/config.json"))


def folder_of(spec: str, target: Transformer) -> Path:
    """The folder of `rtn3+tuned`. Raises ValueError where none ships, or FileFault where it was tuned for another target."""
    if spec not in shipped():
        there = ", ".join(shipped()) or "none"
        raise ValueError(
            f"no tuned draft {spec!r} ships ({there} does); `selfdraft tune --format "
            f"{spec.removesuffix(ENDING)} --out DIR` makes one, and its folder is a draft too"
        )
    folder = FOLDER / spec.removesuffix(ENDING)
    check_trained(folder, target, "`selfdraft tune --model DIR`")
    return folder


def load_tuned(target: Transformer, spec: str) -> ModelDraft:
    """A copy that was tuned to be accepted and ships, as in rtn3+tuned. Raises as folder_of and load_quantized."""
    return load_quantized(folder_of(spec, target), target)
