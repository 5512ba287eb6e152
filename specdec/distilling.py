"""Training a draft to be accepted: a student learns the target's own law on text that it will draft in.

A step reads rows of text with both models and moves the student down the gradient of a loss between the two laws
(specdec/tuning_losses.py). Of the rows some are training text and some are text that the target itself wrote behind openings of
training text: what a draft meets when it drafts. The student that is kept is the one with the largest overlap on text that the target
wrote behind openings of other plates. Hinton et al. 2015 (arXiv 1503.02531); towards acceptance: Zhou et al. 2024, DistillSpec
(arXiv 2310.08461).

Any module of tokens -> (logits, hidden) is a student: a low-bit copy (specdec/tuning.py), a small model of its own, the norm of an
early exit. The target is only read; and since it still checks every token, the text's law cannot change, however the draft is bent.
The run itself (steps, rate, best weights, resuming) is micro.train's; this adds what is learned.

Shapes: B rows  T tokens a row  V vocabulary  N texts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor, nn

from micro.chance import SeededChance, generator_for
from micro.generate import generate_batch
from micro.model import Transformer
from micro.sampling import Sampling
from micro.text import draw_batch
from micro.train import TrainConfig, Trainer
from specdec.tuning_losses import LOSSES, Schedule, overlap

ROWS = 32  # texts a pass of the evaluation; bounds its memory


@dataclass(frozen=True)
class DistilConfig(TrainConfig):
    """What a distillation computes; a batch's `block` is a row of the texts. A student that begins at random weights knows no position
    beyond it: a block of the whole context, as TrainConfig's, is what such a one needs.

    schedule: losses and their shares of the steps. own_share: of a batch's rows, those that the target wrote. parts: passes that
    a batch is split into, at the same step and less memory. remember: work out the target's laws on its own texts once, in 2 V
    bytes a token, instead of at every step: beside a small student the target's pass is nearly all of a step. All rows must then
    be own ones.

    Raises ValueError naming the first field that is out of range.
    """

    steps: int = 2000
    warmup: int = 60
    weight_decay: float = 0.0
    dropout: float = 0.0
    schedule: Schedule = Schedule((("kl", 1.0), ("tv", 1.0)))
    own_share: float = 1.0
    parts: int = 1
    remember: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fix(dropout=0.0)
        if not 0 <= self.own_share <= 1:
            raise ValueError(f"own_share must be from 0 to 1, not {self.own_share!r}")
        if not 1 <= self.parts <= self.batch:
            raise ValueError(f"parts must be 1 to batch, {self.batch}, not {self.parts!r}")
        if self.remember and self.own_share < 1:
            raise ValueError(
                "remember must be False where rows are training text: own_share below 1"
            )

    def fix(self, **only: object) -> None:
        """Raises ValueError where a field has another value than the one that is computed."""
        for name, value in only.items():
            if getattr(self, name) != value:
                raise ValueError(f"{name} must be {value!r} here, not {getattr(self, name)!r}")


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


def chosen_texts(own: OwnText | None, config: DistilConfig, index: int) -> Tensor:
    """Which own texts stand in the batch of step `index`, behind its rows of training text."""
    written = round(config.batch * config.own_share)
    if not written:
        return torch.zeros(0, dtype=torch.long)
    draws = generator_for(config.seed, "own text", index)
    return torch.from_numpy(draws.integers(0, len(own.tokens), size=written))


class Distiller(Trainer):
    """A distillation in memory: micro.train's Trainer, whose loss is the distance of `student` to `target`.

    Args: `student` (tokens -> logits, hidden) with its `context` and `device`; `tokens` (N,) training text; `own` what the target
    wrote behind it; `validation` the same for other text (none: nothing is evaluated and the last step is kept). Its validation
    "loss" is the mean chance of a refusal, 1 - overlap, over what was written there. Raises ValueError where texts and rows differ in
    length, or as Trainer.
    """

    def __init__(
        self,
        target: Transformer,
        student: nn.Module,
        tokens: Tensor,
        own: OwnText | None,
        validation: Sequence[OwnText],
        config: DistilConfig,
    ) -> None:
        if config.own_share and own is None:
            raise ValueError(f"own_share {config.own_share:g} needs text that the target wrote")
        if own is not None and own.tokens.shape[1] != config.block:
            raise ValueError(
                f"own texts have {own.tokens.shape[1]} tokens, rows of a batch {config.block}"
            )
        self.target, self.own = target, own
        super().__init__(student, tokens, validation, config)
        self._laws = [self._target_laws(text) for text in validation]
        self._known = self._own_laws() if config.remember else None

    def rows(self, index: int) -> Tensor:
        """(B, T) the rows of step `index`: a pure function of it."""
        config, parts = self.config, []
        chosen = chosen_texts(self.own, config, index)
        if len(chosen) < config.batch:
            count = config.batch - len(chosen)
            parts.append(draw_batch(self.tokens, count, config.block, config.seed, index)[0])
        if len(chosen):
            parts.append(self.own.tokens[chosen])
        return torch.cat(parts)

    def backward(self, index: int) -> float:
        """Fill the gradients from step `index`'s rows; their mean loss a token."""
        config, rows = self.config, self.rows(index)
        loss_of = LOSSES[config.schedule.at(index, config.steps)]
        known = repeat(None)
        if self._known is not None:
            known = self._known[chosen_texts(self.own, config, index)].chunk(config.parts)
        total = 0.0
        for part, wanted in zip(rows.chunk(config.parts), known):
            with self._autocast():
                if wanted is None:
                    with torch.no_grad():
                        wanted = self.target(part)[0]
                found = self.model(part)[0]
            # log_softmax of log-probabilities is themselves, their rounding to 16 bits mended
            loss = loss_of(wanted.float().log_softmax(-1), found.float().log_softmax(-1))
            loss = loss * (len(part) / len(rows))
            loss.backward()
            total += float(loss.detach())
        return total

    def _autocast(self) -> torch.autocast:
        enabled = self.config.autocast != "off"
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=enabled)

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

    @torch.no_grad()
    def _own_laws(self) -> Tensor:
        """(N, T, V) float16 log-probabilities behind every token of the own texts."""
        with self._autocast():
            parts = [self.target(rows)[0] for rows in self.own.tokens.split(ROWS)]
        return torch.cat([part.float().log_softmax(-1).half() for part in parts])
