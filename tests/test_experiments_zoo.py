"""The zoo: what is counted for a draft, how winners are picked, and how it is told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_records import made_animal as record

from experiments.__main__ import main
from experiments.halves import halves
from experiments.paths import DATA, WEIGHTS
from experiments.prompts import load_prompts
from experiments.setting import Setting
from experiments.zoo import run as zoo_run
from experiments.zoo.figures import FIGURES
from experiments.zoo.points import GROUPS, ZOO
from experiments.zoo.rates import ROW_COST, animal, best_of_group
from experiments.zoo.table import as_json, as_markdown, as_text, verdict
from quant.bytes import pass_bytes
from specdec.drafts import make_draft
from specdec.record import Totals


@pytest.fixture(scope="module")
def setting() -> Setting:
    """Two plates of each kind, a prompt of each: one for either half."""
    prompts = load_prompts(DATA / "prompts.jsonl")
    plates: dict[str, object] = {}
    for prompt in prompts:
        plate = prompt.id.rpartition("-")[0]
        if plate and [p.kind for p in plates.values()].count(prompt.kind) < 2:
            plates.setdefault(plate, prompt)
    assert len(plates) == 6
    return Setting(WEIGHTS, list(plates.values()), window=24, seeds=(1,), most_gamma=6)


def test_every_draft_of_the_zoo_is_of_a_group_and_exists(setting):
    assert {entry.group for entry in ZOO.values()} <= set(GROUPS)
    for spec, entry in ZOO.items():
        draft = make_draft(setting.model, spec)
        assert draft.bytes_per_pass >= 0 and draft.extra_bytes >= 0 and draft.extra_parameters >= 0
        if entry.trained:
            assert zoo_run.training(entry.trained)["minutes"] > 0


def test_replay_and_the_real_loop_agree_on_greedy_text(setting):
    """At T = 0 no coin is thrown: both must count the same, prompt by prompt."""
    draft = make_draft(setting.model, "rtn2")
    replayed = zoo_run.replayed(draft, draft.model, 0.0, setting)
    looped = zoo_run.looped(draft, 0.0, setting)
    for half in halves(setting.prompts):
        for gamma in (1, 4):
            for a, b in zip(replayed(half, gamma), looped(half, gamma)):
                assert {n: getattr(a, n) for n in zoo_run.COUNTS} == pytest.approx(
                    {n: getattr(b, n) for n in zoo_run.COUNTS}
                )


def test_a_point_holds_what_its_rates_are_made_of(setting):
    result = zoo_run.run({"draft": "rtn3", "temperature": 1.0}, setting)
    json.dumps(result, allow_nan=False)
    target = pass_bytes(setting.model)
    assert result["by"] == "replay" and result["target_bytes"] == target
    speeds = {
        int(b): s["emitted"] / (s["rounds"] + s["draft_bytes"] / target)
        for b, s in result["choosing"].items()
    }
    assert result["budget"] == max(speeds, key=speeds.get)
    assert len(result["prompts"]) == len(result["counts"]["rounds"]) == 3
    gamma, counts = result["budget"], {n: sum(v) for n, v in result["counts"].items()}
    assert counts["draft_bytes"] == pytest.approx(
        gamma * counts["rounds"] * make_draft(setting.model, "rtn3").bytes_per_pass, rel=1e-6
    )
    assert counts["rows"] == pytest.approx((gamma + 1) * counts["rounds"], rel=1e-6)
    parts = result["choosing_kinds"]
    assert sum(p["emitted"] for p in parts.values()) == pytest.approx(
        result["choosing"][str(gamma)]["emitted"], rel=1e-6
    )


def test_rates_by_hand():
    one = animal(record("rtn3"))
    assert one.speed_up.value == one.speed_up.low == 30 / (10 + 10)
    assert one.charged.value == pytest.approx(30 / (10 + ROW_COST * 40 + 10))
    assert one.alpha.value == 20 / 35 and one.tokens_per_pass.value == 3
    assert (one.rows_per_pass, one.c, one.draft_cost) == (5, 0.25, 1.0)
    assert {i.value for i in one.by_kind.values()} == {1.5} and one.chosen == 1.5
    assert animal(record("rtn3", tree=True)).alpha is None


def test_winners_are_picked_where_they_are_not_measured():
    """rtn3 looks better on the reporting half and rtn4 on the choosing one: rtn4 it is."""
    records = [record("rtn3", emitted=40, chosen=20), record("rtn4", emitted=30, chosen=30)]
    animals = [animal(r) for r in records]
    groups = {"rtn3": "low bits", "rtn4": "low bits"}
    assert best_of_group(animals, groups)["low bits"].draft == "rtn4"
    assert "T = 1: rtn4 1.50" in "\n".join(verdict(animals))
    assert "| low bits | rtn4 |" in as_markdown(records)


def test_a_lossy_contrast_never_wins_and_says_so_in_every_table():
    records = [record("rtn3"), record("rtn4", chosen=60, emitted=60, exact=False)]
    text = as_text(records)
    assert "rtn4 LOSSY" in text and "T = 1: rtn3" in text
    assert "| rtn4 |" not in as_markdown(records)
    assert [one["exact"] for one in as_json(records)["animals"]] == [True, False]


def test_copy_beats_free_only_where_the_intervals_part():
    far = record("rtn3")
    far["result"]["counts"]["emitted"] = [30, 60, 20] * 2
    lines = "\n".join(verdict([animal(far), animal(record("rtn4"))]))
    assert "with 1 of 2 drafts (rtn3); free beats copy with 0." in lines


def test_figures_hold_every_group_and_say_where_there_is_nothing():
    records = [record(d, t) for d in ("rtn3", "rtn2") for t in (0.0, 1.0)]
    for draw in FIGURES.values():
        assert draw(records).axes and draw([]).axes
    trained = {"minutes": 5.0, "curve": [[1, 0.5], [2, 0.25]]}
    figure = FIGURES["zoo-curves"]([record("rtn3+tuned", training=trained)])
    (line,) = figure.axes[0].lines
    assert np.allclose(line.get_xydata(), [[2.5, 0.5], [5.0, 0.25]])


def test_a_draft_that_is_not_in_the_zoo_is_refused(capsys):
    assert main(["run", "zoo", "--only", "rtn99"]) == 2
    assert "--only rtn99" in capsys.readouterr().err


def test_totals_by_bytes_choose_the_smaller_of_equals():
    tried = {4: Totals(rounds=1, emitted=2, draft_bytes=0), 2: Totals(rounds=1, emitted=2)}
    assert zoo_run.best(tried, 100) == 2
