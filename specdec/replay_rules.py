"""What replay needs to know of the rules beyond the token rule: the chance of acceptance, given the output.

match     q(x): the draft's own draw is independent of the target's, and must be x.
coupled   [1 / sum over j of max(p_j / p_x, q_j / q_x)] / p_x: match under shared noise.
block     min(1, q(x) / (h p(x))), then h <- min(1, h p(x) / q(x)), with h = 1 at each round's start: it depends on where the
          round began, so there is no array of chances by position, but there is one for each start.

A point mass is q = 1 on its token and 0 elsewhere, in each of them.
"""

from __future__ import annotations

import numpy as np

from specdec.replay import Expected, walk


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
