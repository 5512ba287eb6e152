"""Skipping layers: the target with some of its layers left out drafts for the whole of it.

`layers:0,3` runs the first and the last layer only: embedding, those two, the last norm, the head, all of them the target's own
tensors, so nothing is kept beside it but a cache. It reads less in a pass, and what is left out was never trained to be left out
(Zhang et al. 2023, Draft & Verify, arXiv 2309.08168, section 3). `+rtn4` rounds a copy of what is left, which then is its own.

Every subset is a draft but the empty one, which has nothing to attend with, and all layers, which is the target itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from micro.model import RMSNorm, Transformer
from quant.bytes import pass_bytes
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import model_draft
from specdec.drafts.spec import Spec


def of_layers(
    target: Transformer, numbers: Sequence[int], norm: RMSNorm | None = None
) -> Transformer:
    """A model of these layers of `target`, in this order, and of its own `norm` or the target's: the same tensors, no copies."""
    part = Transformer(replace(target.config, num_hidden_layers=len(numbers)))
    part.model.embed_tokens, part.lm_head = target.model.embed_tokens, target.lm_head
    part.model.layers = nn.ModuleList([target.model.layers[number] for number in numbers])
    part.model.norm = target.model.norm if norm is None else norm
    return part.eval()


def layers_draft(
    target: Transformer, spec: Spec, make: Callable[[Transformer, str], Draft]
) -> ModelDraft:
    """The target with only some of its layers, as in `layers:0,3` or `layers:0,2,3+rtn4`.

    Raises ValueError where the numbers are none of the target's layers in ascending order, or are all of them; as model_draft.
    """
    part = of_layers(target, _numbers(spec, target.config.num_hidden_layers))
    return shared_or_packed(part, spec)


def shared_or_packed(part: Transformer, spec: Spec, own: int = 0) -> ModelDraft:
    """A draft of the target's own tensors and of `own` numbers beside them, or of a copy in the spec's format."""
    if spec.format:
        return model_draft(part, spec.text, spec.format)
    return ModelDraft(part, pass_bytes(part), extra_bytes=2 * own, extra_parameters=own)


def _numbers(spec: Spec, count: int) -> list[int]:
    """Raises ValueError as layers_draft."""
    words = spec.argument.split(",")
    numbers = [int(word) for word in words if word.isascii() and word.isdigit()]
    if len(numbers) < len(words) or numbers != sorted(set(numbers)) or numbers[-1] >= count:
        raise ValueError(
            f"draft {spec.text!r}: name some of the layers 0 to {count - 1} in ascending order, as in layers:0,{count - 1}"
        )
    if len(numbers) == count:
        raise ValueError(f"draft {spec.text!r} is the target itself: leave a layer out")
    return numbers
