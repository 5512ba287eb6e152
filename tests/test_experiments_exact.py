"""`selfdraft exact`: the program as it is passes every tier; instruments see what they say; the command tells and records it."""

import json

import numpy as np
import pytest
import torch

from experiments.__main__ import main
from experiments.exact.check import Check, Reading, judge, near_and_far, pairs_of, texts
from experiments.exact.enumeration import PROMPT, target_of
from experiments.exact.faults import FAULTS, plant
from experiments.exact.laws import target_law, walks
from experiments.exact.matrix import CLEAN, Found, checks_of
from experiments.exact.metered import Metered
from experiments.exact.report import lines, summary
from experiments.exact.statistics import (
    FALSE_ALARM,
    PROJECTIONS,
    coin,
    coin_seen,
    counted,
    frequencies,
    joint,
    micro_law,
    seen,
)
from experiments.exact.tiers import TIERS
from experiments.store import Store
from micro.chance import generator_for
from specdec.accept import RULES, chance_for
from specdec.decode import Decoding
from specdec.drafts.model import ModelDraft

# tier -> level of the default suite; the rest is slow. The tier of drafts: tests/test_experiments_exact_drafts.py
LEVEL = {"algebra": "quick", "enumeration": "whole", "statistics": "probe", "counts": "quick",
         "caches": "quick", "identity": "quick"}  # fmt: skip


def all_checks(levels: dict[str, str]) -> list:
    return [pytest.param(check, id=f"{tier}: {check.name}, {check.draft}")
            for tier, level in levels.items() for check in checks_of(tier, level)]  # fmt: skip


@pytest.mark.parametrize("check", all_checks(LEVEL))
def test_the_program_as_it_is(check):
    outcome = judge(check)
    assert not outcome.caught, outcome


@pytest.mark.slow
@pytest.mark.parametrize("check", all_checks(dict.fromkeys(LEVEL, "whole")))
def test_the_program_as_it_is_over_all_draws(check):
    outcome = judge(check)
    assert not outcome.caught, outcome


def test_checks_have_names_of_their_own():
    for tier in TIERS:
        names = [(check.name, check.draft) for check in checks_of(tier, "whole")]
        assert len(set(names)) == len(names)


# --- instruments


def shifted(law: np.ndarray, distance: float) -> np.ndarray:
    """A law at exactly this total variation: mass goes from the likeliest cells to the last one that is not among them."""
    law, left = law.copy(), distance
    order = np.argsort(-law)
    for cell in order[:-1]:
        taken = min(left, law[cell])
        law[cell], left = law[cell] - taken, left - taken
    law[order[-1]] += distance
    assert left < 1e-12
    return law


def caught(reading: Reading) -> bool:
    return reading.evidence > reading.limit


@pytest.mark.parametrize("cells, draws", [(8, 300), (8, 1_500), (27, 2_000), (243, 20_000)])
def test_an_error_of_the_stated_size_is_caught_and_none_is_not(cells, draws):
    law = generator_for(cells, "law").dirichlet([0.5] * cells)
    wrong = shifted(law, seen(cells, draws))
    rng = generator_for(1, "draws")
    assert sum(caught(frequencies(rng.multinomial(draws, wrong), law)) for _ in range(10)) >= 9
    assert not any(caught(frequencies(rng.multinomial(draws, law), law)) for _ in range(200))


@pytest.mark.parametrize("probability", [0.0005, 0.3, 0.9995])
def test_a_coin_off_by_the_stated_size_is_caught_and_none_is_not(probability):
    draws, error = 20_000, coin_seen(probability, 20_000)
    wrong = probability + (error if probability < 0.5 else -error)
    rng = generator_for(1, "coins")
    found = [caught(coin(int(rng.binomial(draws, wrong)), draws, probability)) for _ in range(200)]
    assert sum(found) >= 180
    fair = [coin(int(rng.binomial(draws, probability)), draws, probability) for _ in range(500)]
    assert not any(map(caught, fair))


def test_a_draw_that_cannot_be_is_an_error_of_any_size():
    assert caught(frequencies(np.array([999_999, 1]), np.array([1.0, 0.0])))


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["near", "far"])
def test_a_planted_error_of_the_stated_size_through_generate(name, rule):
    """The joint of 3 tokens against a law that is off by what the test says it sees: at least 9 of 10 seeds see it."""
    target = target_of(3, 2)
    draft, law = pairs_of(target)[name], target_law(target, PROMPT, 3)
    found = 0
    for seed in range(10):
        counts, cells = counted(
            law,
            lambda s: texts(target, draft, PROMPT, 3, 1, chance=chance_for(rule, s, "planted"), rule=rule).tokens,
            2_000,
            2_000 * seed,
        )  # fmt: skip
        found += caught(frequencies(counts, shifted(cells, seen(len(cells), 2_000))))
    assert found >= 9


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["near", "far"])
def test_200_seeds_of_2_000_draws_catch_nothing(name, rule):
    """25 seeds each; at 1e-6 a comparison, one false alarm in 5,000 such suites."""
    assert 200 * FALSE_ALARM < 1 / 4_999
    target = target_of(3, 2)
    draft = ModelDraft(near_and_far(target)[name], 1)
    for seed in range(25):
        assert not caught(
            joint(target, draft, 1, 2_000, rule=rule, first_seed=10**6 + 2_000 * seed)
        )


