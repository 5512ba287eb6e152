"""The likeliest paths of a draft as a token tree: the dynamic tree of EAGLE-2 (Li et al. 2024, arXiv 2406.16858, section 4).

A node's confidence is the product of the draft's probabilities along its path. Level by level the draft is asked behind those nodes
that are among the `budget` most confident so far; at the end these are the tree. Since a path only loses confidence as it grows, no node
that was passed over could have had a child among them, so for its depth this is the best tree by the draft's own account.

Choosing after the draft has spoken is lawful because every node is a point mass: no chance drew it, so none is dropped. Confidence is
the law's before warping: which of two tokens is likelier does not depend on the temperature, and at temperature 0 a warped law would
know one token only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Paths:
    """Nodes in the order they were found; -1 is the root. A child stands behind its parent, a sibling behind likelier ones."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def add(self, parent: int, law: Tensor, count: int) -> None:
        """The `count` likeliest tokens of `law` (V,) below `parent`, of equal ones the lowest ids, none of probability 0."""
        above = 1.0 if parent < 0 else self.confidences[parent]
        depth = 1 if parent < 0 else self.depths[parent] + 1
        values, tokens = law.sort(descending=True, stable=True)
        for value, token in zip(values[:count].tolist(), tokens[:count].tolist()):
            if value > 0:
                self.tokens.append(token)
                self.parents.append(parent)
                self.confidences.append(above * value)
                self.depths.append(depth)

    def best(self, count: int) -> list[int]:
        """The most confident nodes; a parent before its children, whose confidence is no higher and who were found later."""
        return sorted(range(len(self.tokens)), key=lambda i: (-self.confidences[i], i))[:count]

    def ancestors(self, node: int) -> list[int]:
        """Its parent first."""
        found = []
        while (node := self.parents[node]) >= 0:
            found.append(node)
        return found


Ask = Callable[[Paths, list[int]], Sequence[Tensor]]  # laws (V,) behind these nodes


def likeliest_tree(
    law: Tensor, ask: Ask, budget: int, depth: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens and parents of at most `budget` nodes, no deeper than `depth`, the chain of first children in front.

    law (V,) behind the text; `ask` is called once a level, at most depth - 1 times.
    """
    paths = Paths()
    paths.add(-1, law, budget)
    asked: set[int] = set()
    while True:
        # the last of a full tree has no room below it
        open_ = [
            i
            for i in paths.best(budget)[: budget - 1]
            if i not in asked and paths.depths[i] < depth
        ]
        if not open_:
            break
        for node, below in zip(open_, ask(paths, open_)):
            paths.add(node, below, budget)
        asked.update(open_)
    return chain_first(paths, paths.best(budget))


def chain_first(paths: Paths, chosen: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens and parents of the chosen nodes: first children lie contiguous in front, where a target's lanes keep their bits."""
    chain, node = [], -1
    while children := [i for i in chosen if paths.parents[i] == node]:
        node = children[0]
        chain.append(node)
    order = chain + [i for i in chosen if i not in chain]
    places = {-1: -1} | {node: place for place, node in enumerate(order)}
    return (
        tuple(paths.tokens[i] for i in order),
        tuple(places[paths.parents[i]] for i in order),
    )
