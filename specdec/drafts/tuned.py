"""Tuned copies that ship with the target: `rtn3+tuned` is the folder tuned/rtn3 beside this file.

Each belongs to the weights it was tuned for, and its training.json says which. Beside other weights it would still be exact and
accepted seldom, so it is refused.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from micro.files import FileFault, read_json
from micro.model import Transformer
from specdec.drafts.model import ModelDraft
from specdec.drafts.stored import load_quantized

FOLDER = Path(__file__).parent / "tuned"
TRAINED = Path(__file__).parent / "trained"  # other drafts that ship
ENDING = "+tuned"


def fingerprint(model: Transformer) -> str:
    """16 hex digits over all of a model's tensors, names and bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.float().numpy().tobytes())
    return digest.hexdigest()[:16]


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
    check_target(folder, target, "`selfdraft tune --model DIR`")
    return folder


def check_target(folder: Path, target: Transformer, how: str) -> None:
    """Raises FileFault where the folder's training.json names another target than this; `how`: what makes a draft for it."""
    found, own = read_json(folder / "training.json").get("target"), fingerprint(target)
    if found != own:
        raise FileFault(
            f"{folder} was trained for the target {found}, this is {own}: make a draft of its own by {how}"
        )


def load_tuned(target: Transformer, spec: str) -> ModelDraft:
    """A copy that was tuned to be accepted and ships, as in rtn3+tuned. Raises as folder_of and load_quantized."""
    return load_quantized(folder_of(spec, target), target)
