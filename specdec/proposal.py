"""What passes between draft, rule and loop: Proposal, Verdict, Step.

A proposal is a token tree; a chain is its one-child case. Node i has the parent parent[i] < i, or -1 for the root, which is
the last token of the text so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec.model import Cache


@dataclass(frozen=True)
class Window:
    """M tokens that ride along in the target's pass and are not judged: what a draft wants to know the target's answer to.

    depths (M,): places behind the root, 1 and up. visible (M, 1 + N + M) bool: which of root, nodes and window each sees;
    itself among them, and no more than its depth of others, so that a rotary position is the number of tokens before it.

    Raises ValueError where the three do not fit each other.
    """

    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    visible: Tensor

    def __post_init__(self) -> None:
        M = len(self.tokens)
        if len(self.depths) != M or self.visible.dim() != 2 or self.visible.shape[0] != M:
            raise ValueError(
                f"a window of {M} tokens needs {M} depths and {M} rows of what they see"
            )
        if (self.visible.sum(1) - 1).tolist() != list(self.depths):
            raise ValueError(
                f"a window's depths {self.depths} are not the numbers of tokens that its rows see"
            )


@dataclass(frozen=True)
class Proposal:
    """N drafted tokens. laws[i] (V,) is the law node i was really drawn from, given its earlier siblings, or None: a
    point mass, drawn by no chance at all. `passes`: draft passes that were made for it. `bytes_read`: weight bytes they
    read; None: the draft's bytes_per_pass each. `window`: rows that are read beside the nodes and not judged.

    Raises ValueError where a parent does not stand before its child, or a window's mask does not fit.
    """

    tokens: tuple[int, ...]
    parent: tuple[int, ...]
    laws: tuple[Tensor | None, ...]
    passes: int = 0
    bytes_read: int | None = None
    window: Window | None = None

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parent) == len(self.laws):
            raise ValueError("a proposal needs one parent and one law a token")
        if any(not -1 <= parent < node for node, parent in enumerate(self.parent)):
            raise ValueError(f"parents must stand before their children: {self.parent}")
        if self.window is not None and self.window.visible.shape[1] != self.rows:
            raise ValueError(f"a window's mask must be {self.rows} wide: root, nodes and window")

    @classmethod
    def chain(
        cls, tokens: Sequence[int], laws: Sequence[Tensor | None], passes: int, **more
    ) -> Proposal:
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(laws), passes, **more)

    @property
    def is_chain(self) -> bool:
        return self.parent == tuple(range(-1, len(self.tokens) - 1))

    @property
    def rows(self) -> int:
        """Of the target's pass: the root, the nodes, the window."""
        return 1 + len(self.tokens) + (len(self.window.tokens) if self.window else 0)

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
        """(rows, rows) bool: row 0 is the root; each node sees the root, its ancestors and itself; then the window's rows."""
        seen = torch.eye(self.rows, dtype=torch.bool)
        for node, parent in enumerate(self.parent):
            seen[node + 1] |= seen[parent + 1]
        if self.window is not None:
            seen[1 + len(self.tokens) :] = self.window.visible
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
    emitted: the round's new tokens; logits (rows, V), hidden (rows, D): the target's, root first, a window's rows last;
    cache: the target's, which holds tokens[:-1] and is not to be changed.
    """

    tokens: Sequence[int]
    kept: tuple[int, ...]
    emitted: tuple[int, ...]
    logits: Tensor
    hidden: Tensor
    cache: Cache
