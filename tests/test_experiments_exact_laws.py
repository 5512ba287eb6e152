"""Exact laws of texts: two ways to walk the real loop agree, and the dynamic program refuses what it does not hold for."""

import pytest

from experiments.exact.check import ROUNDING
from experiments.exact.faults import FAULTS, plant
from experiments.exact.laws import gap, law_of, loop_law, one_rounds, target_law, walks
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.drafts.model import ModelDraft
from specdec.table import near, random_model

PROMPT = [1, 2, 0]


@pytest.mark.parametrize("rule", RULES)
def test_whole_walks_agree_with_the_round_by_round_law(rule):
    """No round is built by hand in the walks: what one round leaves behind is what the next one finds."""
    target = random_model(3, seed=10)
    draft = ModelDraft(near(target), 1)
    law = law_of(walks(target, draft, PROMPT, max_new_tokens=3, gamma=2, rule=rule))
    assert abs(sum(law.values()) - 1) < ROUNDING
    assert gap(law, loop_law(target, draft, PROMPT, 3, 2, rule=rule)) < ROUNDING
    assert gap(law, target_law(target, PROMPT, 3)) < ROUNDING


def test_every_reachable_state_was_walked():
    """The dynamic program meets a draft's cache of every lag: none behind, one behind, and empty."""
    target = random_model(3, seed=15)
    lags = set()
    args = (target, ModelDraft(near(target), 1), PROMPT)
    for _, (_, state, held) in one_rounds(*args, (), 0, 9, 2, Sampling(), (), "token"):
        lags.add(len(state.tokens) - held)
    assert lags == {1, 2}


def test_a_target_law_adds_up_and_ends_at_stops():
    target = random_model(3, seed=9)
    law = target_law(target, PROMPT, 4, stops=((2, 2), (1,)))
    assert sum(law.values()) == pytest.approx(1.0, abs=ROUNDING)
    for text in law:
        assert len(text) == 4 or text[-1] == 1 or text[-2:] == (2, 2)
        assert 1 not in text[:-1] and (2, 2) not in zip(text[:-1], text[1:-1])


@pytest.mark.parametrize(
    "name, message",
    [("target cache not rolled back", "the caches hold"), ("draft cache keeps a refused token", "the caches hold")],
)  # fmt: skip
def test_caches_that_break_the_programs_assumption_are_refused(name, message):
    target = random_model(3, seed=9)
    with plant(FAULTS[name]), pytest.raises(RuntimeError, match=message):
        loop_law(target, ModelDraft(near(target), 1), PROMPT, 3, 2)
