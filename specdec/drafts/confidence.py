"""When a model stops drafting before gamma: behind the first token that it was not sure of.

That token is *kept* and judged with the rest, which is what makes the stop exact: the number of drafted tokens then depends on
nothing but what has been drawn, and each token still comes from the law it is judged by. Throwing it away would bias the
text, since unlikely tokens would be missing from what the rule believes was drawn from q.

The law that is looked at is the one drawn from, after temperature: at temperature 0 it has one token in it, and a draft is always sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# (the law (V,) that a token was drawn from, the token) -> end here?
Watch = Callable[[Tensor, int], bool]


class Stop(Protocol):
    """Decides, behind each drafted token, whether the round's drafting ends there. begin: the watch over one round, which may
    remember the round's earlier tokens."""

    def begin(self) -> Watch: ...


class OneToken:
    """What stops that look at one token alone share."""

    def begin(self) -> Watch:
        return self.met

    def met(self, law: Tensor, token: int) -> bool:
        raise NotImplementedError


@dataclass(frozen=True)
class LeastProbability(OneToken):
    """Stop behind a token to which the draft gave less than `threshold`, 0 ... 1. transformers stops under .4."""

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"a probability lies in 0 to 1, not at {self.threshold:g}")

    def met(self, law: Tensor, token: int) -> bool:
        return float(law[token]) < self.threshold


@dataclass(frozen=True)
class MostEntropy(OneToken):
    """Stop behind a token whose law has an entropy above `threshold`, in nats: 0 and above; log 256 = 5.5 is never passed."""

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < math.inf:
            raise ValueError(f"an entropy is 0 nats or above and finite, not {self.threshold:g}")

    def met(self, law: Tensor, token: int) -> bool:
        return entropy(law) > self.threshold


@dataclass(frozen=True)
class PredictedOverlap:
    """Stop where another token is not expected to pay.

    A token x drawn from q is predicted to be accepted with a = sigmoid(level + by_entropy H(q) + by_log ln q(x)), fitted to what the
    target did elsewhere; h is the product of the round's a so far, the chance that all of it is kept. One token more costs c
    and brings h a' tokens, a' the acceptance of a usual token. What maximises tokens over cost goes on as long as that pays
    at the going rate, the speed-up S: h a' > c S. So the round ends where h < least = c S / a'.

    Raises ValueError where a number is not finite or `least` is outside 0 ... 1.
    """

    level: float
    by_entropy: float
    by_log: float
    least: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.level, self.by_entropy, self.by_log))):
            raise ValueError("the three numbers of the fit must be finite")
        if not 0 <= self.least <= 1:
            raise ValueError(f"a chance lies in 0 to 1, not at {self.least:g}")

    def predicted(self, law: Tensor, token: int) -> float:
        at = self.level + self.by_entropy * entropy(law) + self.by_log * math.log(law[token])
        return 1 / (1 + math.exp(-at)) if at > -700 else 0.0  # exp overflows beyond

    def begin(self) -> Watch:
        kept = 1.0

        def watch(law: Tensor, token: int) -> bool:
            nonlocal kept
            kept *= self.predicted(law, token)
            return kept < self.least

        return watch


def entropy(law: Tensor) -> float:
    """Of a law (V,), in nats."""
    return float(torch.special.entr(law).sum())


# kind -> (maker, what its numbers are)
STOPS: dict[str, tuple[type, str]] = {
    "prob": (LeastProbability, "P"),
    "entropy": (MostEntropy, "NATS"),
    "overlap": (PredictedOverlap, "LEVEL,BY_ENTROPY,BY_LOG,LEAST"),
}


def parse_stop(text: str) -> Stop:
    """A stop by its name and numbers, as in `prob:0.4`, `entropy:2.0` or `overlap:3,-0.8,0.3,0.5`. Raises ValueError saying what would
    be right."""
    kind, _, numbers = text.partition(":")
    forms = ", ".join(f"{name}:{form}" for name, (_, form) in STOPS.items())
    if kind not in STOPS:
        raise ValueError(f"{text!r} is no stop; write one of {forms}, as in prob:0.4")
    make, form = STOPS[kind]
    try:
        values = [float(number) for number in numbers.split(",")]
        if len(values) != form.count(",") + 1:
            raise ValueError
    except ValueError:
        raise ValueError(f"{text!r} lacks its numbers; write {kind}:{form}") from None
    try:
        return make(*values)
    except ValueError as error:
        raise ValueError(f"{text!r} is out of range: {error}") from None
