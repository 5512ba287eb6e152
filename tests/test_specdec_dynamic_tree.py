"""The likeliest paths: against every path there is, laid out with the first-child chain in front, asked no more than needed."""

from __future__ import annotations

import itertools

import pytest
import torch

from micro.chance import generator_for
from specdec.drafts.dynamic_tree import likeliest_tree
from specdec.proposal import Proposal

VOCAB = 5


def law_behind(seed: int, path: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(generator_for(seed, *path).dirichlet([0.6] * VOCAB))


def grown(seed: int, budget: int, depth: int) -> tuple[Proposal, list[int]]:
    """The tree, and how many nodes each asking was for."""
    asked = []

    def ask(paths, nodes):
        asked.append(len(nodes))
        spelled = [(*reversed([paths.tokens[a] for a in paths.ancestors(n)]), paths.tokens[n]) for n in nodes]  # fmt: skip
        return [law_behind(seed, path) for path in spelled]

    tokens, parents = likeliest_tree(law_behind(seed, ()), ask, budget, depth)
    return Proposal(tokens, parents, (None,) * len(tokens)), asked


def paths_of(tree: Proposal) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parent):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def confidence(seed: int, path: tuple[int, ...]) -> float:
    value = 1.0
    for place, token in enumerate(path):
        value *= float(law_behind(seed, path[:place])[token])
    return value


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget, depth", [(1, 3), (4, 1), (6, 3), (9, 2), (12, 4)])
def test_the_nodes_are_the_likeliest_of_all_paths(seed, budget, depth):
    every = [p for n in range(1, depth + 1) for p in itertools.product(range(VOCAB), repeat=n)]
    every.sort(key=lambda path: -confidence(seed, path))
    tree, asked = grown(seed, budget, depth)
    wanted = set(every[:budget])
    assert set(paths_of(tree)) == wanted
    assert len(asked) <= depth - 1 and all(0 < count < budget for count in asked)


@pytest.mark.parametrize("seed", range(6))
def test_first_children_lie_in_front_and_siblings_by_likelihood(seed):
    tree, _ = grown(seed, 12, 4)
    node, chain = -1, []
    while children := tree.children(node):
        node = children[0]
        chain.append(node)
    assert chain == list(range(len(chain)))
    paths = paths_of(tree)
    for node in range(-1, len(tree.tokens)):
        values = [confidence(seed, paths[child]) for child in tree.children(node)]
        assert values == sorted(values, reverse=True)


def test_ties_go_to_the_lowest_id_and_what_cannot_be_is_left_out():
    flat = torch.tensor([0.0, 0.4, 0.2, 0.4, 0.0])
    tokens, parents = likeliest_tree(flat, lambda paths, nodes: [flat for _ in nodes], 20, 1)
    assert tokens == (1, 3, 2) and parents == (-1, -1, -1)
