"""Early exit: the target's first layers, a norm of the exit's own, and the target's head.

What the first N layers write was made for the layers behind them, and is too small or large for the last norm's weights. One norm of
D numbers an exit, trained towards the target's law with all else frozen (`selfdraft distil --exit N`), is the least that makes a head
of it; LayerSkip trains the whole model for it instead (Elhoushi et al. 2024, arXiv 2404.16710).

In a folder: model.safetensors (norm.weight (D,) bfloat16) and training.json, which names the exit and the target it belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call

from micro.files import FileFault, read_json
from micro.model import RMSNorm, Transformer
from micro.tensors import SINGLE, load_folder, save_tensors
from specdec.drafts.base import Draft
from specdec.drafts.layers import of_layers, shared_or_packed
from specdec.drafts.model import ModelDraft
from specdec.drafts.shipped import TRAINED, check_trained
from specdec.drafts.spec import Spec

NAME = "norm.weight"


class ExitNorm(nn.Module):
    """The exit behind `layers` layers, of which only the norm is trained: as a factor on the target's own, so that all its numbers
    move alike. tokens (B, T) -> logits (B, T, V), hidden (B, T, D)."""

    def __init__(self, target: Transformer, layers: int) -> None:
        super().__init__()
        # in a tuple: its parameters are the target's, and are not trained
        self._body = (of_layers(target, range(layers)),)
        self.context, self.device = target.context, target.device
        self.factor = nn.Parameter(torch.ones_like(target.model.norm.weight))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return functional_call(self._body[0], {"model.norm.weight": self.norm()}, (tokens,))

    def norm(self) -> Tensor:
        """(D,) the weights of the exit's norm."""
        return self.factor * self._body[0].model.norm.weight


def save_exit(folder: Path, norm: Tensor) -> None:
    """Write the norm (D,). Raises FileFault naming a file that cannot be written."""
    save_tensors(Path(folder) / SINGLE, {NAME: norm.to(torch.bfloat16)}, {"format": "pt"})


def exit_model(target: Transformer, layers: int, folder: Path) -> Transformer:
    """The exit with the folder's norm. Raises FileFault naming a file that is missing or holds no norm of the target's width."""
    width = target.config.hidden_size
    tensors, _ = load_folder(folder, [(NAME, torch.Size([width]))])
    if tensors[NAME].dtype != torch.bfloat16 or not tensors[NAME].isfinite().all():
        raise FileFault(f"{folder / SINGLE}: {NAME!r} must be finite numbers in bfloat16")
    norm = RMSNorm(width, target.config.rms_norm_eps).requires_grad_(False)
    norm.weight.copy_(tensors[NAME].float())
    return of_layers(target, range(layers), norm)


def exit_draft(
    target: Transformer, spec: Spec, make: Callable[[Transformer, str], Draft]
) -> ModelDraft:
    """The target's first layers and a norm trained for their exit, as in `exit:2`, `exit:DIR` or `exit:2+rtn4`.

    Raises ValueError where the target has no such exit or none ships, FileFault where a norm belongs to another target or exit.
    """
    count, how = target.config.num_hidden_layers, "`selfdraft distil --exit N --out DIR`"
    if "/" in spec.argument or os.sep in spec.argument:
        folder = Path(spec.argument)
        layers = read_json(folder / "training.json").get("exit")
        if type(layers) is not int or not 1 <= layers < count:
            raise FileFault(f"{folder} holds no early exit of {count} layers; {how} makes one")
    else:
        layers = spec.number(spec.argument, "the number of layers before the exit")
        if layers >= count:
            raise ValueError(
                f"draft {spec.text!r}: the target has exits behind 1 to {count - 1} of its {count} layers"
            )
        folder = TRAINED / f"exit-{layers}"
        if not folder.is_dir():
            raise ValueError(
                f"draft {spec.text!r}: no such exit ships; {how} makes one, and exit:DIR names it"
            )
    check_trained(folder, target, how)
    return shared_or_packed(exit_model(target, layers, folder), spec, target.config.hidden_size)
