"""Training the low-bit copy to be accepted: straight through its rounding, towards the target's own law, at the same bytes.

The distillation is specdec/distilling.py's; its student here is the copy, whose codes, scales and norms move. How rounding is trained
through: quant/straight_through.py. What comes out is a draft of the format like any other: the same tensors, shapes and bytes,
decoded by the same code.

Shapes: B rows  T tokens a row  V vocabulary
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from micro.model import Transformer
from micro.train import BETA1, fill_moments
from quant.bytes import unique_parameters
from quant.formats import Format
from quant.mix import Mix
from quant.model import QuantizedModel, from_packed_state
from quant.straight_through import StraightThrough, rounded_through
from specdec.distilling import DistilConfig, Distiller, OwnText
from specdec.tuning_losses import Schedule

SLOW = 0.1  # share of the rate for scales and norms: one of them moves 32 weights and more


@dataclass(frozen=True)
class TuneConfig(DistilConfig):
    """What a tuning computes; lr is in steps of the weights' own grid. shrink: factor on every scale at the start.

    Raises ValueError naming the first field that is out of range.
    """

    steps: int = 600
    batch: int = 8
    block: int = 256
    lr: float = 6e-3
    warmup: int = 10
    optimizer: str = "adamw"
    beta2: float = 0.95  # forgets within 20 steps: gradients change size where the loss changes
    eval_every: int = 50
    schedule: Schedule = Schedule((("kl", 1.0), ("tv", 2.0)))
    own_share: float = 0.5
    shrink: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fix(optimizer="adamw", weight_decay=0.0)
        if not 0 < self.shrink <= 2:
            raise ValueError(f"shrink must be above 0 and at most 2, not {self.shrink!r}")


class LowBitCopy(nn.Module):
    """The target's copy in a format, trainable: every matrix rounded in each pass, norms rounded to 16 bits."""

    def __init__(self, target: Transformer, format: Format | Mix, shrink: float) -> None:
        super().__init__()
        # in a tuple: its own parameters are not trained, only their places used
        self._body = (copy.deepcopy(target).eval().requires_grad_(False),)
        self.format, self.context, self.device = format, target.context, target.device
        self._names = {n: n.replace(".", "/") for n in unique_parameters(target)}
        self.matrices, self.kept = nn.ModuleDict(), nn.ParameterDict()
        for name, parameter in unique_parameters(target).items():
            place = self._names[name]
            if parameter.dim() == 2:
                part = StraightThrough(parameter, format.of(name), shrink, name)
                self.matrices[place] = part
            else:  # as a factor on the target's own, so that all move alike
                self.kept[place] = nn.Parameter(torch.ones_like(parameter))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """tokens (B, T) -> logits (B, T, V), hidden (B, T, D), with gradients to everything that is trained."""
        # a tied matrix is given once and stands in both places
        return functional_call(self._body[0], self._weights(), (tokens,))

    def _weights(self) -> dict[str, Tensor]:
        weights = {n: self.matrices[p]() for n, p in self._names.items() if p in self.matrices}
        return weights | {n: self._kept(n) for n, p in self._names.items() if p in self.kept}

    def _kept(self, name: str) -> Tensor:
        value = self.kept[self._names[name]] * self._body[0].get_parameter(name)
        return rounded_through(value, value.to(torch.bfloat16).float())

    @torch.no_grad()
    def quantized(self) -> QuantizedModel:
        """The draft as it is stored; its module computes what `forward` does."""
        tensors: dict[str, Tensor] = {}
        for name, place in self._names.items():
            if place in self.matrices:
                parts = self.matrices[place].packed().parts
                tensors |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
            else:
                tensors[name] = self._kept(name).to(torch.bfloat16)
        return from_packed_state(self._body[0], tensors, self.format)


class Tuner(Distiller):
    """The distillation of a LowBitCopy of `target` in `format`. Raises ValueError as that and Distiller."""

    def __init__(
        self,
        target: Transformer,
        format: Format | Mix,
        tokens: Tensor,
        own: OwnText | None,
        validation: Sequence[OwnText],
        config: TuneConfig,
    ) -> None:
        student = LowBitCopy(target, format, config.shrink)
        super().__init__(target, student, tokens, own, validation, config)

    def make_optimizers(self) -> list[torch.optim.Optimizer]:
        """AdamW: weights at the rate itself, what moves many of them at a share."""
        named = dict(self.model.named_parameters())
        fast = [p for n, p in named.items() if n.endswith(".weight")]
        slow = [p for n, p in named.items() if not n.endswith(".weight")]
        groups = [{"params": fast}, {"params": slow, "share": SLOW}]
        betas = (BETA1, self.config.beta2)
        adamw = torch.optim.AdamW(groups, lr=self.config.lr, betas=betas, weight_decay=0.0)
        fill_moments(adamw)
        return [adamw]

    def kept(self) -> QuantizedModel:
        """The draft of the best evaluation."""
        with self.weights(self.best) as model:
            return model.quantized()
