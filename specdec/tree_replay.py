"""Replay for trees: what a shape's rounds would have been along a text that the target wrote.

As for chains (specdec/replay.py), speculation leaves the law of the text alone, so the text is drawn first. Given that a node is
kept and that the token behind it is x, the chance that x is its accepted child of rank r is

    f(r, x) = A(r, x) / p(x),    A(r, x) = E over elder siblings of  [all of them refused] x min(p_r(x), q_r(x)),

p_r and q_r being what p and q are behind those refusals (specdec/drafts/child_laws.py); a point mass y has min(p_r, q_r) = p_r at y and 0
elsewhere. Siblings are drawn anew behind every node, so this holds whatever the text does later, and a round is a walk down the
shape: expected rounds and kept tokens follow by dynamic programming over start positions. The mean over elder siblings is taken over a few
draws of them; all else is exact.

Shapes: N texts  L positions  V vocabulary  K ranks
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from specdec.trees import Shape, children_of, depths


def rank_acceptance(
    p: Tensor,
    q: Tensor,
    ranking: Tensor,
    tokens: Tensor,
    how: str,
    ranks: int,
    rng: np.random.Generator | None = None,
    draws: int = 2,
) -> np.ndarray:
    """f (N, L, K) along the texts.

    p, q (N, L, V): both laws behind each prefix. ranking (N, L, K): the draft's K likeliest tokens, for points. tokens (N, L): the
    texts. draws: of the elder siblings by `rng`, averaged; points need neither.
    """
    shape = tokens.shape
    p, q = (law.reshape(-1, law.shape[-1]).double() for law in (p, q))
    ranking, x = ranking.reshape(len(p), -1), tokens.reshape(-1)
    total = torch.zeros(len(p), ranks, dtype=torch.float64)
    times = 1 if how == "points" else draws
    for _ in range(times):
        for rank, accepted in enumerate(_along(p, q, ranking, x, how, ranks, rng)):
            total[:, rank] += accepted / times
    return (total / _at(p, x)[:, None]).clamp(max=1.0).reshape(*shape, ranks).numpy()


def _along(p, q, ranking, x, how: str, ranks: int, rng: np.random.Generator) -> Iterator[Tensor]:
    """A(r, x) (N L,) rank after rank, for one draw of the siblings."""
    refused, taken = torch.ones(len(p), dtype=torch.float64), torch.zeros_like(p, dtype=torch.bool)
    for _ in range(ranks):
        mass = q.sum(-1)
        is_point = mass <= 0 if how != "points" else torch.ones(len(p), dtype=torch.bool)
        point = _first_left(ranking, taken)
        drawn = point if how == "points" else torch.where(is_point, point, _draw(q, rng))
        law = torch.where(
            is_point[:, None], torch.zeros_like(q), q / mass.clamp(min=1e-300)[:, None]
        )
        here = torch.where(
            is_point, (point == x) * _at(p, x), torch.minimum(_at(p, x), _at(law, x))
        )
        yield refused * here
        kept = torch.where(
            is_point,
            _at(p, drawn),
            (_at(p, drawn) / _at(law, drawn).clamp(min=1e-300)).clamp(max=1.0),
        )
        refused = refused * (1 - kept)
        law.scatter_add_(1, point[:, None], is_point[:, None] * _at(p, point)[:, None])
        left = (p - law).clamp(min=0.0)  # a point mass leaves p without it
        p = left / left.sum(-1, keepdim=True).clamp(min=1e-300)
        taken = taken.scatter(1, drawn[:, None], True)
        if how == "without":
            q = q.masked_fill(taken, 0.0)


def _at(law: Tensor, token: Tensor) -> Tensor:
    return law.gather(1, token[:, None])[:, 0]


def _first_left(ranking: Tensor, taken: Tensor) -> Tensor:
    """The likeliest token that is not taken: of K ranks at most K - 1 are."""
    free = ~taken.gather(1, ranking)
    return ranking.gather(1, free.to(torch.int8).argmax(1, keepdim=True))[:, 0]


def _draw(law: Tensor, rng: np.random.Generator) -> Tensor:
    """A token of each row (N, V), by inverse CDF; anything where a row has no mass."""
    sums = law.cumsum(1)
    uniform = torch.from_numpy(rng.random(len(law)))[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, uniform, right=True)[:, 0].clamp(max=law.shape[1] - 1)


def replay_tree(f: np.ndarray, shape: Shape, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected (rounds, accepted), each (N,), of rounds that start inside the window and count whole.

    Raises ValueError where the texts do not run as far beyond the window as a round may reach.
    """
    levels, below = (
        depths(shape),
        {node: children_of(shape, node) for node in range(-1, len(shape))},
    )
    deepest = max(levels, default=0)
    if f.shape[1] < window + deepest:
        raise ValueError(f"texts of {f.shape[1]} positions end within a round of {deepest} levels")
    starts = np.zeros((len(f), window + deepest + 1))
    starts[:, 0], accepted = 1.0, np.zeros(len(f))
    for t in range(window):
        reached = {-1: starts[:, t]}
        for node in range(-1, len(shape)):
            depth = levels[node] if node >= 0 else 0
            left = reached[node]
            for rank, child in enumerate(below[node]):
                reached[child] = reached[node] * f[:, t + depth, rank]
                left = left - reached[child]
            starts[:, t + depth + 1] += left
            accepted += left * depth
    return starts[:, :window].sum(1), accepted


def by_depth(f: np.ndarray, levels: int, window: int, texts: np.ndarray) -> list[list[float]]:
    """a(depth, rank) of specdec/trees.py over the rounds of a tree that has every rank at every one of `levels` levels, on the texts of
    the given indices. 0 where no such child was ever judged."""
    f = f[texts]
    kept = f.sum(-1)  # (N, L): that some child is
    judged = 1 - np.concatenate([np.zeros_like(f[..., :1]), f.cumsum(-1)[..., :-1]], axis=-1)
    starts = np.zeros((len(f), window + levels + 1))
    starts[:, 0] = 1.0
    above, under = np.zeros((2, levels, f.shape[-1]))
    for t in range(window):
        reached = starts[:, t]
        for depth in range(levels):
            above[depth] += reached @ f[:, t + depth]
            under[depth] += reached @ judged[:, t + depth]
            starts[:, t + depth + 1] += reached * (1 - kept[:, t + depth])
            reached = reached * kept[:, t + depth]
        starts[:, t + levels + 1] += reached
    return np.clip(above / np.maximum(under, 1e-12), 0.0, 1.0).tolist()
