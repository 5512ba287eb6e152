"""Training the low-bit copy to be accepted: straight through its rounding, towards the target's own law, at the same bytes.

A step reads rows of text with both models and moves the copy's codes, scales and norms down the gradient of a loss between the
two laws (specdec/tuning_losses.py). Half of the rows is training text, half is text that the target itself wrote behind openings
of training text: what a draft meets when it drafts. How rounding is trained through: quant/straight_through.py. The copy that is
kept is the one with the largest overlap on text that the target wrote behind openings of other plates.

What comes out is a draft of the format like any other: the same tensors, shapes and bytes, decoded by the same code. The target
is only read; and since it still checks every token, the text's law cannot change, however the draft is bent.

The run itself (steps, rate, best weights, resuming) is micro.train's; this adds what is learned.

Shapes: B rows  T tokens a row  V vocabulary  N texts
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from micro.chance import SeededChance, generator_for
from micro.generate import generate_batch
from micro.model import Transformer
from micro.sampling import Sampling
from micro.text import draw_batch
from micro.train import BETA1, TrainConfig, Trainer, fill_moments
from quant.bytes import unique_parameters
from quant.formats import Format
from quant.mix import Mix
from quant.model import QuantizedModel, from_packed_state
from quant.straight_through import StraightThrough, rounded_through
from specdec.tuning_losses import LOSSES, Schedule, overlap

SLOW = 0.1  # share of the rate for scales and norms: one of them moves 32 weights and more
ROWS = 32  # texts a pass of the evaluation; bounds its memory


@dataclass(frozen=True)
class TuneConfig(TrainConfig):
    """What a tuning computes; lr is in steps of the weights' own grid, and a batch's `block` is a row of the texts.

    schedule: losses and their shares of the steps. own_share: of a batch's rows, those that the target wrote. parts: passes that
    a batch is split into, at the same step and less memory. shrink: factor on every scale at the start.

    Raises ValueError naming the first field that is out of range.
    """

    steps: int = 200
    batch: int = 16
    block: int = 256
    lr: float = 6e-3
    warmup: int = 10
    optimizer: str = "adamw"
    weight_decay: float = 0.0
    beta2: float = 0.95  # forgets within 20 steps: gradients change size where the loss changes
    dropout: float = 0.0
    eval_every: int = 50
    schedule: Schedule = Schedule((("kl", 1.0), ("tv", 2.0)))
    own_share: float = 0.5
    parts: int = 1
    shrink: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = {"optimizer": "adamw", "weight_decay": 0.0, "dropout": 0.0}
        for name, only in fixed.items():
            if getattr(self, name) != only:
                raise ValueError(f"{name} must be {only!r} in tuning, not {getattr(self, name)!r}")
        if not 0 <= self.own_share <= 1:
            raise ValueError(f"own_share must be from 0 to 1, not {self.own_share!r}")
        if not 0 < self.shrink <= 2:
            raise ValueError(f"shrink must be above 0 and at most 2, not {self.shrink!r}")
        if not 1 <= self.parts <= self.batch:
            raise ValueError(f"parts must be 1 to batch, {self.batch}, not {self.parts!r}")


@dataclass(frozen=True)
class OwnText:
    """Texts that the target wrote: tokens (N, T), of which the first `opening` of each row were given."""

    tokens: Tensor
    opening: int


def write_own_text(
    target: Transformer, openings: Sequence[Sequence[int]], length: int, seed: int, stream: str
) -> OwnText:
    """Openings of one length, continued by the target at T = 1 to `length` tokens. Raises ValueError where they do not fit."""
    opening = len(openings[0])
    chances = [SeededChance(seed, f"{stream} {i}") for i in range(len(openings))]
    tokens, _ = generate_batch(target, openings, length - opening, Sampling(), chances)
    return OwnText(torch.cat((torch.tensor([list(o) for o in openings]), tokens), dim=1), opening)


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


class Tuner(Trainer):
    """A tuning in memory: micro.train's Trainer, whose model is a LowBitCopy and whose loss is the distance to `target`.

    Args: `tokens` (N,) training text; `own` what the target wrote behind it; `validation` the same for other text (none: nothing is
    evaluated and the last step is kept). Its validation "loss" is the mean chance of a refusal, 1 - overlap, over what was
    written there. Raises ValueError where texts and rows differ in length, or as LowBitCopy and Trainer.
    """

    def __init__(
        self,
        target: Transformer,
        format: Format | Mix,
        tokens: Tensor,
        own: OwnText | None,
        validation: Sequence[OwnText],
        config: TuneConfig,
    ) -> None:
        if config.own_share and own is None:
            raise ValueError(f"own_share {config.own_share:g} needs text that the target wrote")
        if own is not None and own.tokens.shape[1] != config.block:
            raise ValueError(
                f"own texts have {own.tokens.shape[1]} tokens, rows of a batch {config.block}"
            )
        self.target, self.own = target, own
        super().__init__(LowBitCopy(target, format, config.shrink), tokens, validation, config)
        self._laws = [self._target_laws(text) for text in validation]

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

    def rows(self, index: int) -> Tensor:
        """(B, T) the rows of step `index`: a pure function of it."""
        config = self.config
        written = round(config.batch * config.own_share)
        parts = []
        if written < config.batch:
            count = config.batch - written
            parts.append(draw_batch(self.tokens, count, config.block, config.seed, index)[0])
        if written:
            draws = generator_for(config.seed, "own text", index)
            chosen = draws.integers(0, len(self.own.tokens), size=written)
            parts.append(self.own.tokens[torch.from_numpy(chosen)])
        return torch.cat(parts)

    def backward(self, index: int) -> float:
        """Fill the gradients from step `index`'s rows; their mean loss a token."""
        config, rows = self.config, self.rows(index)
        loss_of = LOSSES[config.schedule.at(index, config.steps)]
        total = 0.0
        for part in rows.chunk(config.parts):
            with torch.autocast(
                self.model.device.type, torch.bfloat16, enabled=config.autocast != "off"
            ):
                with torch.no_grad():
                    wanted = self.target(part)[0]
                found = self.model(part)[0]
            loss = loss_of(wanted.float().log_softmax(-1), found.float().log_softmax(-1))
            loss = loss * (len(part) / len(rows))
            loss.backward()
            total += float(loss.detach())
        return total

    def validation_loss(self) -> float:
        return self.refused(self.model)

    @torch.no_grad()
    def refused(self, model: nn.Module) -> float:
        """1 - mean overlap of a draft (tokens -> logits, hidden) with the target, in full precision."""
        total, count = 0.0, 0
        for text, laws in zip(self.validation, self._laws):
            for rows, wanted in zip(text.tokens.split(ROWS), laws):
                found = model(rows[:, :-1])[0][:, text.opening - 1 :].log_softmax(-1)
                shared = overlap(wanted, found).double()  # (rows, T - opening)
                total, count = total + float(shared.sum()), count + shared.numel()
        return 1 - total / count

    @torch.no_grad()
    def _target_laws(self, text: OwnText) -> list[Tensor]:
        """Log-probabilities (rows, T - opening, V) of what was written, pass by pass: read once, used at each evaluation."""
        return [
            self.target(rows[:, :-1])[0][:, text.opening - 1 :].log_softmax(-1)
            for rows in text.tokens.split(ROWS)
        ]

    def kept(self) -> QuantizedModel:
        """The draft of the best evaluation."""
        with self.weights(self.best) as model:
            return model.quantized()
