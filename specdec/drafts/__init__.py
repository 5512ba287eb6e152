"""Ways to draft, one file a family, and the table that names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from micro.model import Transformer
from quant.formats import FORMATS, parse_format
from quant.model import quantize_model
from specdec.drafts.base import Draft
from specdec.drafts.confidence import Stop
from specdec.drafts.model import ModelDraft
from specdec.drafts.stored import load_quantized
from specdec.drafts.tuned import ENDING, load_tuned


def quantized(target: Transformer, format: str = "rtn4") -> ModelDraft:
    """The target's own copy at low precision. Raises ValueError on an unknown format, or one that needs text to be made with."""
    chosen = parse_format(format)
    if chosen.needs_inputs:
        raise ValueError(
            f"draft {format!r} is made with some text in view; write it with "
            f"`selfdraft quantize --format {format} --out DIR` and draft with ./DIR"
        )
    copy = quantize_model(target, chosen)
    return ModelDraft(copy.module, copy.bytes_per_pass)


def from_folder(target: Transformer, folder: str) -> ModelDraft:
    """A copy that was written before. Raises FileFault naming what does not fit."""
    return load_quantized(Path(folder), target)


# family -> maker(target, the spec)
DRAFTS: dict[str, Callable[[Transformer, str], Draft]] = {
    "quantized": quantized,
    "stored": from_folder,
    "tuned": load_tuned,
}


def make_draft(target: Transformer, spec: str, stop: Stop | None = None) -> Draft:
    """A draft by its spec: a format's name, as in `rtn3`, a tuned one that ships, as in `rtn3+tuned`, or a folder that `quantize` or
    `tune` wrote, as in `./my-draft`.

    A format's name means the format even where a folder is called so. stop: a confidence stop of a model's drafting. Raises
    ValueError listing what exists or telling why the target cannot be quantized so, or FileFault naming what is wrong with
    the folder.
    """
    draft = DRAFTS[family(spec)](target, spec)
    if stop is not None:
        if not isinstance(draft, ModelDraft):
            raise ValueError(f"draft {spec!r} is no model, so it has no confidence to stop by")
        draft.stop = stop
    return draft


def family(spec: str) -> str:
    """The name in DRAFTS of what makes `spec`. Raises ValueError listing what exists."""
    if "/" in spec or os.sep in spec:
        return "stored"
    if spec.endswith(ENDING):
        return "tuned"
    try:
        parse_format(spec)
    except ValueError as error:
        if os.path.isdir(spec):  # unlike Path.is_dir, no error where a name is too long
            return "stored"
        raise ValueError(
            f"unknown draft {spec!r}: {error}; formats: {', '.join(FORMATS)}; one that ships tuned, as in rtn3+tuned; "
            f"or a folder that `selfdraft quantize` or `tune` wrote"
        ) from error
    return "quantized"
