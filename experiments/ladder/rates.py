"""From the ladder's records to rates with intervals, and who wins among drafts of about the same size. Runs no model.

Gamma and winners are chosen on the choosing half, values and intervals are the reporting half's: resampled prompts, 95%.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.stats import Interval, interval, resample_weights

CLASSES = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 9.0)  # most bits per weight of a class
ROOM = 0.01  # of a bit: a float32 beside each matrix's scales belongs to the class


@dataclass(frozen=True)
class Rates:
    """A draft at one temperature on the reporting prompts; `chosen_speed_up` is the choosing half's own."""

    gamma: int
    alpha: Interval
    tokens_per_pass: Interval
    speed_up: Interval
    chosen_speed_up: float
    beta: float
    cached_gamma: int
    cached_speed_up: float


@dataclass(frozen=True)
class Rung:
    """A draft: its sizes, its distance from the target, and temperature -> Rates. alphas, kl: (choosing, reporting) at T = 1,
    alphas at the gamma that all drafts share."""

    draft: str
    bits_per_weight: float
    c: dict[str, float]
    relative_error: float  # root of the relative squared error of the weights
    kl: tuple[float, float]
    agreement: float
    alphas: tuple[float, float]
    rates: dict[float, Rates]

    @property
    def sqnr_db(self) -> float:
        return -20 * float(np.log10(self.relative_error))

    @property
    def byte_class(self) -> float:
        return next(most for most in CLASSES if self.bits_per_weight <= most + ROOM)


def rung(record: dict) -> Rung:
    """Raises KeyError, ValueError where the record is another experiment's."""
    result = record["result"]
    found = {float(t): rates_of(part, result["c"]) for t, part in result["temperatures"].items()}
    shared = result["temperatures"]["1"]["shared"]
    return Rung(
        draft=record["point"]["draft"],
        bits_per_weight=result["bits_per_weight"],
        c=result["c"],
        relative_error=result["relative_squared_error"] ** 0.5,
        kl=tuple(result["kl"]),
        agreement=result["agreement"][1],
        alphas=tuple(half["accepted"] / half["checked"] for half in shared),
        rates=found,
    )


def rates_of(part: dict, c: dict[str, float]) -> Rates:
    gamma, own = part["gamma"], part["reporting"]
    weights = resample_weights(len(own["rounds"]))
    rounds, accepted, checked = (
        weights @ np.array(own[name]) for name in ("rounds", "accepted", "checked")
    )
    tokens = 1 + accepted / rounds
    chosen = {name: values[gamma - 1] for name, values in part["choosing"].items()}
    cached = part["cached"]
    return Rates(
        gamma=gamma,
        alpha=interval(accepted / checked),
        tokens_per_pass=interval(tokens),
        speed_up=interval(tokens / (1 + gamma * c["weights"])),
        chosen_speed_up=(1 + chosen["accepted"] / chosen["rounds"]) / (1 + gamma * c["weights"]),
        beta=part["overlap"][1],
        cached_gamma=cached["gamma"],
        cached_speed_up=(1 + cached["accepted"] / cached["rounds"])
        / (1 + cached["gamma"] * c["with_cache"]),
    )


def winners(rungs: list[Rung], temperature: float = 1.0) -> dict[float, Rung]:
    """byte class -> the draft with the largest speed-up on the choosing prompts; a tie goes to the fewer bits."""
    best: dict[float, Rung] = {}
    for one in sorted(rungs, key=lambda r: r.bits_per_weight):
        held = best.get(one.byte_class)
        if held is None or _chosen(one, temperature) > _chosen(held, temperature):
            best[one.byte_class] = one
    return dict(sorted(best.items()))


def winner(rungs: list[Rung], temperature: float = 1.0) -> Rung:
    """The draft with the largest speed-up of all, on the choosing prompts."""
    return max(rungs, key=lambda one: _chosen(one, temperature))


def _chosen(one: Rung, temperature: float) -> float:
    return one.rates[temperature].chosen_speed_up
