"""Block verification in `selfdraft exact`: its own two- and three-step algebra.

Every drafted chain over random laws is judged by verify(), walked through all its coins, and by the paper's algorithm spelled out
without tensors; and what comes out of all chains together must be the target's joint law.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from experiments.exact.check import ROUNDING, Reading
from micro.chance import every_branch, generator_for
from specdec import accept
from specdec.proposal import Proposal


def block_steps(vocab: int, steps: int, count: int) -> Reading:
    """Kept length and next token of every drafted chain, against the rule spelled out; and the joint law that they make."""
    worst = 0.0
    rng = generator_for(vocab, steps, "block")
    for number in range(count):
        concentration = (0.2, 1.0, 4.0)[number % 3]
        tables = {
            path: rng.dirichlet([concentration] * vocab, size=2)
            for depth in range(steps + 1)
            for path in itertools.product(range(vocab), repeat=depth)
        }  # path -> (2, V): p and q behind it
        joint = dict.fromkeys(itertools.product(range(vocab), repeat=steps + 1), 0.0)
        for chain in itertools.product(range(vocab), repeat=steps):
            p, q = zip(*(tables[chain[:i]] for i in range(steps + 1)))
            spelled = _spelled(chain, p, q)
            found = _found(chain, p, q)
            worst = max(worst, max(abs(found.get(k, 0.0) - spelled.get(k, 0.0))
                                   for k in found.keys() | spelled.keys()))  # fmt: skip
            drawn = math.prod(q[i][t] for i, t in enumerate(chain))
            for (kept, token), mass in found.items():
                _continue(joint, (*chain[:kept], token), drawn * mass, tables, steps + 1)
        want = {text: _mass(text, tables) for text in joint}
        worst = max(worst, max(abs(joint[text] - want[text]) for text in joint))
    return Reading(worst, ROUNDING)


def _found(chain, p, q) -> dict[tuple[int, int], float]:
    """(kept, next token) -> chance, by walking verify()."""
    laws = torch.from_numpy(np.stack(p))
    proposal = Proposal.chain(chain, [torch.from_numpy(law) for law in q[:-1]], len(chain))
    out: dict[tuple[int, int], float] = {}
    for probability, verdict in every_branch(
        lambda chance: accept.verify(proposal, laws, chance, rule="block")
    ):
        key = (len(verdict.kept), verdict.token)
        out[key] = out.get(key, 0.0) + probability
    return out


def _spelled(chain, p, q) -> dict[tuple[int, int], float]:
    """The same from the paper's algorithm, every coin thrown."""
    N, V = len(chain), len(p[0])
    w = [1.0]
    for i, token in enumerate(chain):
        w.append(min(1.0, w[i] * p[i][token] / q[i][token]))
    left = [[max(0.0, w[i] * p[i][x] - q[i][x]) for x in range(V)] for i in range(N)]
    h = [0.0] * (N + 1)
    h[N] = w[N]
    for i in range(1, N):
        s = sum(left[i])
        h[i] = s / (s + 1 - w[i]) if s > 0 else 0.0
    out, none_later = {}, 1.0
    for kept in range(N, -1, -1):
        here = none_later * (h[kept] if kept else 1.0)
        none_later *= 1 - h[kept]
        law = p[N] if kept == N else [x / (sum(left[kept]) or 1.0) for x in left[kept]]
        for token, mass in enumerate(law):
            if here * mass > 0:
                out[kept, token] = here * mass
    return out


def _continue(joint, text, mass, tables, length) -> None:
    """Add `mass` to every text of `length` that begins with `text`, by the target's own law behind it."""
    if len(text) >= length:
        joint[text[:length]] += mass
        return
    for token, p in enumerate(tables[text][0]):
        _continue(joint, (*text, token), mass * p, tables, length)


def _mass(text, tables) -> float:
    return math.prod(tables[text[:i]][0][token] for i, token in enumerate(text))