def test_projections_have_the_classes_they_say():
    every, law = micro_law()
    assert law.sum() == pytest.approx(1.0) and len(every) == 16**4
    for cells, classes in PROJECTIONS.values():
        assert set(classes(every)) == set(range(cells)) and cells <= 8


# --- what a check is


def test_an_error_and_nan_count_as_caught():
    broken = judge(Check("broken", lambda: 1 / 0))
    assert broken.caught and broken.error == "ZeroDivisionError: division by zero"
    assert judge(Check("nan", lambda: Reading(float("nan"), 1.0))).caught
    assert not judge(Check("fine", lambda: Reading(1.0, 1.0))).caught


def test_a_loop_that_never_ends_is_caught_and_does_not_hang(monkeypatch):
    """There is always room: it would go on to the context's end, or for ever."""
    monkeypatch.setattr(Decoding, "room", property(lambda self: 5))
    target = target_of(3, 5)
    outcome = judge(Check("endless", lambda: texts(target, pairs_of(target)["near"], [0], 3, 2)))
    assert outcome.caught and "passes: the loop does not end" in outcome.error
    with pytest.raises(RuntimeError, match="more than 5 passes"):
        list(walks(target, pairs_of(target)["near"], [0], max_new_tokens=3, gamma=2))
    metered, tokens = Metered(target, 1), torch.tensor([[0]])
    metered.forward(tokens, metered.new_cache())
    with pytest.raises(RuntimeError, match="more than 1 passes"):
        metered.forward(tokens, metered.new_cache())


# --- the command


def exact(capsys, tmp_path, *more):
    code = main(["exact", "--workers", "1", "--out", str(tmp_path), *more])
    return code, capsys.readouterr()


def test_the_command_prints_the_table_and_records_it(capsys, tmp_path):
    name = "state left from the last call"
    code, said = exact(capsys, tmp_path, "--quick", "--tier", "caches", "--fault", name)
    assert code == 0 and "exact: yes. 0 checks caught" in said.out and "1 of 1 planted" in said.out
    (row,) = [line for line in said.out.splitlines() if line.startswith(name)]
    assert row.split()[-1] == "nf"
    store = Store(tmp_path)
    clean, *rest = store.of("exact")
    assert clean["point"] == {"fault": None, "tier": "caches", "draft": None}
    assert len(clean["result"]["checks"]) == len(checks_of("caches", "quick"))
    assert [r["point"]["draft"] for r in rest] == ["any", "near", "far"]
    for record in rest[1:]:
        result = record["result"]
        assert result["caught"] and result["reached"] > 0 and result["evidence"] > result["limit"]
        assert result["object"] == "draft" and result["what"] == FAULTS[name].what


def test_a_fault_in_the_program_is_caught_in_the_clean_run(capsys, tmp_path):
    with plant(FAULTS["draft cache two too many trimmed after a rejection"]):
        code, said = exact(
            capsys, tmp_path, "--quick", "--tier", "caches", "--fault", "none", "--json"
        )
    report = json.loads(said.out)
    assert code == 1 and not report["exact"] and report["clean"]["caches"]["caught"] > 0
    assert {"tier", "check", "evidence", "limit"} <= report["caught_in_the_clean_run"][0].keys()


def test_a_fault_that_nothing_catches_fails_the_command(capsys, tmp_path):
    code, said = exact(capsys, tmp_path, "--tier", "algebra", "--quick", "--fault", "bonus dropped")
    assert code == 1 and "exact: NO" in said.out and "MISSED" in said.out


def test_an_unknown_fault_is_refused_by_name(capsys, tmp_path):
    code, said = exact(capsys, tmp_path, "--fault", "bonus by argmin")
    assert code == 2 and "did you mean bonus by argmax" in said.err and said.err.count("\n") == 1


def test_the_table_tells_what_was_caught_missed_and_never_ran():
    name = "bonus dropped"
    outcomes = [judge(Check("c", lambda e=e: Reading(e, 1.0))) for e in (2.0, 0.5)]
    found = [
        Found(CLEAN, "counts", "any", outcomes[1], None, 0.0),
        Found(name, "counts", "near", outcomes[0], 3, 0.0),
        Found(name, "counts", "far", outcomes[1], 3, 0.0),
        Found(name, "caches", "near", outcomes[1], 3, 0.0),
        Found(name, "identity", "near", outcomes[0], 0, 0.0),
    ]
    report = summary(found, tuple(TIERS), [name], "quick", 1.0)
    (row,) = [line for line in lines(report) if line.startswith(name)]
    assert row.split() == ["bonus", "dropped", "rule", "n", ".", "-"] and report["exact"]
    assert not summary(found[2:], tuple(TIERS), [name], "quick", 1.0)["exact"]
