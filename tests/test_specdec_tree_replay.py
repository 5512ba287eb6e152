"""Replay for trees: against the loop walked through every branch, against replay of chains, and against counted draws."""

import itertools

import numpy as np
import pytest
import torch

from experiments.exact.laws import target_law, walks
from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.accept import token_rule
from specdec.drafts.child_laws import HOWS, next_child
from specdec.drafts.model import ModelDraft
from specdec.drafts.tree import ModelTree
from specdec.proposal import Proposal
from specdec.replay import acceptance_given_output, replay
from specdec.table import near, random_model
from specdec.tree_replay import by_depth, rank_acceptance, replay_tree
from specdec.trees import expected_tokens, laid_out, uniform


def laws_along(model, prompt, text, sampling):
    rows = [model.logits((*prompt, *text[:n])) for n in range(len(text))]
    return sampling.probs(torch.stack(rows)), torch.stack(rows)


@pytest.mark.parametrize("shape", [(-1, 0), (-1, -1), laid_out([-1, -1, 1])])
def test_expected_counts_of_points_equal_the_walked_loop(shape):
    """Points need no draw, so replay is exact: expected rounds and kept tokens of whole texts, weighted by their chances."""
    target, sampling, window, prompt = random_model(2, seed=3), Sampling(0.8), 2, [1, 0]
    model, reach = near(target), 2 + 1 + 2
    draft = ModelTree(ModelDraft(model, 1), "points", {1.0: shape})
    rounds = kept = 0.0
    for mass, done in walks(target, draft, prompt, reach, gamma=3, sampling=sampling):
        start = 0
        for one in done.rounds:
            if start < window:
                rounds, kept = rounds + mass, kept + mass * one.accepted
            start += len(one.emitted)
    wanted = np.zeros(2)
    for text, mass in target_law(target, prompt, reach, sampling).items():
        (p, _), (q, logits) = (laws_along(m, prompt, text, sampling) for m in (target, model))
        ranking = logits.sort(descending=True, stable=True).indices[None]
        f = rank_acceptance(p[None], q[None], ranking, torch.tensor([text]), "points", 2)
        wanted += mass * np.concatenate(replay_tree(f, shape, window))
    assert wanted == pytest.approx([rounds, kept], rel=1e-10)


@pytest.mark.parametrize("how", HOWS)
def test_rank_acceptance_against_counted_draws(how):
    """One node with three children under the rule itself, 3,000 times: the share accepted at each rank is the mean of f over p, to
    5 deviations of the counts (< .046) and of f, which is drawn for 4,000 texts of each next token (< .02)."""
    p, q = torch.tensor([[0.3, 0.3, 0.2, 0.2], [0.7, 0.2, 0.05, 0.05]], dtype=torch.float64)
    n, m, chance, counts = 3_000, 4_000, SeededChance(3), np.zeros(3)
    for _ in range(n):
        tokens, laws = [], []
        for _ in range(3):
            token, law = next_child(how, q, q, tokens, chance, 0)
            tokens.append(token)
            laws.append(law)
        proposal = Proposal(tuple(tokens), (-1, -1, -1), tuple(laws))
        for node in token_rule(proposal, torch.stack([p] * 4), chance, 0, 2).kept:
            counts[node] += 1
    x = torch.arange(4).repeat_interleave(m)[:, None]
    alike = [law.expand(len(x), 1, -1) for law in (p, q, q.sort(descending=True).indices)]
    f = rank_acceptance(*alike, x, how, 3, np.random.default_rng(0), draws=1)
    found = (f[:, 0].reshape(4, m, 3).mean(1) * p.numpy()[:, None]).sum(0)
    assert found == pytest.approx(counts / n, abs=0.066)
    assert found.sum() > 0.5


def test_at_temperature_zero_siblings_without_replacement_are_points():
    p = torch.tensor([[[0.0, 0.0, 1.0]]])
    q = torch.tensor([[[1.0, 0.0, 0.0]]])
    ranking, rng = torch.tensor([[[0, 2, 1]]]), np.random.default_rng(0)
    f = {how: rank_acceptance(p, q, ranking, torch.tensor([[2]]), how, 3, rng)[0, 0].tolist()
         for how in HOWS}  # fmt: skip
    assert f == {"with": [0, 0, 0], "without": [0, 1, 0], "points": [0, 1, 0]}


def test_a_chain_is_replays_chain():
    rng = np.random.default_rng(1)
    a = rng.random((4, 20))
    for gamma in (1, 3, 6):
        want = replay(a, gamma, 10)
        rounds, accepted = replay_tree(a[..., None], uniform([1] * gamma), 10)
        assert rounds == pytest.approx(want.rounds, rel=1e-12)
        assert accepted == pytest.approx(want.accepted, rel=1e-12)
    with pytest.raises(ValueError, match="end within a round of 11 levels"):
        replay_tree(a[..., None], uniform([1] * 11), 10)


def test_rank_zero_is_the_chains_acceptance_given_the_output():
    p, q = torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[[0.3, 0.2, 0.5]]])
    for x, how in itertools.product(range(3), ("with", "without")):
        f = rank_acceptance(p, q, torch.tensor([[[2, 0, 1]]]), torch.tensor([[x]]), how, 2,
                            np.random.default_rng(0))  # fmt: skip
        want = acceptance_given_output(p[0, 0, x].numpy(), q[0, 0, x].numpy())
        assert f[0, 0, 0] == pytest.approx(want, rel=1e-6)


def test_acceptance_by_depth_of_equal_positions():
    """f the same everywhere: a(rank) = f(rank) / (1 - the f of elder ranks) at every depth, and tokens per pass of any shape are
    1 + the sum over its nodes, as replayed."""
    f = np.broadcast_to([0.5, 0.2, 0.1], (3, 30, 3)).copy()
    a = by_depth(f, 4, 20, np.arange(3))
    assert a == [pytest.approx([0.5, 0.4, 0.1 / 0.3])] * 4
    for shape in (uniform([2, 1, 3]), uniform([3]), laid_out([-1, 0, -1, 2])):
        rounds, accepted = replay_tree(f, shape, 20)
        assert (1 + accepted / rounds) == pytest.approx([expected_tokens(shape, a)] * 3, rel=1e-12)


def test_acceptance_by_depth_where_position_matters():
    """Certain at even positions, never at odd ones: rounds start at 0, keep one level, and never two."""
    f = np.zeros((1, 30, 1))
    f[:, ::2] = 1.0
    assert by_depth(f, 2, 10, np.arange(1)) == [[1.0], [0.0]]
    f[:, 5] = 1.0  # the round from 4 keeps two; rounds start at 0, 2, 4, 7 (refused at once) and 8
    assert np.allclose(by_depth(f, 2, 10, np.arange(1)), [[4 / 5], [1 / 4]])
