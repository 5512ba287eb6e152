"""Smaller siblings: models of micro's kind at a hundredth, a twentieth and a quarter of its size (micro/sizes.py).

`nano` was trained on the same text by the same command, `nano:distilled` for as long towards micro's own law (specdec/distilling.py);
`nano:./DIR` is one of yours. As an independent draft model of classical speculation it keeps nothing of the target and reads all of
its own weights in a pass (Leviathan et al. 2023, arXiv 2211.17192).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from micro.checkpoint import load_model
from micro.files import FileFault, read_json
from micro.model import Transformer
from micro.sizes import SIZES
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import model_draft
from specdec.drafts.shipped import TRAINED, check_trained
from specdec.drafts.spec import Spec

DISTILLED = "distilled"


def sibling_draft(
    target: Transformer, spec: Spec, make: Callable[[Transformer, str], Draft]
) -> ModelDraft:
    """A smaller model of the target's kind (`pico`, `nano`, `mini`), trained alone or, as in `nano:distilled+rtn4`, from the target.

    Raises ValueError where the argument is neither `distilled` nor a folder; FileFault where the folder holds another model, or one that
    was distilled from another target.
    """
    folder = _folder(spec)
    model = load_model(folder)
    if model.config != SIZES[spec.name]:
        raise FileFault(
            f"{folder} holds a model of other sizes than {spec.name}'s; `selfdraft train --size {spec.name} --out DIR` makes one"
        )
    record = folder / "training.json"
    if record.is_file() and "target" in read_json(record):
        check_trained(folder, target, f"`selfdraft distil --size {spec.name} --model DIR`")
    return model_draft(model, spec.text, spec.format)


def _folder(spec: Spec) -> Path:
    """Raises ValueError as sibling_draft."""
    if "/" in spec.argument or os.sep in spec.argument:
        return Path(spec.argument)
    if spec.argument not in ("", DISTILLED):
        raise ValueError(
            f"draft {spec.text!r}: {spec.argument!r} is neither `{DISTILLED}` nor a folder with a / in it, as in {spec.name}:./DIR"
        )
    return TRAINED / "-".join(filter(None, (spec.name, spec.argument)))
