"""What passes between draft, rule and loop: Proposal, Verdict, Step.

A proposal is a token tree; a chain is its one-child case. Node i has the parent parent[i] < i, or -1 for the root, which is
the last token of the text so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Proposal:
    """N drafted tokens. laws[i] (V,) is the law node i was really drawn from, given its earlier siblings, or None: a
    point mass, drawn by no chance at all. `passes`: draft passes that were made for it.

    Raises ValueError where a parent does not stand before its child.
    """

    tokens: tuple[int, ...]
    parent: tuple[int, ...]
    laws: tuple[Tensor | None, ...]
    passes: int = 0

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parent) == len(self.laws):
            raise ValueError("a proposal needs one parent and one law a token")
        if any(not -1 <= parent < node for node, parent in enumerate(self.parent)):
            raise ValueError(f"parents must stand before their children: {self.parent}")

    @classmethod
    def chain(cls, tokens: Sequence[int], laws: Sequence[Tensor | None], passes: int) -> Proposal:
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(laws), passes)

    @property
    def is_chain(self) -> bool:
        return self.parent == tuple(range(-1, len(self.tokens) - 1))

    def children(self, node: int) -> list[int]:
        """In index order; -1 asks for the root's."""
        return [child for child, parent in enumerate(self.parent) if parent == node]

    def depths(self) -> list[int]:
        """Depth of each node, the root's children having 1."""
        depths: list[int] = []
        for parent in self.parent:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths

    def visible(self) -> Tensor:
        """(N + 1, N + 1) bool: row 0 is the root; each node sees the root, its ancestors and itself."""
        seen = torch.eye(len(self.tokens) + 1, dtype=torch.bool)
        for node, parent in enumerate(self.parent):
            seen[node + 1] |= seen[parent + 1]
        return seen


@dataclass(frozen=True)
class Verdict:
    """`kept`: nodes of the accepted path, root's child first. `token`: what the target adds behind them, the correction
    after a rejection or the bonus after none; None where there was no room. `checked`: tokens judged.
    """

    kept: tuple[int, ...]
    token: int | None
    checked: int
    rejected: bool


@dataclass(frozen=True)
class Step:
    """What a draft may learn from a round. tokens: the whole text now; kept: accepted nodes of its proposal;
    emitted: the round's new tokens; logits (rows, V), hidden (rows, D): the target's, root first.
    """

    tokens: Sequence[int]
    kept: tuple[int, ...]
    emitted: tuple[int, ...]
    logits: Tensor
    hidden: Tensor
