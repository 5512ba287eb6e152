"""How far a draft's law is from the target's: three losses, and a schedule of them over a training.

    kl           sum over tokens of p log(p / q), nats: what distillation minimises (Hinton et al. 2015, arXiv 1503.02531)
    tv           1 - sum of min(p, q): the chance that a drafted token is refused, which is what a draft costs
    log-overlap  -log sum of min(p, q), nats: refusals weigh more where there are many

Each is summed over the vocabulary and averaged over tokens: neither rows nor length change it. kl's gradient is large wherever
laws differ and pulls from afar; tv's sees only on which side of p each q lies, and is exact about what counts (Zhou et al. 2024,
DistillSpec, arXiv 2310.08461, section 3). Hence a schedule: one, then the other. Worked, p = (.5, .5), q = (.9, .1):
kl .5 log(.5/.9) + .5 log(.5/.1) = .5108; tv 1 - (.5 + .1) = .4; log-overlap -log .6 = .5108 too,
since kl is -log sqrt(.36) here.

Shapes: log-probabilities (..., V), of the target without gradient
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def overlap(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(...) sum over the vocabulary of min(p, q)."""
    return torch.minimum(log_p, log_q).exp().sum(-1)


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    # p log p is 0 where p is: 0 x -inf would be NaN
    difference = torch.where(log_p == -math.inf, 0.0, log_p - log_q)
    return (log_p.exp() * difference).sum(-1).mean()


def total_variation(log_p: Tensor, log_q: Tensor) -> Tensor:
    return 1 - overlap(log_p, log_q).mean()


def log_overlap(log_p: Tensor, log_q: Tensor) -> Tensor:
    return -overlap(log_p, log_q).log().mean()


# name -> loss (log_p, log_q) -> ()
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "kl": kl,
    "tv": total_variation,
    "log-overlap": log_overlap,
}


@dataclass(frozen=True)
class Schedule:
    """Losses one after the other, each for its share of the steps. Raises ValueError naming what is wrong."""

    parts: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a schedule needs a loss, as in kl or kl:1,tv:2")
        for name, share in self.parts:
            if name not in LOSSES:
                raise ValueError(f"loss {name!r} is unknown; there are {', '.join(LOSSES)}")
            if not 0 < share < math.inf:
                raise ValueError(f"the share of {name} must be above 0 and finite, not {share:g}")

    def at(self, step: int, steps: int) -> str:
        """The name of the loss of step 0 ... steps - 1."""
        total = sum(share for _, share in self.parts)
        passed = 0.0
        for name, share in self.parts:
            passed += share / total
            if step < round(passed * steps):
                return name
        return self.parts[-1][0]

    def __str__(self) -> str:
        return ",".join(f"{name}:{share:g}" for name, share in self.parts)


def parse_schedule(text: str) -> Schedule:
    """`kl`, `kl,tv` (half and half) or `kl:1,tv:2` (a third and two). Raises ValueError naming what is wrong."""
    parts = []
    for part in text.split(","):
        name, _, share = part.partition(":")
        try:
            parts.append((name, float(share) if share else 1.0))
        except ValueError:
            raise ValueError(
                f"{part!r}: a share is a number, as in kl:1,tv:2 (a third, then the rest)"
            ) from None
    return Schedule(tuple(parts))
