"""The tier `drafts`: every family of DRAFTS takes part, each is exact and forgets, and a draft that is neither is caught."""

import pytest

from experiments.exact import drafts as exact_drafts
from experiments.exact.check import judge
from experiments.exact.drafts import MODELS, SMALL, checks
from experiments.exact.matrix import checks_of
from specdec.drafts import DRAFTS
from specdec.drafts.table import TextDraft, TreeDraft
from specdec.proposal import Proposal


def test_every_family_of_drafts_is_walked():
    assert {name.split()[0] for name in SMALL} | set(MODELS) == set(DRAFTS)


@pytest.mark.parametrize(
    "check", [pytest.param(c, id=f"{c.name}, {c.draft}") for c in checks_of("drafts", "whole")]
)
def test_every_family_is_exact(check):
    outcome = judge(check)
    assert not outcome.caught, outcome


class Cheating(TreeDraft):
    """Says that its tokens were drawn at twice the temperature that they were drawn at."""

    def propose(self, gamma, sampling, chance):
        drawn = super().propose(gamma, sampling, chance)
        laws = tuple(law.sqrt() / law.sqrt().sum() for law in drawn.laws)
        return Proposal(drawn.tokens, drawn.parent, laws)


class Remembering(TextDraft):
    """Proposes what the text before it ended on."""

    last = None

    def propose(self, gamma, sampling, chance):
        tokens = [] if self.last is None else [self.last]
        return Proposal.chain(tokens, [None] * len(tokens), 0)

    def commit(self, step):
        super().commit(step)
        self.last = step.tokens[-1]


@pytest.mark.parametrize(
    "make, seen",
    [
        (lambda target, model: Cheating(model, (-1, 0), "with"), "joint"),
        (lambda target, model: Remembering(), "remembers"),
    ],
)
def test_a_draft_that_breaks_the_law_or_remembers_is_caught(monkeypatch, make, seen):
    monkeypatch.setattr(exact_drafts, "SMALL", {"broken": (make, 2, 3)})
    caught = [check.name for check in checks() if judge(check).caught]
    assert sum(seen in name for name in caught) == 2  # beside the near model and the far one
