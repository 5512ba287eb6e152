"""The rule on trees, its edges and its refusals. One position over 20,000 pairs of laws: tests/test_experiments_exact.py."""

import pytest
import torch

from experiments.exact.check import ROUNDING
from experiments.exact.laws import gap, target_law
from experiments.exact.pairs import PAIRS, pairs
from micro.chance import EnumeratingChance, SeededChance, every_branch
from micro.sampling import Sampling
from specdec.accept import RULES, acceptance, residual, verify
from specdec.drafts.table import TextDraft, TreeDraft
from specdec.proposal import Proposal
from specdec.table import near, random_model, table_law


def test_equal_laws_are_always_accepted():
    p = torch.tensor([0.1, 0.2, 0.7])  # float32: a ratio of two equal numbers is exactly 1
    for token in range(3):
        assert acceptance(p, p, token) == 1.0
    assert torch.equal(residual(p, p, 0), p)


def test_a_slightly_smaller_p_is_sometimes_refused():
    """A uniform rounded to bfloat16 could never refuse a ratio of .9995; ours are float64."""
    p, q = torch.tensor([0.9995, 0.0005]), torch.tensor([1.0, 0.0])
    chance = SeededChance(1)
    refused = sum(not chance.accept(acceptance(p, q, 0)) for _ in range(40_000))
    assert abs(refused - 20) < 23  # Poisson of mean 20: beyond 5 deviations


def tree_law(target, draft, sampling, depth: int, rule: str = "token"):
    """The joint law of the first `depth` tokens: the verdict's path and token, then the target's own."""
    prompt, law = [1, 0], {}

    def outcome(chance):
        draft.start(prompt, target)
        proposal = draft.propose(64, sampling, chance)
        paths = [()]
        for token, parent in zip(proposal.tokens, proposal.parent):
            paths.append((*paths[parent + 1], token))
        p = torch.stack([table_law(target, (*prompt, *path), sampling) for path in paths])
        verdict = verify(proposal, p, chance, position=len(prompt), rule=rule)
        kept = paths[verdict.kept[-1] + 1] if verdict.kept else ()
        assert len(kept) == len(verdict.kept)
        return (*kept, verdict.token)

    for probability, text in every_branch(outcome):
        rest = target_law(target, (*prompt, *text), max(0, depth - len(text)), sampling)
        for more, p in rest.items():
            full = (*text, *more)[:depth]
            law[full] = law.get(full, 0.0) + probability * p
    return law


TREES = {
    "two siblings": (-1, -1),
    "three siblings": (-1, -1, -1),
    "a chain and a sibling": (-1, 0, -1),
    "two levels": (-1, -1, 0, 0, 1),
    "children of the second": (-1, -1, 1, 1, 2),
    "six nodes": (-1, -1, 0, 0, 1, 1),
}


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("how", ["with", "without", "points", "mixed"])
@pytest.mark.parametrize("rule", ["token", "match"])
def test_trees_keep_the_joint_law(shape, how, rule):
    vocab = (
        3 if rule == "token" else 2
    )  # match draws at every node: three tokens would be many walks
    target = random_model(vocab, seed=4)
    for sampling in (Sampling(), Sampling(0.0), Sampling(0.8, top_k=2, top_p=0.9)):
        draft = TreeDraft(near(target), TREES[shape], how)
        law = tree_law(target, draft, sampling, 3, rule)
        assert gap(law, target_law(target, [1, 0], 3, sampling)) < ROUNDING


def test_without_replacement_all_tokens_leave_nothing_to_refuse():
    """Three siblings of three tokens: the last one's residual is all on it, so one of them is always kept."""
    target = random_model(3, seed=5)
    draft = TreeDraft(near(target), (-1, -1, -1), "without")
    draft.start([0], target)
    p = torch.stack([table_law(target, [0], Sampling())] * 4)

    def kept(chance):
        return len(verify(draft.propose(9, Sampling(), chance), p, chance).kept)

    assert sum(chance for chance, length in every_branch(kept) if length == 0) < ROUNDING


def test_a_wrong_law_beside_a_drafted_token_shows():
    """The control: q given as it was before warping is not what the token was drawn from."""
    target = random_model(3, seed=4)
    model, sampling = near(target), Sampling(0.5)

    class Unwarped(TextDraft):
        def propose(self, gamma, sampling, chance):
            token = chance.draw(table_law(model, self.text, sampling), 0)
            return Proposal.chain([token], [table_law(model, self.text, Sampling())], 1)

    law = tree_law(target, Unwarped(), sampling, 2)
    assert gap(law, target_law(target, [1, 0], 2, sampling)) > 1e-3


def test_room_takes_the_bonus_and_nothing_else():
    p = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    proposal = Proposal.chain([0, 0], [None, None], passes=0)
    for rule in RULES:
        full = verify(proposal, p, EnumeratingChance(), room=2, rule=rule)
        assert (full.kept, full.token, full.checked, full.rejected) == ((0, 1), None, 2, False)
        more = verify(proposal, p, EnumeratingChance(), room=3, rule=rule)
        assert (more.kept, more.token) == ((0, 1), 1)


def test_an_empty_proposal_is_a_plain_draw():
    p = torch.tensor([[0.25, 0.75]])
    empty = Proposal((), (), ())
    for rule in RULES:
        outcomes = every_branch(lambda c, rule=rule: verify(empty, p, c, rule=rule).token)
        assert sorted((t, chance) for chance, t in outcomes) == [(0, 0.25), (1, 0.75)]


def test_counts_of_a_tree():
    """Node 0 refused, its sibling 1 kept, its child 2 refused: three judged, one kept."""
    p = torch.tensor([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    proposal = Proposal((0, 1, 1), (-1, -1, 1), (None, None, None))
    verdict = verify(proposal, p, EnumeratingChance())
    assert (verdict.kept, verdict.token, verdict.checked, verdict.rejected) == ((1,), 0, 3, True)


def test_refusals_name_what_is_wrong():
    p = torch.full((2, 2), 0.5)
    one = Proposal.chain([0], [p[0]], passes=1)
    with pytest.raises(
        ValueError, match="rule must be one of token, block, match, coupled, not 'best'"
    ):
        verify(one, p, EnumeratingChance(), rule="best")
    with pytest.raises(ValueError, match="1 nodes need 2 laws, not 1"):
        verify(one, p[:1], EnumeratingChance())
    with pytest.raises(ValueError, match="parents must stand before"):
        Proposal((0, 1), (1, -1), (None, None))
    with pytest.raises(ValueError, match="one parent and one law"):
        Proposal((0,), (-1,), ())


def test_a_proposal_knows_its_shape():
    tree = Proposal((5, 6, 7, 8), (-1, 0, -1, 2), (None,) * 4)
    assert not tree.is_chain and tree.depths() == [1, 2, 1, 2]
    assert tree.children(-1) == [0, 2] and tree.children(1) == []
    seen = [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 1],
    ]
    assert tree.visible().int().tolist() == seen
    assert Proposal.chain([1, 2], [None, None], 0).is_chain


def test_pairs_hold_what_their_docstring_says():
    """The adversarial pairs are really there: a generator that lost them would test less than it claims."""
    assert sum(PAIRS.values()) == 20_000
    some = list(pairs(5, 64))
    assert any((p == 1).any() for p, _ in some) and any((q == 1).any() for _, q in some)
    assert any(torch.equal(p, q) for p, q in some)
    assert any((torch.minimum(p, q)).sum() == 0 for p, q in some)
    assert any((p == 1 / 5).all() for p, _ in some)
