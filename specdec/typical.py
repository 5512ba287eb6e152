"""Typical acceptance: a rule that is NOT exact, for contrast (Cai et al. 2024, Medusa, arXiv 2401.10774, section 2.3.1).

A drafted token x is kept where the target finds it likely enough beside how unsure it is,

    p(x) > min(epsilon, delta exp(-H(p))),    H the entropy in nats,

whatever it was drafted from, and the target adds its likeliest token behind what was kept. The deepest such path of a tree is kept, of
equally deep ones the first. More is accepted than any exact rule may, because the text is another: what is unlikely is never kept, and what
the draft favours stands wherever the target can put up with it.

So this is no member of RULES. It stands in LOSSY, whose names all say "lossy", so that no record or table can show its numbers
as if they were comparable; the loop takes it by that name alone, and no command offers it but the experiment that shows what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from micro.chance import Chance
from specdec.proposal import Proposal, Verdict


@dataclass(frozen=True)
class Typical:
    """epsilon: what no token likelier than it is refused for; delta: the share of exp(-entropy) that suffices. The defaults are those of
    the authors' code, delta being the root of epsilon. Raises ValueError outside 0 ... 1."""

    epsilon: float = 0.09
    delta: float = 0.3
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, not {getattr(self, name):g}"
                )

    def keeps(self, p: Tensor, token: int) -> bool:
        """p (V,)."""
        entropy = float(torch.special.entr(p).sum())
        return float(p[token]) > min(self.epsilon, self.delta * math.exp(-entropy))

    def __call__(
        self, proposal: Proposal, p: Tensor, chance: Chance, position: int, room: int
    ) -> Verdict:
        """Arguments as specdec.accept.verify's; no chance is taken."""
        paths: dict[int, tuple[int, ...]] = {-1: ()}  # of the nodes that are kept, and the root
        checked = 0
        for node, parent in enumerate(proposal.parent):
            if parent in paths:
                checked += 1
                if self.keeps(p[parent + 1], proposal.tokens[node]):
                    paths[node] = (*paths[parent], node)
        deepest = max(paths.values(), key=len)
        last = deepest[-1] if deepest else -1
        final = int(p[last + 1].argmax()) if len(deepest) < room else None
        return Verdict(deepest, final, checked, bool(proposal.children(last)))


# name -> rule; every name says lossy, none is exact
LOSSY: dict[str, Callable[..., Verdict]] = {"typical (lossy)": Typical()}
