"""Pairs of laws p, q that a rule is tried on: random ones and awkward ones."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from micro.chance import generator_for

PAIRS = {2: 8_000, 3: 8_000, 100: 3_500, 257: 495, 8193: 5}  # vocabulary -> pairs, 20,000 in all
KINDS = 8


def pairs(vocab: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random laws p, q (V,) of all temperatures, and the awkward ones: one-hot, equal, disjoint, with zeros, with ties."""
    rng = generator_for(vocab, "pairs")

    def some() -> Tensor:
        return torch.from_numpy(rng.dirichlet([rng.choice([0.05, 0.5, 5.0])] * vocab))

    for number in range(count):
        p, q = some(), some()
        kind = number % KINDS
        if kind == 0:
            p = torch.nn.functional.one_hot(p.argmax(), vocab).double()
        elif kind == 1:
            q = torch.nn.functional.one_hot(q.argmax(), vocab).double()
        elif kind == 2:
            q = p.clone()
        elif kind == 3:  # disjoint
            half = torch.arange(vocab) < vocab // 2
            p, q = p * half + 1e-9 * half, q * ~half + 1e-9 * ~half
        elif kind == 4:  # zeros in both
            p, q = p * (p >= p.mean()), q * (q >= q.mean())
        elif kind == 5:  # ties
            p = torch.full_like(p, 1.0)
        elif kind == 6:  # equal up to the last bits
            q = p * (1 + 1e-15 * torch.arange(vocab))
        yield p / p.sum(), q / q.sum()
