"""Trees on record: rows by hand, lines, figure, and a whole small run."""

import numpy as np
import pytest

from experiments.drawing.style import to_png
from experiments.exact.small_model import small_micro
from experiments.prompts import Prompt
from experiments.setting import Setting
from experiments.trees import run as trees_run
from experiments.trees.command import write
from experiments.trees.figure import trees
from experiments.trees.run import VERSION, contenders
from experiments.trees.table import CONTENDERS, lines, measured_w, rows_of
from micro.chance import generator_for
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.drafts import measured
from specdec.drafts.measured import read_measured
from specdec.trees import depths


def made_record(draft="rtn3", temperature=0.0) -> dict:
    def one(shape, rounds, accepted, how="without"):
        return {"how": how, "shape": shape, "promised": 2.5, "rounds": rounds, "accepted": accepted,
                "rows": len(shape) + 1, "levels": max(depths(shape), default=0)}  # fmt: skip

    budget = {
        name: one([-1, 0], [10.0, 10.0], [10.0, 20.0]) if name == "chain"
        else one([-1, -1, 0], [8.0, 8.0], [12.0, 20.0], name if name != "best" else "points")
        for name in CONTENDERS
    }  # fmt: skip
    loop = {"rounds": [4.0, 5.0], "accepted": [8.0, 7.0]}
    forks = {"tree": {"texts": 2, "tokens": 20, "rows": 20, "rows_differing": 3,
                      "forks": [{"prompt": "a", "place": 3, "margin": 1.5e-6}]}}  # fmt: skip
    return {
        "point": {"draft": draft, "temperature": temperature},
        "inputs": {"version": VERSION, "draft": draft, "temperature": temperature},
        "environment": {"time": "2026-11-30T00:00:00Z"},
        "result": {
            "acceptance": {how: [[0.7, 0.3]] for how in ("with", "without", "points")},
            "budgets": {"4": budget, "16": budget},
            "c": 0.25,
            "prompts": ["a", "b"],
            "loop": {name: {"loop": loop, "replay": loop} for name in CONTENDERS},
            "forks": forks if temperature == 0 else None,
        },
    }


def test_rows_by_hand():
    rows = {(row.budget, row.name): row for row in rows_of([made_record()])}
    chain, tree = rows[4, "chain"], rows[4, "best"]
    assert (chain.widths, chain.rows, chain.levels) == ((1, 1), 3, 2)
    assert (tree.widths, tree.rows, tree.levels, tree.how) == ((2, 1), 4, 2, "points")
    assert chain.depth.value == 1.5 and chain.tokens.value == 2.5
    assert chain.speed_up.value == pytest.approx(2.5 / 1.5)
    assert tree.over_chain.value == pytest.approx(3.0 / 1.5 - 2.5 / 1.5)
    assert tree.timed == pytest.approx(3.0 / (measured_w(4) + 0.5))
    text = "\n".join(lines([made_record()]))
    assert "1 of 2 texts fork (margins: 1.5e-06)" in text and "(equal)" in text


def test_rows_cost_what_was_measured_for_lanes():
    assert measured_w(1) == 1.0 and 1.5 < measured_w(8) < measured_w(16) < 4


def test_the_figure_of_records_and_of_none():
    records = [made_record(), made_record("rtn2"), made_record(temperature=1.0)]
    for shown in (records, []):
        assert to_png(trees(shown)).startswith(b"\x89PNG")


def test_the_best_tree_is_chosen_by_the_choosing_texts_alone():
    """Texts 0, 1 accept any first child, 2, 3 any second: on either half the best tree is the one that suits it."""
    f = np.zeros((4, 40, 2))
    f[:2, :, 0] = 1.0
    f[2:, :, 1] = 1.0
    for half, widths in ((np.array([0, 1]), 1), (np.array([2, 3]), 2)):
        from specdec.tree_replay import by_depth

        a = {"points": by_depth(f, 8, 16, half)}
        found = contenders(
            4, {"points": f, "without": f}, {**a, "without": a["points"]}, 0.1, half, 16
        )
        how, plan = found["best"]
        assert plan.shape.count(-1) == widths
        assert len(found["chain"][1].shape) == (3 if widths == 1 else 1)


@pytest.mark.slow
def test_a_whole_point_of_a_small_model(monkeypatch, tmp_path):
    target = small_micro(context=128)
    rng = generator_for(0, "prompts")
    prompts = [Prompt(f"0{i % 4}-{i}", "free", bytes(rng.integers(0, target.vocab, 4).tolist()))
               for i in range(8)]  # fmt: skip
    setting = Setting(None, prompts, window=16, seeds=(1,), most_gamma=16)
    setting.__dict__["model"] = target
    setting.add("rtn3", quantize_model(target, parse_format("rtn3")))
    records = []
    for temperature in (0.0, 1.0):
        point = {"draft": "rtn3", "temperature": temperature}
        result = trees_run.run(point, setting)
        records.append(made_record(**point) | {"result": result})
        for both in result["loop"].values():
            loop, replay = (np.array(both[side]["accepted"]) for side in ("loop", "replay"))
            if temperature == 0:
                assert loop == pytest.approx(replay, abs=1e-6)  # no coin
    assert result["forks"] is None
    assert records[0]["result"]["forks"]["chain"]["rows_differing"] == 0
    assert records[0]["result"]["forks"]["chain"]["forks"] == []
    assert len(rows_of(records)) == 2 * 3 * len(CONTENDERS)
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    (path,) = write(records, target)
    how, table = read_measured("rtn3", target)
    assert path.name == "rtn3.json" and set(table) == {0.0, 1.0}
    assert len(table[1.0]) == trees_run.LEVELS and how in ("with", "without", "points")
