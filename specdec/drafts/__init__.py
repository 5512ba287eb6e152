"""Ways to draft, one file a family, and the table that names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from micro.model import Transformer
from quant.formats import parse_format
from specdec.drafts.base import Draft
from specdec.drafts.cascade import cascade_draft
from specdec.drafts.confidence import Stop
from specdec.drafts.eagle import eagle_draft
from specdec.drafts.exits import exit_draft
from specdec.drafts.jacobi import jacobi_draft
from specdec.drafts.layers import layers_draft
from specdec.drafts.lengths import length_draft
from specdec.drafts.lookahead import lookahead_draft
from specdec.drafts.lookup import lookup_draft
from specdec.drafts.medusa import medusa_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.ngram import ngram_draft
from specdec.drafts.packed import model_draft
from specdec.drafts.prune import prune_draft
from specdec.drafts.shared import shared_draft
from specdec.drafts.sibling import sibling_draft
from specdec.drafts.spec import Spec
from specdec.drafts.stored import load_quantized
from specdec.drafts.tree import tree_draft
from specdec.drafts.tuned import ENDING, load_tuned

Make = Callable[[Transformer, str], Draft]  # of a draft inside a draft


def quantized(target: Transformer, spec: Spec, make: Make) -> Draft:
    """The target's own copy at low precision. Raises ValueError on an unknown format, or one that needs text to be made with."""
    return model_draft(target, spec.text, spec.text)


def from_folder(target: Transformer, spec: Spec, make: Make) -> Draft:
    """A copy that was written before. Raises FileFault naming what does not fit."""
    return load_quantized(Path(spec.text), target)


def shipped_tuned(target: Transformer, spec: Spec, make: Make) -> Draft:
    """A copy that was tuned and ships. Raises as load_tuned."""
    return load_tuned(target, spec.text)


# family -> maker(target, the spec, make_draft for a draft inside it); a spec belongs to the family that its name is, and a
# format's name to the first
DRAFTS: dict[str, Callable[[Transformer, Spec, Make], Draft]] = {
    "quantized": quantized,
    "stored": from_folder,
    "tuned": shipped_tuned,
    "ngram": ngram_draft,
    "lookup": lookup_draft,
    "cascade": cascade_draft,
    "jacobi": jacobi_draft,
    "lookahead": lookahead_draft,
    "shared": shared_draft,
    "medusa": medusa_draft,
    "eagle": eagle_draft,
    "pico": sibling_draft,
    "nano": sibling_draft,
    "mini": sibling_draft,
    "layers": layers_draft,
    "exit": exit_draft,
    "prune": prune_draft,
    "tree": tree_draft,
    "length": length_draft,
}
BY_SHAPE = ("quantized", "stored", "tuned")  # families that a spec does not begin with


def make_draft(target: Transformer, spec: str, stop: Stop | None = None) -> Draft:
    """A draft by its spec: a format's name, as in `rtn3`; a tuned one that ships, as in `rtn3+tuned`; a folder that `quantize` or
    `tune` wrote, as in `./my-draft`; or a family of DRAFTS with what it needs, as in `ngram:5`.

    A format's name means the format even where a folder is called so. stop: a confidence stop of a model's drafting. Raises
    ValueError listing what exists or telling why the target cannot be drafted for so, or FileFault naming what is wrong with
    a file.
    """
    draft = DRAFTS[family(spec)](target, Spec.parse(spec), make_draft)
    if stop is not None:
        if not isinstance(draft, ModelDraft):
            raise ValueError(f"draft {spec!r} is no model, so it has no confidence to stop by")
        draft.stop = stop
    return draft


def family(spec: str) -> str:
    """The name in DRAFTS of what makes `spec`. Raises ValueError listing what exists."""
    name = Spec.parse(spec).name
    if name in DRAFTS and name not in BY_SHAPE:
        return name
    if "/" in spec or os.sep in spec:
        return "stored"
    if spec.endswith(ENDING):
        return "tuned"
    try:
        parse_format(spec)
    except ValueError as error:
        if os.path.isdir(spec):  # unlike Path.is_dir, no error where a name is too long
            return "stored"
        others = ", ".join(name for name in DRAFTS if name not in BY_SHAPE)
        raise ValueError(
            f"unknown draft {spec!r}: {error}; or one that ships tuned, as in rtn3+tuned; or a folder that "
            f"`selfdraft quantize` or `tune` wrote; or a family (`selfdraft list`): {others}"
        ) from error
    return "quantized"
