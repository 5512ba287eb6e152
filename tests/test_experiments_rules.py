"""The experiments that compare rules, and replay with the loop: what they count, what they print, and that they can fail."""

import copy
import json

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.loop import beside
from experiments.loop import run as loop_run
from experiments.loop import table as loop_table
from experiments.loop.figure import loop
from experiments.rules import run as rules_run
from experiments.rules import table as rules_table
from experiments.rules.figure import rules
from experiments.store import Store
from micro.checkpoint import save_model
from tests.byte_model import byte_model

WINDOW, GAMMAS = 16, 5
ROWS = [("a", "lesson", "The attention"), ("b", "copy", "1, 2, 3\n"), ("c", "free", "é"),
        ("d", "free", "Some"), ("e", "copy", "x = y")]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules")
    save_model(path / "model", byte_model())
    text = "".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in ROWS)
    (path / "prompts.jsonl").write_text(text)
    return path


@pytest.fixture(scope="module")
def call(folder):
    """Runs an experiment over two points, with few texts."""
    patch = pytest.MonkeyPatch()
    points = [{"draft": "rtn3", "temperature": t} for t in (0.0, 1.0)]
    for module in (rules_run, loop_run):
        patch.setattr(module, "POINTS", points)
    patch.setattr(loop_run, "TEXTS", 5)

    def run(name, *more):
        return main(
            ["run", name, "--model", str(folder / "model"), "--prompts", str(folder / "prompts.jsonl"),
             "--window", str(WINDOW), "--most-gamma", str(GAMMAS), "--out", str(folder / name), *more]
        )  # fmt: skip

    yield run
    patch.undo()


@pytest.fixture(scope="module")
def records(call, folder):
    """experiment -> its records, measured once."""
    assert call("rules", "--seeds", "2") == 0 and call("loop") == 0
    return {name: Store(folder / name).of(name) for name in ("rules", "loop")}


def test_rules_are_measured_on_the_same_texts(records):
    cold, warm = records["rules"]
    for record in (cold, warm):
        assert set(record["result"]["rules"]) == set(rules_run.RULES)
        token, block = (record["result"]["rules"][r] for r in ("token", "block"))
        # one drafted token is judged alike
        assert np.array(token["accepted"])[:, 0] == pytest.approx(np.array(block["accepted"])[:, 0])
        assert token["closed_form"] == block["closed_form"]
        assert np.sum(token["closed_form"]) == pytest.approx(np.sum(record["result"]["overlap"]), rel=1e-6)  # fmt: skip
    one = {rule: np.sum(own["accepted"]) for rule, own in cold["result"]["rules"].items()}
    assert len({round(value, 6) for value in one.values()}) == 1
    for rule in ("match", "coupled"):
        assert np.sum(warm["result"]["rules"][rule]["accepted"]) < np.sum(warm["result"]["rules"]["token"]["accepted"])  # fmt: skip


def test_the_loop_stands_beside_replay(records):
    """At T = 0 without a coin: equal. At T = 1 near: 5 texts a gamma of some 8 rounds."""
    for record in records["loop"]:
        for gamma, both in zip(record["result"]["gammas"], record["result"]["beside"]):
            assert all(len(values) == 5 for side in both.values() for values in side.values())
            one = beside.tokens_per_pass(both)
            if record["point"]["temperature"] == 0:
                assert both["loop"]["accepted"] == pytest.approx(both["replay"]["accepted"])
                assert one.error == pytest.approx(0, abs=1e-9)
            else:
                assert 1 < one.replay <= gamma + 1 and abs(one.loop - one.replay) < 8 * one.error
    for rule, own in records["rules"][0]["result"]["rules"].items():
        assert own["beside"]["loop"]["rounds"] == pytest.approx(own["beside"]["replay"]["rounds"]), rule  # fmt: skip


def test_what_is_on_record_is_not_measured_again(call, records, capsys):
    assert call("rules", "--seeds", "2", "--json") == 0
    out, err = capsys.readouterr()
    assert "Measured 0 points, 2 were on record" in err
    rows = json.loads(out)
    assert [row["rule"] for row in rows[:4]] == list(rules_run.RULES)
    assert call("loop") == 0
    out = capsys.readouterr().out
    assert f"T = 0: equal in {GAMMAS} of {GAMMAS} points" in out and "T > 0:" in out


def test_the_lines_conclude(records):
    text = "\n".join(rules_table.lines(rules_table.rows(records["rules"])))
    for rule in ("block", "match", "coupled"):
        assert f"{rule:8} at T > 0: best speed-up " in text


def test_a_block_that_falls_below_token_is_a_fault(records):
    assert rules_table.faults(records["rules"]) == []
    wrong = copy.deepcopy(records["rules"])
    for record in wrong:
        accepted = np.array(record["result"]["rules"]["block"]["accepted"])
        record["result"]["rules"]["block"]["accepted"] = (0.99 * accepted).tolist()
    found = rules_table.faults(wrong)
    assert [("falls below" in line, "differ by" in line) for line in found] == [(True, False), (False, True), (True, False)]  # fmt: skip


def test_a_loop_that_parts_from_replay_is_a_fault(records):
    found = loop_table.points(records["loop"])
    assert loop_table.faults(found) == []
    assert "without a coin" in loop_table.faults([{**found[0], "loop": found[0]["loop"] + 0.01}])[0]
    warm = [one for one in found if one["temperature"] > 0]
    off = [{**one, "z": 2.0} for one in warm * 4]
    assert "all points together: z = +" in loop_table.faults(off)[0]
    beyond = [{**one, "z": (-1) ** i * 9.0} for i, one in enumerate(warm * 2)]
    assert "10 of 10 points beyond" in loop_table.faults(beyond)[0]


def test_a_difference_knows_its_error():
    """200 made-up sets of 8 texts: z has about the spread of Student's law, whose standard deviation is 1.18."""
    rng = np.random.default_rng(1)
    z = []
    for _ in range(200):
        rounds = rng.uniform(10, 14, size=8)
        coins = rng.normal(size=8)
        both = {
            "loop": {"rounds": rounds + 0.3 * coins, "accepted": 4 * rounds - 0.5 * coins},
            "replay": {"rounds": rounds, "accepted": 4 * rounds},
        }
        z.append(beside.tokens_per_pass(both).z)
    assert abs(np.mean(z)) < 0.35 and 0.9 < np.std(z) < 1.5


def test_prompts_are_spread_evenly():
    assert beside.spread(3, 9) == [0, 4, 8]
    assert beside.spread(12, 5) == [0, 1, 2, 3, 4]
    assert beside.spread(1, 5) == [0]


def test_students_bars():
    for texts, quantile in ((8, 2.365), (12, 2.201)):  # tables, 7 and 11 degrees of freedom
        assert loop_table.bars({"texts": texts}) == pytest.approx(quantile, abs=2e-3)


@pytest.mark.parametrize("name, draw", [("rules", rules), ("loop", loop)])
def test_figures_are_drawn_and_say_when_there_is_nothing(records, folder, name, draw):
    figure = draw(records[name])
    assert len(figure.axes) >= 2 and any(axes.lines for axes in figure.axes)
    assert (folder / name / f"{name}.png").stat().st_size > 10_000
    assert (folder / name / f"{name}.svg").exists()
    nothing = draw([])
    assert any(f"selfdraft run {name}" in text.get_text() for text in nothing.axes[0].texts)
