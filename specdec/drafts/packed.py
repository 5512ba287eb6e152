"""A small model as a draft, in 16 bits or rounded to a format: what `+rtn4` behind a draft's name asks for."""

from __future__ import annotations

from micro.model import Transformer
from quant.bytes import pass_bytes, unique_parameters
from quant.formats import Format, parse_format
from quant.model import QuantizedModel, quantize_model
from specdec.drafts.model import ModelDraft


def format_for(spec: str, name: str) -> Format:
    """The format `name`, to make the draft `spec` with. Raises ValueError where it is unknown or made with some text in view."""
    chosen = parse_format(name)
    if chosen.needs_inputs:
        raise ValueError(
            f"draft {spec!r} is made with some text in view; write it with "
            f"`selfdraft quantize --format {name} --out DIR` and draft with ./DIR"
        )
    return chosen


def packed_draft(copy: QuantizedModel) -> ModelDraft:
    """A quantized copy, to draft with."""
    numbers = sum(p.numel() for p in unique_parameters(copy.module).values())
    return ModelDraft(
        copy.module,
        copy.bytes_per_pass,
        extra_bytes=copy.stored_bytes,
        extra_parameters=numbers,
    )


def model_draft(model: Transformer, spec: str, format: str) -> ModelDraft:
    """`model` as a draft: with "" for a format in 16 bits as it stands. Raises ValueError as format_for and quantize_model."""
    if format:
        return packed_draft(quantize_model(model, format_for(spec, format)))
    numbers = sum(p.numel() for p in unique_parameters(model).values())
    return ModelDraft(model, pass_bytes(model), extra_bytes=2 * numbers, extra_parameters=numbers)
