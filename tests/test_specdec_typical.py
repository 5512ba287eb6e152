"""Typical acceptance is lossy: its text has another law, by enumeration, and wherever it is named it is named so."""

from __future__ import annotations

import math

import pytest
import torch

from experiments.exact.check import near_and_far
from experiments.exact.enumeration import COOL, PROMPT, target_of
from experiments.exact.laws import gap, law_of, target_law, walks
from experiments.options import check_rule
from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.accept import RULES, verify
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import TreeDraft
from specdec.proposal import Proposal
from specdec.typical import LOSSY, Typical

NAME = "typical (lossy)"


def texts_of(draft, sampling=COOL, count: int = 3):
    target = target_of(3, 5)
    runs = walks(target, draft, PROMPT, max_new_tokens=count, gamma=2, sampling=sampling, rule=NAME)
    return law_of(runs), target_law(target, PROMPT, count, sampling)


# --- lossy, and told so


@pytest.mark.parametrize("which", ["near", "far"])
@pytest.mark.parametrize("tree", [False, True])
def test_the_law_of_its_text_is_not_the_target_s(which, tree):
    """Every way the loop can go. An exact rule stays within 1e-12; here some text is off by a twentieth and more."""
    model = near_and_far(target_of(3, 5))[which]
    draft = TreeDraft(model, (-1, -1), "points") if tree else ModelDraft(model, 1)
    found, want = texts_of(draft)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert gap(found, want) > 0.05


def test_at_temperature_0_it_is_the_target_s_greedy_text():
    """A law of one token has no entropy, so that token alone passes: there the rule takes nothing away."""
    found, want = texts_of(ModelDraft(near_and_far(target_of(3, 5))["far"], 1), Sampling(0.0))
    assert gap(found, want) == 0


def test_it_is_no_rule_that_a_command_or_an_exact_table_knows():
    assert not LOSSY.keys() & RULES.keys()
    for name, rule in LOSSY.items():
        assert (
            "lossy" in name and rule.exact is False
        )  # so every record and row that names it says it
        with pytest.raises(ValueError, match="is unknown; there are token, block, match, coupled$"):
            check_rule(name)
    with pytest.raises(ValueError, match="rule must be one of token, block, match, coupled, not"):
        verify(Proposal.chain((), (), 0), torch.ones(1, 2) / 2, SeededChance(1), rule="typical")


# --- the rule itself, by hand


def test_the_threshold_falls_with_entropy():
    """Four equal tokens: exp(-H) = 1/4, so delta .3 asks for .075; a sure law asks for epsilon."""
    assert Typical().keeps(torch.full((4,), 0.25), 0)
    sure = torch.tensor([0.92, 0.08, 0.0, 0.0])
    entropy = -(0.92 * math.log(0.92) + 0.08 * math.log(0.08))
    assert (
        0.3 * math.exp(-entropy) > 0.09 > 0.08
    )  # epsilon is the smaller, and .08 falls short of it
    assert Typical().keeps(sure, 0) and not Typical().keeps(sure, 1)
    assert Typical(epsilon=0.07).keeps(sure, 1)
    wide = torch.full((40,), 0.025)
    assert 0.3 / 40 < 0.025 < 0.09 and Typical().keeps(wide, 7)


def test_the_deepest_typical_path_is_kept_and_the_likeliest_token_added():
    laws = torch.tensor(
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7]]
    )
    tree = Proposal((0, 1, 0, 2), (-1, -1, 0, 1), (None,) * 4)
    found = LOSSY[NAME](tree, laws, SeededChance(1), 0, 5)
    assert found.kept == (1, 3) and found.token == 2 and found.checked == 4 and not found.rejected
    assert LOSSY[NAME](tree, laws, SeededChance(1), 0, 2).token is None
    refused = LOSSY[NAME](Proposal((2,), (-1,), (None,)), laws[:2], SeededChance(1), 0, 5)
    assert refused.kept == () and refused.token == 0 and refused.rejected


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 1.5}, {"epsilon": math.nan}])
def test_a_threshold_out_of_range_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be above 0"):
        Typical(**wrong)
