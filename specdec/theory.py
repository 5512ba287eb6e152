"""Closed forms of Leviathan, Kalman, Matias 2023 (arXiv 2211.17192), under their assumption that every drafted token is
accepted independently with the same alpha. What replay measures differs exactly where that does not hold.

c is the cost of a draft pass in target passes; the caller says which c.
"""

from __future__ import annotations

from collections.abc import Callable


def _check(alpha: float, gamma: int) -> None:
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie in 0 ... 1, not {alpha}")
    if gamma < 0:
        raise ValueError(f"gamma must be 0 or above, not {gamma}")


def tokens_per_pass(alpha: float, gamma: int) -> float:
    """f(alpha) = (1 - alpha^(gamma + 1)) / (1 - alpha): 1 at alpha 0, gamma + 1 at alpha 1 (equation 1).

    Summed as 1 + alpha + ... + alpha^gamma, which has no 0 / 0 and no cancellation near 1.
    """
    _check(alpha, gamma)
    total, term = 0.0, 1.0
    for _ in range(gamma + 1):
        total += term
        term *= alpha
    return total


def speed_up(alpha: float, gamma: int, c: float, w: float = 1.0, overhead: float = 0.0) -> float:
    """f(alpha) / (w + gamma c + o) (theorem 3.8, where w = 1 and o = 0)."""
    if c < 0:
        raise ValueError(f"c must be 0 or above, not {c}")
    return tokens_per_pass(alpha, gamma) / (w + gamma * c + overhead)


def best_gamma(
    alpha: float,
    c: float,
    most: int = 64,
    w: Callable[[int], float] = lambda rows: 1.0,
    overhead: float = 0.0,
) -> tuple[int, float]:
    """(gamma, speed-up) of the best gamma in 0 ... most; gamma 0, drafting nothing, is 1.0 and wins ties.

    w(rows) is the cost of a pass over gamma + 1 rows.
    """
    best = (0, 1.0)
    for gamma in range(1, most + 1):
        value = speed_up(alpha, gamma, c, w(gamma + 1), overhead)
        if value > best[1]:
            best = (gamma, value)
    return best


def guaranteed_speed_up(alpha: float, c: float) -> float:
    """What some gamma reaches whenever alpha > c: (1 + alpha) / (1 + c) (corollary 3.9); 1 otherwise."""
    return (1 + alpha) / (1 + c) if alpha > c else 1.0


def operations_factor(alpha: float, gamma: int, c_hat: float) -> float:
    """Growth of arithmetic operations: (1 - alpha)(gamma c_hat + gamma + 1) / (1 - alpha^(gamma + 1)) (theorem 3.11).

    c_hat: a draft pass's operations over a target pass's; 1 for a quantized copy.
    """
    return (gamma * c_hat + gamma + 1) / tokens_per_pass(alpha, gamma)


def break_even_alpha(gamma: int, c: float) -> float | None:
    """The alpha at which gamma drafted tokens neither pay nor cost: f(alpha) = 1 + gamma c. None where c > 1: never."""
    if c > 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):  # f rises with alpha; 60 halvings reach the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if speed_up(middle, gamma, c) < 1 else (low, middle)
    return high
