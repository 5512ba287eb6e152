"""Token trees as shapes: written down, laid out, and the best one for a budget of rows.

A shape is a tuple of parents, as a Proposal's: parents before children, -1 for the root. Its rows in the target's pass are its nodes
and the root; its draft passes are its levels.

The best tree. Let a(depth, rank) be the chance that a node's child of that rank is accepted, given that the node was and that the
child's elder siblings were not. Then the child is reached and kept with

    v(depth, rank) = a(depth, rank) x product over elder ranks of (1 - a(depth, elder))

times the chance of its parent, and a tree's tokens per pass are 1 + the sum of its nodes' chances: every kept node is a token, and
so is the target's own. A child's worth does not depend on what hangs elsewhere, so the best tree of n nodes is found by dynamic
programming over (nodes left, depth, rank). Sequoia (Chen et al. 2024, arXiv 2402.12374, section 4.1) does so with a chance by rank
alone; here it may fall, or rise, with depth. That chances by depth and rank are all there is to know is the assumption of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

Shape = tuple[int, ...]
Acceptance = Sequence[Sequence[float]]  # [depth - 1][rank], each 0 ... 1


def uniform(widths: Sequence[int]) -> Shape:
    """Every node of level i has widths[i] children: (2, 2, 1) is 2 + 4 + 4 nodes, (1, 1, 1) a chain."""
    parents, level = [], [-1]
    for width in widths:
        first = len(parents)
        parents += [node for node in level for _ in range(width)]
        level = list(range(first, len(parents)))
    return laid_out(parents)


def laid_out(parents: Sequence[int]) -> Shape:
    """The same tree, the chain of first children first and in one piece, the others behind it level by level.

    So the chain's rows stand in the target's cache where a chain's would, and keep its bits; and any first n nodes are a tree.
    """
    children = [[] for _ in range(len(parents) + 1)]  # the root's last
    for node, parent in enumerate(parents):
        children[parent].append(node)
    chain, at = [], -1
    while children[at]:
        at = children[at][0]
        chain.append(at)
    rest, level = [], [-1]
    while level:
        level = [child for node in level for child in children[node]]
        rest += [node for node in level if node not in chain]
    place = {-1: -1} | {node: i for i, node in enumerate(chain + rest)}
    return tuple(place[parents[node]] for node in chain + rest)


def depths(parents: Sequence[int]) -> list[int]:
    """Of each node, the root's children having 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def children_of(parents: Sequence[int], node: int) -> list[int]:
    """In order; -1 asks for the root's."""
    return [child for child, parent in enumerate(parents) if parent == node]


def ranks(parents: Sequence[int]) -> list[int]:
    """How many elder siblings each node has."""
    return [list(parents[:node]).count(parent) for node, parent in enumerate(parents)]


def row_of(acceptance: Acceptance, depth: int) -> Sequence[float]:
    return acceptance[min(depth, len(acceptance)) - 1]


def chance(acceptance: Acceptance, depth: int, rank: int) -> float:
    """v(depth, rank) above; 0 beyond the ranks that were measured. Deeper than was measured, the deepest level serves."""
    row = row_of(acceptance, depth)
    if rank >= len(row):
        return 0.0
    value = row[rank]
    for elder in row[:rank]:
        value *= 1 - elder
    return value


def expected_tokens(parents: Sequence[int], acceptance: Acceptance) -> float:
    """Tokens per pass of a shape: 1 + the chance of every node."""
    reached: list[float] = []
    for parent, depth, rank in zip(parents, depths(parents), ranks(parents)):
        reached.append(chance(acceptance, depth, rank) * (reached[parent] if parent >= 0 else 1.0))
    return 1.0 + sum(reached)


def best_trees(acceptance: Acceptance, nodes: int, levels: int) -> list[Shape]:
    """For every budget of 0 ... nodes the shape of most expected tokens with at most so many nodes and levels; of equal ones, one with
    fewer nodes. Cost: nodes^2 x levels x ranks / 2 steps for all of them.
    """

    @cache
    def best(left: int, depth: int, rank: int) -> tuple[float, int]:
        """(tokens, nodes of the child of this rank and all below it) of `left` nodes for it and its younger siblings."""
        found = (0.0, 0)
        # the row's end stops, not a child that is never kept: a younger one may still be worth both their rows
        if left == 0 or depth > levels or rank >= len(row_of(acceptance, depth)):
            return found
        own = chance(acceptance, depth, rank)
        for size in range(1, left + 1):
            below, younger = best(size - 1, depth + 1, 0)[0], best(left - size, depth, rank + 1)[0]
            found = max(found, (own * (1 + below) + younger, size), key=lambda one: one[0])
        return found

    def grow(parents: list[int], parent: int, left: int, depth: int) -> list[int]:
        rank = 0
        while size := best(left, depth, rank)[1]:
            parents.append(parent)
            grow(parents, len(parents) - 1, size - 1, depth + 1)
            left, rank = left - size, rank + 1
        return parents

    return [laid_out(grow([], -1, budget, 1)) for budget in range(nodes + 1)]


@dataclass(frozen=True)
class Planned:
    """A shape with the tokens per pass and the estimated speed-up that its acceptance promises."""

    shape: Shape
    tokens: float
    speed_up: float


def planned(
    shape: Shape, acceptance: Acceptance, c: float, w: Callable[[int], float] = lambda rows: 1.0
) -> Planned:
    """tokens / (w(rows) + c x levels) of a shape. c: a draft pass in target passes of one row; w(rows): a target pass in those."""
    tokens = expected_tokens(shape, acceptance)
    levels = max(depths(shape), default=0)
    return Planned(shape, tokens, tokens / (w(len(shape) + 1) + c * levels))


def best_plan(
    acceptance: Acceptance,
    rows: int,
    levels: int,
    c: float,
    w: Callable[[int], float] = lambda rows: 1.0,
) -> Planned:
    """The shape of the largest estimated speed-up with at most `rows` rows (root included) and `levels` levels. No tree at all is 1
    of w(1) = 1 and wins ties; of equal ones that with fewer nodes, then levels."""
    shapes = {()}
    for most in range(1, min(levels, rows - 1) + 1):
        shapes.update(best_trees(acceptance, rows - 1, most))
    in_order = sorted(shapes, key=lambda shape: (len(shape), max(depths(shape), default=0)))
    return max((planned(s, acceptance, c, w) for s in in_order), key=lambda plan: plan.speed_up)
