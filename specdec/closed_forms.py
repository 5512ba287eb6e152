"""The chance that a drafted token is accepted, in closed form: what each rule does with laws p and q at one position.

token     sum of min(p, q) = 1 - total variation, the overlap beta: the most that one position alone can accept
block     the same for a single drafted token; over a chain it accepts no less than token
match     sum of p q: two independent draws that must be the same
coupled   sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i): two draws under one noise (Daliri, Musco, Suresh 2024,
          arXiv 2408.07978), between (1 - TV) / (1 + TV) and 1 - TV

Their means over text that the target wrote estimate alpha where positions are checked alike. What a rule accepts *given* the
output is another question, and replay's (specdec/replay_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def overlap(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(..., V), (..., V) -> (...): beta."""
    return np.minimum(p, q).sum(-1)


def agreement(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(..., V), (..., V) -> (...)."""
    return (p * q).sum(-1)


def coupled_agreement(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(..., V), (..., V) -> (...), in V log V and not V^2 steps.

    With the tokens in order of q / p, max(p_j / p_i, q_j / q_i) is p_j / p_i for those up to i and q_j / q_i behind, so that a
    token's chance is p_i q_i / (q_i sum of p up to i + p_i sum of q behind i).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, q / p, 0.0)  # infinite where the target cannot draw it: last
    order = np.argsort(ratio, axis=-1, kind="stable")
    p, q = np.take_along_axis(p, order, -1), np.take_along_axis(q, order, -1)
    up_to = p.cumsum(-1)
    behind = q[..., ::-1].cumsum(-1)[..., ::-1] - q
    both = p * q
    return np.divide(both, q * up_to + p * behind, out=np.zeros_like(both), where=both > 0).sum(-1)


# rule -> chance of acceptance of one drafted token
CLOSED_FORMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "token": overlap,
    "block": overlap,
    "match": agreement,
    "coupled": coupled_agreement,
}
