"""Intervals by resampling prompts, and standard errors: pure functions from counts to numbers.

A resample is a row of weights, how often each prompt was drawn. Every statistic is a function of weighted totals, so one
matrix product gives it for all resamples, and two drafts under the same weights are compared on the same texts. Percentile
bootstrap: Efron and Tibshirani 1993, chapter 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95% interval over prompts."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@lru_cache(maxsize=8)
def resample_weights(prompts: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """(resamples + 1, prompts) weights, read-only; row 0 is the sample itself, all ones."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples)
    weights = np.vstack([np.ones(prompts), drawn]).astype(float)
    weights.flags.writeable = False  # it is handed out again
    return weights


def interval(values: np.ndarray) -> Interval:
    """From a statistic's values (resamples + 1,), the sample's own first."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail])
    return Interval(float(values[0]), float(low), float(high))


def intervals(values: np.ndarray) -> list[Interval]:
    """interval() of each column of (resamples + 1, columns)."""
    return [interval(values[:, column]) for column in range(values.shape[1])]


@dataclass(frozen=True)
class Errors:
    """Standard errors of a ratio of totals. text: of text and coins, given the prompts; prompts: over prompts, text and coins in
    it. None where too few texts of a prompt, or too few prompts, can tell."""

    text: float | None
    prompts: float | None


def standard_errors(
    numerator: np.ndarray, denominator: np.ndarray, owner: np.ndarray, fitted: int = 0
) -> Errors:
    """Of sum(numerator) / sum(denominator), linearised, over texts (N,) of which `owner` (N,) tells the prompt.

    With z = (numerator - ratio denominator) / sum(denominator) the ratio's error is the sum of z: its variance given the prompts is
    the sum over prompts of S times the variance of their S texts' z, and over prompts that of the prompts' sums. fitted: how many
    slopes less_noise read off the same texts: of N - P degrees of freedom so many are spent, and their own noise comes on top, the loss
    factor of Lavenberg and Welch 1981.
    """
    z = (numerator - numerator.sum() / denominator.sum() * denominator) / denominator.sum()
    groups = [z[owner == prompt] for prompt in np.unique(owner)]
    P, fewest = len(groups), min(map(len, groups))
    sums = np.array([group.sum() for group in groups])
    loss, text = _loss(len(z) - P, fitted), None
    if fewest > 1 and loss:
        text = loss * sum(len(g) * g.var(ddof=1) for g in groups)
    return Errors(
        None if text is None else float(text**0.5),
        float((P * sums.var(ddof=1)) ** 0.5) if P > 1 else None,
    )


def _loss(free: int, fitted: int) -> float | None:
    """Factor on a variance with `free` degrees of freedom behind so many fitted slopes; None where too few are left."""
    if not fitted:
        return 1.0
    left = free - fitted
    return free / left * (free - 1) / (left - 1) if left > 1 else None


def less_noise(
    numerator: np.ndarray, denominator: np.ndarray, owner: np.ndarray, control: np.ndarray
) -> np.ndarray:
    """A numerator (N,) with the same expectation that leaves the ratio less noise of text: b x control is taken off it.

    control (N,) has mean 0 in every prompt; b is the slope, within prompts, of numerator - ratio x denominator on it, so that the
    variance left is 1 - correlation^2 of what it was (control variates: Lavenberg and Welch 1981, Management Science 27). b is read
    off the same texts, which costs a bias of the order of 1 / N.
    """
    rest = numerator - numerator.sum() / denominator.sum() * denominator
    rest, own = (_within(values, owner) for values in (rest, control))
    squares = own @ own
    return numerator - (rest @ own / squares if squares > 0 else 0.0) * control


def _within(values: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Less the mean of the prompt's own texts."""
    _, which = np.unique(owner, return_inverse=True)
    return values - (np.bincount(which, values) / np.bincount(which))[which]
