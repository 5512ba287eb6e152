"""The closed forms of acceptance against their definitions, against replay's factors, and against the rules themselves walked."""

import numpy as np
import pytest
import torch

from micro.chance import every_branch, generator_for
from specdec.accept import RULES, chance_for, verify
from specdec.closed_forms import CLOSED_FORMS, coupled_agreement, overlap
from specdec.proposal import Proposal
from specdec.replay_rules import replay_rule

TOLERANCE = 1e-12  # sums of at most 257 products of float64


def laws(vocab: int, count: int = 40):
    """Pairs (p, q): random, with zeros, one-hot, equal and disjoint ones."""
    rng = generator_for(vocab, "closed forms")
    for _ in range(count):
        p, q = rng.dirichlet([0.5] * vocab), rng.dirichlet([0.5] * vocab)
        yield p, q
        holes = [np.where(rng.random(vocab) < 0.4, 0.0, law) for law in (p, q)]
        if all(law.sum() > 0 for law in holes):
            yield tuple(law / law.sum() for law in holes)
    first, last = np.eye(vocab)[0], np.eye(vocab)[-1]
    yield from ((p, p), (first, q), (p, last), (first, first), (first, last))


def by_definition(p, q) -> float:
    """sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i), tokens that one of the two cannot draw left out."""
    both = [i for i in range(len(p)) if p[i] > 0 and q[i] > 0]
    return sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in range(len(p))) for i in both)


@pytest.mark.parametrize("vocab", [2, 3, 17])
def test_coupled_agreement_is_its_definition(vocab):
    for p, q in laws(vocab):
        assert coupled_agreement(p, q) == pytest.approx(by_definition(p, q), abs=TOLERANCE)


def test_rows_are_taken_one_by_one():
    pairs = list(laws(5))
    p, q = (np.array(side) for side in zip(*pairs))
    for form in CLOSED_FORMS.values():
        alone = np.array([form(a, b) for a, b in pairs])
        assert np.abs(form(p, q) - alone).max() < TOLERANCE


@pytest.mark.parametrize("vocab", [2, 257])
def test_between_its_bounds_and_never_above_the_overlap(vocab):
    for p, q in laws(vocab, 10):
        tv = np.abs(p - q).sum() / 2
        assert overlap(p, q) == pytest.approx(1 - tv, abs=TOLERANCE)
        assert (1 - tv) / (1 + tv) - TOLERANCE <= coupled_agreement(p, q) <= 1 - tv + TOLERANCE


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_a_rule_accepts_what_its_closed_form_says(rule):
    for p, q in laws(4, 15):
        rows, law = torch.from_numpy(np.stack([p, p])), torch.from_numpy(q)

        def kept(chance, rows=rows, law=law):
            proposal = Proposal.chain([chance.draw(law, 0)], [law], passes=1)
            return len(verify(proposal, rows, chance, rule=rule).kept)

        walked = sum(probability * count for probability, count in every_branch(kept))
        assert walked == pytest.approx(CLOSED_FORMS[rule](p, q), abs=TOLERANCE)


def test_coupled_accepts_what_its_closed_form_says():
    """Keyed noise cannot be walked: 4,000 seeds each. A share of n draws is off by 5 standard errors with chance 6e-7."""
    n = 4_000
    for p, q in (([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]), ([0.6, 0.4, 0.0], [0.3, 0.3, 0.4])):
        rows, law, kept = torch.tensor([p, p]), torch.tensor(q), 0
        for seed in range(n):
            chance = chance_for("coupled", seed)
            proposal = Proposal.chain([chance.draw(law, 7)], [law], passes=1)
            kept += len(verify(proposal, rows, chance, position=7, rule="coupled").kept)
        want = float(coupled_agreement(np.array(p), np.array(q)))
        assert abs(kept / n - want) < 5 * (want * (1 - want) / n) ** 0.5
        assert abs(want - CLOSED_FORMS["match"](np.array(p), np.array(q))) > 0.1  # not by chance


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("vocab", [2, 6])
def test_replays_factor_averages_to_the_closed_form(rule, vocab):
    """One position, every output x weighed by p(x): what gamma 1 accepts there."""
    for p, q in laws(vocab, 15):
        x = np.nonzero(p)[0]
        P, Q = (np.repeat(law[None, None], len(x), 0) for law in (p, q))
        (expected,) = replay_rule(rule, P, Q, x[:, None], [1], 1)
        assert p[x] @ expected.accepted == pytest.approx(CLOSED_FORMS[rule](p, q), abs=TOLERANCE)


def test_every_rule_has_a_closed_form_and_an_unknown_one_no_factor():
    assert set(CLOSED_FORMS) == set(RULES)
    laws = np.full((1, 2, 2), 0.5)
    with pytest.raises(ValueError, match="'best'"):
        replay_rule("best", laws, laws, np.zeros((1, 2), dtype=int), [1], 1)
