"""Pruned copies: the target with weights, heads, neurons or layers taken out, and nothing retrained.

    prune:0.5         half of the weights of each matrix inside the layers, by magnitude; prune:0.5,wanda by what they add to the output
    prune:2:4         of each four neighbours two; prune:2:4,wanda likewise
    prune:heads=2     two heads of every layer       prune:neurons=0.5   half of every MLP       prune:layers=1   one layer

What goes and what it takes to store the rest: quant/pruning.py, quant/sparse.py, specdec/structure.py. Embedding and head stay whole, as in
the papers. `+rtn4` rounds what is left. Whatever looks at inputs collects them on the course's training plates, about a second.
"""

from __future__ import annotations

from collections.abc import Callable

from micro.model import Transformer
from quant.bytes import unique_parameters
from quant.pruning import lightest, scores, two_of_four
from quant.sparse import sparse_model
from specdec.calibration import calibrated
from specdec.drafts.base import Draft
from specdec.drafts.layers import of_layers, shared_or_packed
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import format_for, model_draft
from specdec.drafts.spec import Spec
from specdec.structure import layers_left, without_heads, without_neurons

TWO_OF_FOUR, WANDA = "2:4", "wanda"
WRITE = "write prune:0.5, prune:2:4, either with ,wanda, or prune:heads=2, prune:neurons=0.5, prune:layers=1"


def prune_draft(
    target: Transformer, spec: Spec, make: Callable[[Transformer, str], Draft]
) -> ModelDraft:
    """The target without its lightest weights, heads, neurons or layers, as in `prune:0.5,wanda+rtn4` or `prune:heads=2`.

    Raises ValueError saying what would be right, or as format_for and sparse_model.
    """
    kind, _, value = spec.argument.partition("=")
    if kind in STRUCTURES:
        return STRUCTURES[kind](target, spec, value)
    share, _, how = spec.argument.partition(",")
    if how not in ("", WANDA):
        raise ValueError(f"draft {spec.text!r}: {how!r} is not `{WANDA}`; {WRITE}")
    if share == TWO_OF_FOUR:
        return _sparse(target, spec, None, how == WANDA)
    return _sparse(target, spec, _share(spec, share), how == WANDA)


def _sparse(target: Transformer, spec: Spec, share: float | None, by_inputs: bool) -> ModelDraft:
    """`share` of each matrix's weights away, or, for None, two of four."""
    format = format_for(spec.text, spec.format) if spec.format else None
    moments, masks = calibrated(target) if by_inputs else {}, {}
    for name, weight in unique_parameters(target).items():
        if weight.dim() == 2 and ".layers." in name:
            score = scores(weight, moments.get(name))
            masks[name] = two_of_four(score) if share is None else lightest(score, share, by_inputs)
    copy = sparse_model(target, masks, TWO_OF_FOUR if share is None else "free", format)
    return ModelDraft(
        copy.module,
        copy.bytes_per_pass,
        extra_bytes=copy.stored_bytes,
        extra_parameters=copy.numbers,
    )


def _heads(target: Transformer, spec: Spec, value: str) -> ModelDraft:
    count = _whole(spec, value, "heads", target.config.num_attention_heads)
    return model_draft(without_heads(target, count), spec.text, spec.format)


def _neurons(target: Transformer, spec: Spec, value: str) -> ModelDraft:
    width = target.config.intermediate_size
    count = round(_share(spec, value) * width)
    if not 0 < count < width:
        raise ValueError(f"draft {spec.text!r}: that is {count} of {width} neurons; {WRITE}")
    return model_draft(without_neurons(target, count), spec.text, spec.format)


def _layers(target: Transformer, spec: Spec, value: str) -> ModelDraft:
    """The layers that stay are the target's own, as in `layers:`."""
    count = _whole(spec, value, "layers", target.config.num_hidden_layers)
    return shared_or_packed(of_layers(target, layers_left(target, count)), spec)


# what is removed whole -> maker(target, spec, how much)
STRUCTURES: dict[str, Callable[[Transformer, Spec, str], ModelDraft]] = {
    "heads": _heads,
    "neurons": _neurons,
    "layers": _layers,
}


def _share(spec: Spec, text: str) -> float:
    """Raises ValueError where that is no number between 0 and 1."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise ValueError(
            f"draft {spec.text!r}: what goes is a share between 0 and 1, not {text!r}; {WRITE}"
        )
    return share


def _whole(spec: Spec, text: str, what: str, there: int) -> int:
    """Raises ValueError where that many of `there` cannot go."""
    if (count := spec.number(text, f"the number of {what}")) >= there:
        raise ValueError(f"draft {spec.text!r}: at most {there - 1} of the {there} {what} can go")
    return count
