"""Shapes of trees: written, laid out, valued, and the best one against every other."""

import pytest

from specdec.trees import (
    best_plan,
    best_trees,
    chance,
    depths,
    expected_tokens,
    laid_out,
    planned,
    ranks,
    uniform,
)

FALLING = [[0.7, 0.4, 0.3], [0.6, 0.35, 0.2], [0.5, 0.2, 0.1], [0.4, 0.2, 0.1]]
ODD = [
    [0.2, 0.6, 0.1],
    [0.9, 0.0, 0.8],
    [0.3, 0.5],
]  # chances rise with depth and rank, and one is 0


def test_a_shape_by_its_widths():
    assert uniform([1, 1, 1]) == (-1, 0, 1)
    assert uniform([3]) == (-1, -1, -1)
    # 0 1 2 the chain; 3 the root's second; 4 its second at level 2; 5 6 level 2 of node 3; level 3 of 4, 5, 6
    assert uniform([2, 2, 1]) == (-1, 0, 1, -1, 0, 3, 3, 4, 5, 6)
    assert [len(uniform(w)) for w in ([2, 2, 1], [4, 2, 1, 1])] == [10, 28]


def test_the_first_childs_chain_lies_first_and_any_beginning_is_a_tree():
    for shape in (uniform([2, 3, 2]), laid_out([-1, -1, 1, 1, 3, 0, 5, 5]), laid_out([-1] * 4)):
        chain = max(depths(shape)) if shape.count(-1) < 4 else 1
        assert shape[:chain] == tuple(range(-1, chain - 1))
        assert all(parent < node for node, parent in enumerate(shape))
        assert laid_out(shape) == shape


def test_laying_out_keeps_siblings_in_order():
    """Told apart by how many nodes hang below: 1, 3 and 0 at the root."""
    shape = laid_out([-1, -1, -1, 0, 1, 1, 4])
    roots = [node for node, parent in enumerate(shape) if parent == -1]
    below = [sum(p == node for p in shape) for node in roots]
    assert below == [1, 2, 0] and ranks(shape)[roots[2]] == 2


def test_expected_tokens_by_hand():
    a = [[0.5, 0.4], [0.25]]
    assert chance(a, 1, 1) == 0.5 * 0.4 and chance(a, 2, 1) == 0.0
    assert chance(a, 7, 0) == 0.25  # the deepest level that was measured serves
    assert expected_tokens((), a) == 1
    assert expected_tokens((-1, 0, -1, 2), a) == pytest.approx(1 + 0.5 + 0.125 + 0.2 + 0.05)
    # the sum over nodes is the mean of 1 + accepted depth: of a chain, Leviathan's formula
    assert expected_tokens(uniform([1] * 5), [[0.6]]) == pytest.approx((1 - 0.6**6) / 0.4)


def shapes_of(nodes: int, first: int = -1) -> list[tuple[int, ...]]:
    """Every ordered tree of so many nodes, as parents in depth-first order: Catalan(nodes) of them."""
    found = [()]
    for node in range(nodes):
        longer = []
        for shape in found:
            at, path = node - 1, [-1]
            while at >= 0:
                path.append(at)
                at = shape[at]
            longer += [(*shape, parent) for parent in path]
        found = longer
    return found


def test_there_are_catalan_many_shapes():
    assert [len(set(shapes_of(n))) for n in range(8)] == [1, 1, 2, 5, 14, 42, 132, 429]


@pytest.mark.parametrize("acceptance", [FALLING, ODD, [[0.6, 0.5, 0.4]], [[0.0, 0.5]]])
def test_the_best_tree_of_up_to_seven_nodes_against_every_shape(acceptance):
    for nodes in range(1, 8):
        for levels in (1, 2, 4, 7):
            every = [s for n in range(nodes + 1) for s in shapes_of(n)
                     if max(depths(s), default=0) <= levels]  # fmt: skip
            want = max(expected_tokens(s, acceptance) for s in every)
            shape = best_trees(acceptance, nodes, levels)[nodes]
            assert len(shape) <= nodes and max(depths(shape), default=0) <= levels
            assert expected_tokens(shape, acceptance) == pytest.approx(want, rel=1e-12)
            assert laid_out(shape) == shape


@pytest.mark.parametrize("acceptance", [FALLING, ODD])
@pytest.mark.parametrize("c", [0.05, 0.22, 0.6])
def test_the_fastest_tree_against_every_shape(acceptance, c):
    def w(rows):
        return 1 + 0.03 * (rows - 1)

    every = [planned(s, acceptance, c, w).speed_up for n in range(8) for s in shapes_of(n)]
    found = best_plan(acceptance, 8, 7, c, w)
    assert found.speed_up == pytest.approx(max(every), rel=1e-12)
    assert found == planned(found.shape, acceptance, c, w)


def test_nothing_is_drafted_where_nothing_pays():
    assert best_plan([[0.1, 0.1]], 8, 4, c=0.9).shape == ()
    assert best_plan(FALLING, 1, 4, c=0.1).shape == ()


def test_a_free_draft_takes_every_row_and_a_dear_one_is_shallow():
    free, dear = best_plan(FALLING, 16, 6, 0.0), best_plan(FALLING, 16, 6, 0.5)
    assert len(free.shape) == 15 and max(depths(free.shape)) > max(depths(dear.shape))
    wide = best_plan(FALLING, 16, 6, 0.2, lambda rows: 1 + 0.2 * (rows - 1))
    assert len(wide.shape) < 15  # rows that cost are left empty
