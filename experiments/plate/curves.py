"""From an estimate's record to rates with intervals. Runs no model.

Every function takes resample weights, so that what is compared is compared on the same resamples: the best gamma is chosen
again inside each of them, and a difference between drafts is taken within each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.stats import Interval, interval, intervals, resample_weights
from specdec.theory import tokens_per_pass

C_NAMES = ("nominal", "weights", "with_cache")
HEADLINE_C = "weights"


@dataclass(frozen=True)
class Curve:
    """One draft at one temperature: weighted totals (resamples + 1, gammas), the sample itself in row 0."""

    draft: str
    temperature: float
    gammas: np.ndarray
    rounds: np.ndarray
    checked: np.ndarray
    accepted: np.ndarray
    full: np.ndarray
    overlap: np.ndarray  # (resamples + 1,) mean beta
    c: dict[str, float]
    mean_context: int

    @property
    def alpha(self) -> np.ndarray:
        return self.accepted / self.checked

    @property
    def tokens_per_pass(self) -> np.ndarray:
        # replay's rounds are never cut: each emits accepted + 1
        return 1 + self.accepted / self.rounds

    @property
    def formula(self) -> np.ndarray:
        """(1, gammas): f(alpha) of the sample itself, with the alpha measured at the same gamma."""
        alpha = np.clip(self.alpha[0], 0, 1)
        known = (tokens_per_pass(a, g) if a == a else np.nan for a, g in zip(alpha, self.gammas))
        return np.array([list(known)])

    @property
    def full_share(self) -> np.ndarray:
        """M."""
        return self.full / self.rounds

    def speed_up(self, c: float, w_slope: float = 0.0, overhead: float = 0.0) -> np.ndarray:
        """Tokens per pass / (w + gamma c + o), with w(rows) = 1 + w_slope (rows - 1)."""
        return self.tokens_per_pass / (1 + (w_slope + c) * self.gammas + overhead)

    def best(self, c: float, w_slope: float = 0.0) -> tuple[int, Interval]:
        """The sample's best gamma, and the interval of the best speed-up, gamma chosen anew in each resample.

        A gamma without a value (NaN) is passed over. Raises ValueError where all are.
        """
        values = self.speed_up(c, w_slope)
        return int(self.gammas[np.nanargmax(values[0])]), interval(np.fmax.reduce(values, axis=1))

    def at(self, values: np.ndarray, gamma: int) -> Interval:
        return interval(values[:, list(self.gammas).index(gamma)])


def curve(record: dict, weights: np.ndarray | None = None) -> Curve:
    """A record's Curve under `weights` (resamples + 1, prompts); default: the bootstrap's own.

    A null among the counts becomes NaN, and so does every rate that needs it.
    """
    result = record["result"]
    if weights is None:
        weights = resample_weights(len(result["prompts"]))
    names = ("rounds", "checked", "accepted", "full_rounds", "overlap", "positions")
    counts = [np.array(result[name], dtype=float) for name in names]
    ends = np.cumsum([count.shape[1] for count in counts])[:-1]
    totals = dict(zip(names, np.split(weights @ np.hstack(counts), ends, axis=1)))  # one product
    return Curve(
        record["point"]["draft"],
        record["point"]["temperature"],
        np.array(result["gammas"]),
        totals["rounds"],
        totals["checked"],
        totals["accepted"],
        totals["full_rounds"],
        (totals["overlap"] / totals["positions"])[:, 0],
        result["c"],
        result["mean_context"],
    )


def rule_text(record: dict) -> str:
    """The record's rule as the end of a phrase, as in `, rule block`; nothing for the default one."""
    rule = record.get("inputs", {}).get("rule", "token")
    return "" if rule == "token" else f", rule {rule}"


def by_kind(record: dict) -> dict[str, Curve]:
    """kind of prompt -> the Curve over its prompts alone."""
    kinds = np.array(record["result"]["kinds"])
    weights = resample_weights(len(kinds))
    out = {}
    for kind in dict.fromkeys(kinds.tolist()):
        mine = kinds == kind
        own = np.zeros((len(weights), len(kinds)))
        own[:, mine] = resample_weights(int(mine.sum()))
        out[kind] = curve(record, own)
    return out


def paired_difference(one: Curve, other: Curve, c_name: str = HEADLINE_C) -> Interval:
    """Best speed-up of `one` minus `other`'s, on the same resamples of the same texts."""
    mine, theirs = (x.speed_up(x.c[c_name]).max(axis=1) for x in (one, other))
    return interval(mine - theirs)


def series(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, low, high) over gamma of values (resamples + 1, gammas)."""
    found = intervals(values)
    return tuple(np.array([getattr(i, name) for i in found]) for name in ("value", "low", "high"))
