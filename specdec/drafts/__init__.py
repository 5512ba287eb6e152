"""Ways to draft, one file a family, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable

from micro.model import Transformer
from quant.formats import FORMATS, parse_format
from quant.model import quantize_model
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft


def quantized(target: Transformer, format: str = "rtn4") -> ModelDraft:
    """The target's own copy at low precision. Raises ValueError on an unknown format."""
    copy = quantize_model(target, parse_format(format))
    return ModelDraft(copy.module, copy.bytes_per_pass)


# family -> maker(target, what stands behind the family's name in a spec)
DRAFTS: dict[str, Callable[[Transformer, str], Draft]] = {"quantized": quantized}


def make_draft(target: Transformer, spec: str) -> Draft:
    """A draft by its spec: a format's name, as in `rtn3`. Raises ValueError listing what exists."""
    try:
        return DRAFTS["quantized"](target, spec)
    except ValueError as error:
        raise ValueError(
            f"unknown draft {spec!r}: {error}; formats: {', '.join(FORMATS)}"
        ) from error
