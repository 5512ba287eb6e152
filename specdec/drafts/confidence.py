"""When a model stops drafting before gamma: behind the first token that it was not sure of.

That token is *kept* and judged with the rest, which is what makes the stop exact: the number of drafted tokens then depends on
nothing but what has been drawn, and each token still comes from the law it is judged by. Throwing it away would bias the
text, since unlikely tokens would be missing from what the rule believes was drawn from q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Stop(Protocol):
    """Decides, behind each drafted token, whether the round's drafting ends there."""

    def met(self, law: Tensor, token: int) -> bool: ...


@dataclass(frozen=True)
class LeastProbability:
    """Stop behind a token to which the draft gave less than `threshold`, 0 ... 1. transformers stops under .4."""

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"a probability lies in 0 to 1, not at {self.threshold:g}")

    def met(self, law: Tensor, token: int) -> bool:
        return float(law[token]) < self.threshold


@dataclass(frozen=True)
class MostEntropy:
    """Stop behind a token whose law has an entropy above `threshold`, in nats: 0 and above; log 256 = 5.5 is never passed."""

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < math.inf:
            raise ValueError(f"an entropy is 0 nats or above and finite, not {self.threshold:g}")

    def met(self, law: Tensor, token: int) -> bool:
        return float(torch.special.entr(law).sum()) > self.threshold


# kind -> maker(threshold)
STOPS: dict[str, type] = {"prob": LeastProbability, "entropy": MostEntropy}


def parse_stop(text: str) -> Stop:
    """A stop by its name and threshold, as in `prob:0.4` or `entropy:2.0`. Raises ValueError saying what would be right."""
    kind, _, threshold = text.partition(":")
    if kind not in STOPS:
        raise ValueError(f"{text!r} is no stop; write prob:P or entropy:NATS, as in prob:0.4")
    try:
        value = float(threshold)
    except ValueError:
        raise ValueError(f"{text!r} lacks its threshold, a number, as in {kind}:0.4") from None
    try:
        return STOPS[kind](value)
    except ValueError as error:
        raise ValueError(f"{text!r} is out of range: {error}") from None
