"""Training of heads beside a frozen target: Medusa's and EAGLE's, towards the target's own laws behind the tokens that follow.

A distillation (specdec/distilling.py) whose student reads the target's states: a step reads rows of text with the target once, and the heads
are moved down the gradient of a loss between their laws and the target's at the places they look ahead to.

EAGLE's head also learns to hit the features themselves, and to read its own guesses as it does when it drafts: in the second reading of
a row the first one's features stand for the target's (as in the training-time test of EAGLE-3, Li et al. 2025, arXiv 2503.01840).

Shapes: B rows  T tokens a row  D width  V vocabulary
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from micro.model import Transformer
from specdec.distilling import ROWS, DistilConfig, Distiller, OwnText
from specdec.drafts.eagle import EagleHead, EagleNet
from specdec.drafts.medusa import MedusaHeads
from specdec.tuning_losses import LOSSES, Schedule, overlap


@dataclass(frozen=True)
class HeadConfig(DistilConfig):
    """What a training of heads computes.

    kind: a name in STUDENTS. depth: Medusa's heads, or how often EAGLE's reads a row. feature_share: weight of the distance to the
    target's features beside the loss between laws; Medusa has none.

    Raises ValueError naming the first field that is out of range.
    """

    kind: str = "medusa"
    depth: int = 4
    steps: int = 200
    warmup: int = 10
    beta2: float = 0.95
    eval_every: int = 25
    schedule: Schedule = Schedule((("kl", 1.0), ("tv", 2.0)))
    own_share: float = 0.5
    feature_share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fix(remember=False)
        if self.kind not in STUDENTS:
            raise ValueError(f"kind must be one of {', '.join(STUDENTS)}, not {self.kind!r}")
        if not 1 <= self.depth < self.block - 1:
            raise ValueError(
                f"depth must be 1 or above and below block - 1, {self.block - 1}, not {self.depth}"
            )
        if self.feature_share < 0:
            raise ValueError(f"feature_share must be 0 or above, not {self.feature_share!r}")


@dataclass(frozen=True)
class Guess:
    """Logits (B, T - depth, V) behind the tokens from number `depth` on, as drafting would guess them, and the features."""

    depth: int
    logits: Tensor
    features: Tensor | None = None


class Student(nn.Module):
    """Heads under training, beside a target that is not among their parameters. Called with tokens (B, T) and the target's states of
    them (B, T, D), it gives a Guess for each depth."""

    def __init__(self, head: nn.Module, target: Transformer, depth: int) -> None:
        super().__init__()
        self.head, self.depth = head, depth
        self._target = (target,)  # in a tuple: no module of this one
        self.context, self.device = target.context, target.device


class MedusaStudent(Student):
    def __init__(self, target: Transformer, config: HeadConfig) -> None:
        heads = MedusaHeads(target.config.hidden_size, config.depth)
        super().__init__(heads, target, config.depth)

    def forward(self, tokens: Tensor, hidden: Tensor) -> Iterator[Guess]:
        for place, read in enumerate(self.head(hidden, self.depth), start=1):
            yield Guess(place, self._target[0].lm_head(read[:, :-place]))


class EagleStudent(Student):
    def __init__(self, target: Transformer, config: HeadConfig) -> None:
        head = EagleHead(target)
        head.initialise(target, config.seed)
        super().__init__(head, target, config.depth)

    def forward(self, tokens: Tensor, hidden: Tensor) -> Iterator[Guess]:
        net, features = EagleNet(self.head, self._target[0]), hidden
        for place in range(1, self.depth + 1):
            # one pair fewer each time: the last feature has no token behind it
            logits, features = net.forward(features[:, :-1], tokens[:, place:])
            yield Guess(place, logits, features)


# kind -> Student of (target, config)
STUDENTS: dict[str, type[Student]] = {"medusa": MedusaStudent, "eagle": EagleStudent}


class HeadTrainer(Distiller):
    """A training in memory: a Distiller whose student guesses ahead of the target's states.

    Its validation "loss" is 1 - the mean over depths of the overlap of guess and target. Raises ValueError as Distiller.
    """

    def __init__(
        self,
        target: Transformer,
        tokens: Tensor,
        own: OwnText | None,
        validation: Sequence[OwnText],
        config: HeadConfig,
    ) -> None:
        student = STUDENTS[config.kind](target, config)
        super().__init__(target, student, tokens, own, validation, config)

    def backward(self, index: int) -> float:
        """Fill the gradients from step `index`'s rows; the mean over depths of their loss a token."""
        config, rows, total = self.config, self.rows(index), 0.0
        loss_of = LOSSES[config.schedule.at(index, config.steps)]
        for part in rows.chunk(config.parts):
            with self._autocast():
                with torch.no_grad():
                    logits, hidden = self.target(part)
                guesses = list(self.model(part, hidden))
            wanted = logits.float().log_softmax(-1)
            losses = [self._loss(guess, wanted, hidden, loss_of) for guess in guesses]
            loss = sum(losses) * (len(part) / len(rows) / len(losses))
            loss.backward()
            total += float(loss.detach())
        return total

    def _loss(self, guess: Guess, wanted: Tensor, hidden: Tensor, loss_of) -> Tensor:
        """wanted (B, T, V) log-probabilities, hidden (B, T, D), of the target."""
        loss = loss_of(wanted[:, guess.depth :], guess.logits.float().log_softmax(-1))
        if guess.features is None:
            return loss
        off = F.smooth_l1_loss(guess.features.float(), hidden[:, guess.depth :].float())
        return loss + self.config.feature_share * off

    def validation_loss(self) -> float:
        overlaps = self.overlaps(self.model)
        return 1 - sum(overlaps) / len(overlaps)

    @torch.no_grad()
    def overlaps(self, student: nn.Module) -> list[float]:
        """Of each depth: the mean overlap of its guess with the target's law, over what was written behind the openings."""
        shared: dict[int, list[Tensor]] = {}
        for text, reads in zip(self.validation, self._laws):
            for tokens, wanted, hidden in reads:
                for guess in student(tokens, hidden):
                    first = max(text.opening - 1, guess.depth)  # the law of what was written first
                    found = guess.logits[:, first - guess.depth :].log_softmax(-1)
                    values = overlap(wanted[:, first:], found).double().flatten()
                    shared.setdefault(guess.depth, []).append(values)
        return [float(torch.cat(values).mean()) for _, values in sorted(shared.items())]

    @torch.no_grad()
    def _target_laws(self, text: OwnText) -> list[tuple[Tensor, Tensor, Tensor]]:
        """(tokens, the target's log-probabilities, its states), pass by pass: read once, used at each evaluation."""
        found = []
        for rows in text.tokens[:, :-1].split(ROWS):
            logits, hidden = self.target(rows)
            found.append((rows, logits.log_softmax(-1), hidden))
        return found

    def kept(self) -> nn.Module:
        """The heads of the best evaluation."""
        with self.weights(self.best) as student:
            return copy.deepcopy(student.head)
