"""A whole gamma-curve from one text, with no coin flipped.

Speculation does not change the law of the text. So the text is drawn from the target alone, scored once by the draft, and
then asked what speculation would have done. Given that a position is checked and the output there is x, the chance that
x is an accepted draft token is

    a(x) = min(p, q)(x) / p(x) = min(1, q(x) / p(x)),

whatever follows (the token rule; the others are in specdec/replay_rules.py). Rounds are then a Markov chain over start
positions, and the expected counts for every gamma follow by dynamic programming. Every round that starts inside the window
counts whole; the text therefore runs gamma + 1 tokens past it.

It holds for chains whose q depends on the prefix alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specdec.record import Totals


def acceptance_given_output(p_x: np.ndarray, q_x: np.ndarray) -> np.ndarray:
    """a = min(1, q(x) / p(x)) of the token rule, for output tokens x drawn from p (so p_x > 0)."""
    return np.minimum(1.0, q_x / p_x)


@dataclass(frozen=True)
class Expected:
    """Expected counts of one gamma, a row for each text.

    starts (texts, window): chance that a round starts at each position. kept (texts, gamma): rounds that keep their first
    1 ... gamma tokens. checked_at, accepted_at (texts, window): drafted tokens judged and accepted at each position of the
    text; what whole rounds do behind the window is in none of the two, and in all other counts.
    """

    gamma: int
    starts: np.ndarray
    kept: np.ndarray
    checked_at: np.ndarray
    accepted_at: np.ndarray

    @property
    def rounds(self) -> np.ndarray:
        return self.starts.sum(1)

    @property
    def checked_by_depth(self) -> np.ndarray:
        """(texts, gamma): a token is judged where all before it were kept."""
        return np.hstack([self.rounds[:, None], self.kept[:, :-1]])

    @property
    def checked(self) -> np.ndarray:
        return self.checked_by_depth.sum(1)

    @property
    def accepted(self) -> np.ndarray:
        return self.kept.sum(1)

    @property
    def full_rounds(self) -> np.ndarray:
        return self.kept[:, -1]

    def surplus(self, chances: np.ndarray) -> np.ndarray:
        """(texts,): what is accepted in the window, less what was to be expected place by place. Its mean over texts is 0.

        chances: (texts, at least window) of acceptance before the output is known, the rule's closed form (specdec/closed_forms.py).
        Whether a place is checked hangs on the text before it alone, so each term has mean 0 given that text: a control variate that
        takes the next token's luck out of a rate (experiments/stats.py). Not for block, whose chance hangs on the round's start too.
        """
        window = self.starts.shape[1]
        return (self.accepted_at - self.checked_at * chances[:, :window]).sum(1)

    def totals(self, weights: np.ndarray | None = None) -> Totals:
        """Sums over texts, each counted `weights` times (a bootstrap's resample)."""
        weights = np.ones(len(self.starts)) if weights is None else weights
        rounds, accepted = weights @ self.rounds, weights @ self.accepted
        return Totals(
            rounds=float(rounds),
            proposed=float(self.gamma * rounds),
            checked=float(weights @ self.checked),
            accepted=float(accepted),
            emitted=float(accepted + rounds),
            draft_passes=float(self.gamma * rounds),
            full_rounds=float(weights @ self.full_rounds),
        )


def walk(
    reach: Callable[[int], np.ndarray], shape: tuple[int, int], gamma: int, window: int
) -> Expected:
    """Expected counts of rounds starting in 0 ... window - 1.

    Args:
        reach: start s -> (texts, gamma + 1), the chance that a round that starts there keeps its first k = 0 ... gamma tokens.
        shape: (texts, positions known of each).
        gamma: tokens drafted a round.
        window: start positions that count.

    Raises: ValueError where the texts are too short.
    """
    texts, length = shape
    if length < window - 1 + gamma:
        raise ValueError(
            f"texts of {length} positions; window {window} and gamma {gamma} need {window - 1 + gamma}"
        )
    starts = np.zeros((texts, window + gamma + 1))  # chance that a round starts here
    starts[:, 0] = 1.0
    kept_in_all = np.zeros((texts, gamma))
    checked_at, accepted_at = np.zeros((2, texts, window + gamma))
    for s in range(window):
        kept = starts[:, s : s + 1] * reach(s)  # (texts, gamma + 1)
        kept_in_all += kept[:, 1:]
        checked_at[:, s : s + gamma] += kept[:, :-1]
        accepted_at[:, s : s + gamma] += kept[:, 1:]
        kept[:, :-1] -= kept[:, 1:]  # now the chance that exactly k are kept
        starts[:, s + 1 : s + gamma + 2] += kept
    inside = slice(window)
    return Expected(
        gamma, starts[:, inside], kept_in_all, checked_at[:, inside], accepted_at[:, inside]
    )


def replay(a: np.ndarray, gamma: int, window: int) -> Expected:
    """`walk` for a rule whose chance of acceptance depends on the position alone.

    a: (texts, at least window - 1 + gamma) chances by position of the output. Raises ValueError as `walk`.
    """

    def reach(start: int) -> np.ndarray:
        chances = np.ones((len(a), gamma + 1))
        np.cumprod(a[:, start : start + gamma], axis=1, out=chances[:, 1:])
        return chances

    return walk(reach, a.shape, gamma, window)
