"""Counts of rounds and the rates derived from them: the four runs whose counts are known, through the real loop."""

import pytest

from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.decode import generate
from specdec.drafts.model import ModelDraft
from specdec.record import Generation, Round, Totals, per_position, speed_up
from specdec.table import scripted_model

EASY = (13, (2, 5))  # tokens, and at which of them (from 1) the draft is wrong
CREATIVE = (14, (1, 2, 4, 6, 9, 11, 12, 13))
RUNS = {  # name: run, gamma, rounds, accepted, rejected, thrown away, alpha, time, speed-up
    "easy, 4": (EASY, 4, 4, 10, 2, 3, 0.83, 5.5, 2.36),
    "easy, 8": (EASY, 8, 3, 11, 2, 11, 0.85, 5.4, 2.41),
    "creative, 4": (CREATIVE, 4, 9, 6, 8, 16, 0.43, 12.0, 1.17),
    "creative, 8": (CREATIVE, 8, 9, 6, 8, 37, 0.43, 14.1, 0.99),
}


def run(tokens: int, wrong, gamma: int) -> Generation:
    text = [1 + place % 3 for place in range(tokens)]
    drafted = [0 if place + 1 in wrong else token for place, token in enumerate(text)]
    return generate(scripted_model([0, *text]), ModelDraft(scripted_model([0, *drafted]), 1), [0],
                    max_new_tokens=tokens, gamma=gamma, sampling=Sampling(0.0),
                    chance=SeededChance(1))  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_four_greedy_runs(name):
    """A draft pass costs .1 of a target pass; a round near the end drafts only what is still wanted."""
    (tokens, wrong), gamma, rounds, accepted, rejected, thrown, alpha, time, speed = RUNS[name]
    totals = run(tokens, wrong, gamma).totals
    assert (totals.rounds, totals.accepted, totals.thrown_away) == (rounds, accepted, thrown)
    assert totals.checked - totals.accepted == rejected and totals.emitted == tokens
    assert round(totals.alpha, 2) == alpha
    assert totals.draft_passes == totals.proposed == accepted + rejected + thrown
    assert totals.rounds + 0.1 * totals.draft_passes == pytest.approx(time, abs=1e-9)
    assert round(totals.estimated_speed_up(c=0.1), 2) == speed


def test_the_short_formula_for_the_speed_up_is_another_number():
    """tokens per pass / (1 + gamma c) takes every round to draft gamma."""
    short = [
        round(run(*r, gamma).totals.tokens_per_pass / (1 + gamma * 0.1), 2)
        for r, gamma, *_ in RUNS.values()
    ]
    assert short == [2.32, 2.41, 1.11, 0.86]


def test_the_plates_arithmetic():
    """3.00 tokens per pass at gamma 4 and c = 1/4 are 1.50."""
    assert Totals(rounds=10, emitted=30, draft_passes=40).estimated_speed_up(0.25) == 1.5


def a_round(accepted, proposed, emitted, **more) -> Round:
    checked = more.pop("checked", min(accepted + 1, proposed))
    return Round((0,) * emitted, (0,) * proposed, tuple(range(accepted)), checked,
                 more.pop("final", "bonus"), proposed, proposed + 1, draft_bytes=3 * proposed)  # fmt: skip


SOME = [a_round(1, 4, 2), a_round(4, 4, 5), a_round(0, 4, 1), a_round(2, 2, 2, final="")]


def test_every_rate_is_totals_over_totals():
    totals = Totals.of(SOME)
    assert totals == Totals(4, 14, 9, 7, 10, 14, 2, 42, 18)
    assert totals.alpha == 7 / 9 and totals.accepted_per_drafted == 0.5
    assert totals.tokens_per_pass == 2.5 and totals.acceptance_length == 1 + 7 / 4
    assert totals.full_share == 0.5 and totals.thrown_away == 5
    assert totals.alpha != pytest.approx((1 / 2 + 1 + 0 + 1) / 4)  # no mean of means
    assert Totals.of(SOME[:2]) + Totals.of(SOME[2:]) == totals
    assert Totals(**totals.to_json()) == totals


def test_a_speed_up_by_bytes_is_that_by_passes_where_all_passes_cost_the_same():
    totals = Totals.of(SOME)
    assert totals.speed_up_by_bytes(12) == totals.estimated_speed_up(3 / 12) == 10 / 7.5
    assert Totals.of([]).speed_up_by_bytes(12) is None


def test_rates_of_nothing_are_none_and_not_a_number_that_lies():
    nothing = Totals.of([])
    rates = ("alpha", "accepted_per_drafted", "tokens_per_pass", "acceptance_length", "full_share")
    assert [getattr(nothing, rate) for rate in rates] == [None] * 5
    assert nothing.estimated_speed_up(0.25) is None and speed_up([], 0.25, lambda rows: 1.0) is None


def test_speed_up_with_its_assumptions():
    totals = Totals.of(SOME)
    assert totals.estimated_speed_up(0.25) == 10 / (4 + 3.5)
    assert totals.estimated_speed_up(0.25, w=1.5, overhead=0.1) == 10 / (4 * 1.6 + 3.5)
    assert speed_up(SOME, 0.25, lambda rows: 1.0) == totals.estimated_speed_up(0.25)
    assert speed_up(SOME, 0.25, lambda rows: rows / 2, 0.5) == 10 / (3 * 2.5 + 1.5 + 4 * 0.5 + 3.5)


def test_acceptance_by_position():
    """Places 1 and 2 were proposed in all four rounds, 3 and 4 in three."""
    assert per_position(SOME, conditional=False) == [3 / 4, 2 / 4, 1 / 3, 1 / 3]
    assert per_position(SOME, conditional=True) == [3 / 4, 2 / 3, 1 / 1, 1 / 1]
    assert per_position([], conditional=True) == []
    assert per_position([a_round(0, 3, 1)], conditional=True) == [0.0, None, None]


def test_what_lies_behind_a_stop_is_neither_accepted_nor_rejected_there():
    cut = a_round(1, 4, 1, checked=1, final="")
    assert cut.thrown_away == 3
    assert per_position([cut], conditional=True) == [1.0, None, None, None]
    assert per_position([cut], conditional=False) == [1.0, 0.0, 0.0, 0.0]


def test_conditional_rates_multiply_to_the_chance_of_a_full_round():
    rounds = [a_round(k, 4, k + 1) for k in (0, 0, 1, 2, 2, 3, 4, 4)]
    product = 1.0
    for rate in per_position(rounds, conditional=True):
        product *= rate
    assert product == pytest.approx(Totals.of(rounds).full_share)
