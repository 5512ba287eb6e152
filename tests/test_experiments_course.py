"""What is measured of micro and its course: losses by place, how much text it needs, one training beside another."""

from __future__ import annotations

import argparse
import json
import shlex
from math import log
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.__main__ import main
from experiments.course import loss_profile, recipe
from experiments.course.loss_profile import PLACES, place_in_word
from experiments.course.recipe_rates import baseline, minutes_to
from experiments.paths import DATA, WEIGHTS
from experiments.plot import figures_of
from experiments.prompts import load_prompts
from experiments.setting import Setting
from experiments.store import Store
from experiments.training import train
from micro.checkpoint import load_model
from micro.score import score
from micro.text import read_course

SMALL = [
    "--layers", "1", "--width", "32", "--heads", "1", "--inner", "32", "--context", "256", "--batch", "2", "--block", "32",
    "--warmup", "2", "--lr", "0.01", "--steps", "4", "--eval-every", "2", "--device", "cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model of 4 steps on the course, with its training record and two kept steps."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    assert main(["train", "--out", str(folder), "--keep-every", "2", *SMALL]) == 0
    return folder


def few(count: int) -> list:
    return load_prompts(DATA / "prompts.jsonl")[:count]


FEW = few(3)


def test_every_byte_has_its_place_in_a_word():
    names = [PLACES[place] for place in place_in_word(b"A bc, 12 abcdefghijk")]
    assert names[:6] == ["1st letter", "after a word", "1st letter", "2nd", "after a word", "other sign"]  # fmt: skip
    assert names[6:9] == ["digit", "digit", "other sign"]
    assert names[9:] == [*PLACES[:8], "8th+", "8th+", "8th+"]
    assert [PLACES[place] for place in place_in_word("é".encode())] == ["other sign"] * 2


def test_the_profile_adds_up_to_the_held_out_loss(model):
    setting = Setting(model, few(1))
    result = loss_profile.run({"draft": "rtn4"}, setting)
    held_out = read_course(DATA).split("held-out")
    whole = score(setting.model, held_out)
    assert sum(result["bytes"]) == sum(result["place_bytes"]) == whole.bytes
    for sums in (result["nats"], result["place_nats"]):
        assert sum(sums) == pytest.approx(
            whole.total, rel=1e-5
        )  # float32 laws, one document a pass
    assert sum(result["overlap"]) == pytest.approx(sum(result["place_overlap"]))
    assert 0.5 * whole.bytes < sum(result["overlap"]) < whole.bytes
    assert result["plates"] == [d.name for d in held_out]
    assert sorted(set(result["kinds"])) == ["copy", "free", "lesson"]
    json.dumps(result, allow_nan=False)


def test_losses_prints_kinds_and_places_and_draws_two_figures(model, tmp_path, capsys):
    assert main(["run", "losses", "--model", str(model), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for name in ("lesson", "copy", "free", "all", *PLACES):
        assert f"\n{name} " in out
    assert all((tmp_path / f"{n}.png").stat().st_size > 1000 for n in ("loss-by-plate", "loss-by-place"))  # fmt: skip


def test_kept_steps_are_the_weights_that_were_evaluated(model):
    rows = [json.loads(line) for line in (model / "run" / "log.jsonl").read_text().splitlines()]
    told = {row["step"]: row["validation"] for row in rows if "validation" in row and "step" in row}
    validation = read_course(DATA).split("validation")
    for step, nats in told.items():
        kept = score(load_model(model / "run" / f"step-{step}"), validation).nats
        assert kept == pytest.approx(nats, abs=2e-3)  # rounded to 16 bits on the way
    assert sorted(told) == [2, 4] and told[2] != told[4]


def test_trainings_beside_each_other(model, tmp_path, capsys):
    other = tmp_path / "adamw"
    train = ["train", "--out", str(other), "--keep-every", "2", *SMALL, "--optimizer", "adamw"]
    assert main(train) == 0
    capsys.readouterr()
    out = tmp_path / "recipe"
    command = ["run", "recipe", str(model / "run"), str(other / "run"), "--out", str(out)]
    assert main(command) == 0 and main(command) == 0
    text = capsys.readouterr().out
    assert text.count("muon, 2 x 32 x 4, dropout") == 2 and "goal: " in text
    records = Store(out).of("recipe")
    assert len(records) == 2  # the second call found both on record
    for record, folder in zip(records, (model, other)):
        held_out = score(load_model(folder), read_course(DATA).split("held-out")).nats
        assert held_out in record["result"]["held_out"]  # the chosen weights are one of the kept
        assert record["result"]["steps"] == [2, 4]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "log.jsonl").unlink(), "no training's log"),
        (lambda run: (run / "log.jsonl").write_text('{"event": "start"}\n'), "finished training"),
        (lambda run: [p.rename(p.with_name("x" + p.name)) for p in run.glob("step-*")], "keep-every"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_compared_is_named(model, tmp_path, capsys, spoil, message):
    run = tmp_path / "run"
    run.mkdir()
    for path in (model / "run").rglob("*"):
        target = run / path.relative_to(model / "run")
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    spoil(run)
    assert main(["run", "recipe", str(run), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def made(optimizer: str, minutes: list[float], bits: list[float]) -> dict:
    held_out = [b * log(2) for b in bits]
    result = {"steps": [1, 2], "minutes": minutes, "held_out": held_out, "validation": held_out}
    return {"point": {"run": optimizer, "optimizer": optimizer}, "result": result}


def test_the_goal_is_the_better_baselines_best():
    records = [made("muon", [1.0, 2.0], [2.1, 1.9]), made("adamw", [3.0, 4.0], [2.0, 2.2]),
               made("adamw", [1.0, 9.0], [2.5, 2.3])]  # fmt: skip
    best = baseline(records)
    assert best is records[1]
    goal = min(best["result"]["held_out"])
    assert minutes_to(records[0], goal) == 2.0 and minutes_to(best, goal) == 3.0
    assert minutes_to(records[2], goal) is None
    assert recipe.table(records)[-1] == "goal: 2.000, the best of adamw, after 3.0 minutes"


def test_parts_of_the_text_are_trained_by_the_shipped_command_and_measured(
    model, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("experiments.prompts.load_prompts", lambda path: FEW)
    out = tmp_path / "amount"
    assert main(["run", "amount", "--model", str(model), "--out", str(out)]) == 0
    text = capsys.readouterr()
    assert text.err.count("training on") == 2
    records = Store(out).of("text-amount")
    sizes = {record["point"]["share"]: record["result"]["train_bytes"] for record in records}
    assert 0.2 < sizes[0.25] / sizes[1.0] < 0.3 and 0.45 < sizes[0.5] / sizes[1.0] < 0.55
    for share in (0.25, 0.5):
        told = json.loads((out / f"share-{share:g}" / "training.json").read_text())
        assert told["train_bytes"] == sizes[share] and told["steps"] == 4 * share
    assert main(["run", "amount", "--model", str(model), "--out", str(out)]) == 0
    again = capsys.readouterr()
    assert "training on" not in again.err and again.out.splitlines()[-8:-2] == text.out.splitlines()[-8:-2]  # fmt: skip


def test_a_model_without_a_training_record_cannot_be_followed(model, tmp_path, capsys):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((model / name).read_bytes())
    (bare / "training.json").write_text("{}")
    code = main(["run", "amount", "--model", str(bare), "--out", str(tmp_path / "out")])
    assert code == 2 and "training.json" in capsys.readouterr().err


FIGURES = figures_of("loss-profile") | figures_of("text-amount") | figures_of("recipe")


@pytest.mark.parametrize("name", FIGURES)
def test_no_records_make_a_figure_that_says_so(name):
    figure = FIGURES[name]([])
    assert isinstance(figure, Figure)
    assert any("No records" in text.get_text() for axes in figure.axes for text in axes.texts)


def test_the_defaults_are_the_recipe_of_the_micro_that_ships():
    """But for what each run chooses: the seed, and bfloat16 products where the processor has them."""
    words = shlex.split(json.loads((WEIGHTS / "training.json").read_text())["command"])[2:]
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    asked = [parser.parse_args(given) for given in (words, [])]
    for args in asked:
        train.fill_shape(args)
    shipped, default = map(vars, asked)
    told = {name for name in shipped if shipped[name] != default[name]}
    assert told <= {"seed", "autocast", "out", "block", "kv_heads"}
    assert (shipped["block"], shipped["kv_heads"]) == (shipped["context"], shipped["heads"])
