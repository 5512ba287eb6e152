"""Clocks that can be trusted: paired, interleaved runs in one process, and a ratio with an interval.

A machine's speed drifts: it warms up, and other programs come and go. So the things compared take turns (A B A B ...), each turn is
a pair measured under nearly the same conditions, and what is reported is the median of the pairs' ratios. Its interval needs no
assumption on the noise: the median of n independent pairs lies between the k-th smallest and the k-th largest ratio with
probability 1 - 2 P(Binomial(n, 1/2) < k).

A job must return numbers that lie in the host's memory: then its work is done when the second clock is read, also where a device
computes beside the processor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Clock = Callable[[], float]
LEVEL = 0.95


@dataclass(frozen=True)
class Timing:
    """Seconds of each timed repeat of a job, in their order, and how many units (tokens, passes) one repeat makes."""

    seconds: tuple[float, ...]
    units: int

    def summary(self) -> dict[str, float]:
        """Milliseconds a unit: median, quartiles, extremes."""
        each = 1e3 * np.asarray(self.seconds) / self.units
        low, q1, median, q3, high = np.quantile(each, [0, 0.25, 0.5, 0.75, 1]).tolist()
        return {"median": median, "q1": q1, "q3": q3, "min": low, "max": high}


@dataclass(frozen=True)
class Ratio:
    """Median of the pairs' ratios. low and high: an interval that holds the true median with `confidence`."""

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Session:
    """Timings of jobs that took turns. outside: the seconds of all repeats by one clock around them; inside: the sum of theirs."""

    timings: dict[str, Timing]
    outside: float
    inside: float


def take_turns(
    jobs: dict[str, Callable[[int], int]],
    repeats: int,
    warmups: int,
    clock: Clock = time.perf_counter,
) -> Session:
    """Run each job `warmups` times untimed, then all of them in turn, `repeats` times.

    A job is called with the number of the turn, the same for all, and returns how many units it made; it must be the same number
    every time, or ValueError is raised.
    """
    for turn in range(warmups):
        for job in jobs.values():
            job(turn)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    units: dict[str, int] = {}
    begin = clock()
    for turn in range(repeats):
        for name, job in jobs.items():
            start = clock()
            made = job(turn)
            seconds[name].append(clock() - start)
            if units.setdefault(name, made) != made:
                raise ValueError(f"{name} made {made} units, then {units[name]}: no fair repeats")
    outside = clock() - begin
    timings = {name: Timing(tuple(taken), units[name]) for name, taken in seconds.items()}
    return Session(timings, outside, sum(map(sum, seconds.values())))


def median_ranks(count: int, level: float = LEVEL) -> tuple[int, float]:
    """(k, confidence): from the k-th smallest to the k-th largest of `count` values, counted from 1.

    The largest k that keeps `level`; where none does (fewer than 6 values at 95%) k = 1, with the confidence that has.
    """
    tail, below = 0.0, [0.0]  # below[k]: P(Binomial(count, 1/2) < k)
    for successes in range(count // 2 + 1):
        tail += math.comb(count, successes) / 2**count
        below.append(tail)
    fitting = [k for k in range(1, (count + 1) // 2 + 1) if 1 - 2 * below[k] >= level]
    k = max(fitting, default=1)
    return k, max(0.0, 1 - 2 * below[k])


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Ratio:
    """How many times faster `fast` is than `slow`: the median over pairs of slow / fast. Below 1 it is slower."""
    each = sorted(a / b for a, b in zip(slow, fast, strict=True))
    k, confidence = median_ranks(len(each))
    return Ratio(float(np.median(each)), each[k - 1], each[-k], confidence)


def compare(session: Session, slow: str, fast: str) -> Ratio:
    """ratio of two jobs of a session, for each unit they made."""
    a, b = session.timings[slow], session.timings[fast]
    return ratio([s / a.units for s in a.seconds], [s / b.units for s in b.seconds])
