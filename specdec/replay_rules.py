"""What replay needs to know of the rules beyond the token rule: the chance of acceptance, given the output.

match     q(x): the draft's own draw is independent of the target's, and must be x.
coupled   [1 / sum over j of max(p_j / p_x, q_j / q_x)] / p_x: match under shared noise.
block     min(1, q(x) / (h p(x))), then h <- min(1, h p(x) / q(x)), with h = 1 at each round's start: it depends on where the
          round began, so there is no array of chances by position, but there is one for each start.

A point mass is q = 1 on its token and 0 elsewhere, in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specdec.replay import Expected, acceptance_given_output, replay, walk

TEXTS = 32  # texts whose whole laws are in work at once: 32 x 81 x 256 numbers are 5 MB


def match_given_output(p_x: np.ndarray, q_x: np.ndarray) -> np.ndarray:
    """q(x): of the output token's two probabilities only the draft's matters."""
    return np.broadcast_to(q_x, np.broadcast_shapes(p_x.shape, q_x.shape))


def coupled_given_output(p: np.ndarray, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """For whole laws p, q (..., V) and output tokens x (...) drawn from p."""
    p_x = np.take_along_axis(p, x[..., None], axis=-1)  # (..., 1)
    q_x = np.take_along_axis(q, x[..., None], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, q / q_x, 0.0)  # infinite where the draft cannot draw x: chance 0
    return 1.0 / (np.maximum(p / p_x, ratio).sum(-1) * p_x[..., 0])


def replay_block(p_x: np.ndarray, q_x: np.ndarray, gamma: int, window: int) -> Expected:
    """`replay` for block verification. p_x, q_x: (texts, at least window - 1 + gamma), the output tokens' probabilities."""
    texts, _ = p_x.shape

    def reach(start: int) -> np.ndarray:
        chances, h = np.ones((texts, gamma + 1)), np.ones(texts)
        for k in range(gamma):
            p, q = p_x[:, start + k], q_x[:, start + k]
            chances[:, k + 1] = chances[:, k] * np.minimum(1.0, q / (h * p))
            # where q is 0 nothing behind is reached, and h no longer matters
            h = np.minimum(1.0, np.divide(h * p, q, out=np.ones(texts), where=q > 0))
        return chances

    return walk(reach, p_x.shape, gamma, window)


def replay_rule(
    rule: str, p: np.ndarray, q: np.ndarray, x: np.ndarray, gammas: Iterable[int], window: int
) -> list[Expected]:
    """What `rule` would have done with every gamma.

    p, q: (texts, L, V) laws of target and draft along texts x (texts, L) that the target wrote, L at least window - 1 + gamma.
    Raises ValueError as `walk`, and on a rule that has no factor here.
    """
    p_x, q_x = (np.take_along_axis(law, x[..., None], -1)[..., 0].astype(float) for law in (p, q))
    if rule == "block":
        return [replay_block(p_x, q_x, gamma, window) for gamma in gammas]
    if rule == "token":
        a = acceptance_given_output(p_x, q_x)
    elif rule == "match":
        a = match_given_output(p_x, q_x)
    elif rule == "coupled":
        parts = (slice(start, start + TEXTS) for start in range(0, len(x), TEXTS))
        a = np.concatenate(
            [coupled_given_output(p[s].astype(float), q[s].astype(float), x[s]) for s in parts]
        )
    else:
        raise ValueError(f"replay knows no factor of rule {rule!r}")
    return [replay(a, gamma, window) for gamma in gammas]
