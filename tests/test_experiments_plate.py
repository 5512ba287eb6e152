"""The plate from end to end on a tiny model: records, resume, the first screen, agreement with a reference."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from experiments import estimate
from experiments.__main__ import main
from experiments.drawing.palette import with_signs
from experiments.plate import run as plate_run
from experiments.plate.agreement import compare
from experiments.plate.curves import curve
from experiments.plate.table import first_screen
from experiments.prompts import load_prompts
from experiments.runner import measure
from experiments.setting import Setting
from experiments.store import Store
from micro.chance import SeededChance
from micro.checkpoint import save_model
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from specdec.decode import generate
from specdec.drafts.model import ModelDraft
from specdec.record import Totals

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model whose logits are far enough apart for its drafts to differ, and six prompts."""
    folder = tmp_path_factory.mktemp("plate")
    config = ModelConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=128)
    model = Transformer(config, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    save_model(folder / "model", model)
    rows = [{"id": "plate", "kind": "lesson", "text": "The attention"}]
    for i, kind in enumerate(("lesson", "copy", "free", "copy", "free")):
        rows.append({"id": f"p{i}", "kind": kind, "text": f"prompt {i} of kind {kind}"[: 12 + i]})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "prompts.jsonl").write_text(lines)
    return folder


def setting(folder, **more) -> Setting:
    prompts = load_prompts(folder / "prompts.jsonl")
    return Setting(folder / "model", prompts, window=16, seeds=(1, 2), **more)


def command(folder, out, *more) -> list[str]:
    base = ["--model", str(folder / "model"), "--prompts", str(folder / "prompts.jsonl")]
    return ["plate", *base, "--window", "16", "--seeds", "2", "--out", str(out), *more]


@pytest.fixture(scope="module")
def measured(folder, tmp_path_factory):
    """The command once, in a process of its own: (output lines, its folder)."""
    out = tmp_path_factory.mktemp("measured") / "out"
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *command(folder, out)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), out


def test_first_screen_is_short_and_answers_first(measured):
    lines, out = measured
    assert len(lines) <= 20
    assert lines[0].startswith("Does self-drafting pay?")
    assert any(word in lines[0] for word in ("Yes", "No", "Undecided"))
    assert lines[-1].endswith(
        f"The page: {out / 'index.html'}"
    )  # which `make plate` therefore ends with
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "The plate, to play with" in page and "selfdraft run rounds</code></p>" not in page
    assert len(list(out.glob("*.png"))) >= 4 and len(list(out.glob("*.svg"))) >= 4


def test_second_run_measures_nothing_and_a_changed_setting_does(folder, measured, capsys):
    _, out = measured
    before = {path: path.read_bytes() for path in out.glob("*.jsonl")}
    assert main(command(folder, out)) == 0
    assert "Measured 0 points, 113 were on record" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in out.glob("*.jsonl")}
    shorter = [v if v != "16" else "17" for v in command(folder, out)]
    assert main(shorter) == 0
    assert "Measured 15 points, 98 were on record" in capsys.readouterr().out


def test_grid_as_csv_and_json_agree(folder, measured, tmp_path, capsys):
    _, out = measured
    assert main(command(folder, out, "--json", "--csv", str(tmp_path / "grid.csv"))) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 180
    lines = (tmp_path / "grid.csv").read_text().splitlines()
    assert len(lines) == 181 and lines[0].split(",") == list(rows[0])
    identical = [
        row["identical"] for row in rows if row["part"] == "run" and row["temperature"] == 0
    ]
    assert identical == [True] * 30
    for row in rows:  # the estimate is tokens per pass over cost, at each c
        if row["part"] == "estimate":
            for name in ("nominal", "weights", "with_cache"):
                cost = 1 + row["gamma"] * row[f"c_{name}"]
                assert row[f"speed_up_{name}"] == pytest.approx(row["tokens_per_pass"] / cost)


def test_all_prints_grid_and_sensitivity(folder, measured, capsys):
    _, out = measured
    assert main(command(folder, out, "--all")) == 0
    text = capsys.readouterr().out
    assert text.count("rtn3") > 60 and "w(n) = 1 + s (n - 1)" in text


def test_killed_run_resumes_to_the_same_results(folder, measured, tmp_path):
    """SIGKILL in the middle, then a plain run: the same counts, and less to measure."""
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments", *command(folder, out)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    wanted = random.Random(5).randint(20, 70)
    while time.monotonic() < deadline:
        if sum(p.read_bytes().count(b"\n") for p in out.glob("*.jsonl")) >= wanted:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(Store(out).of(plate_run.NAME))
    assert kept >= wanted
    # in a process of its own, as both others were: another test's number of threads would change bits
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *command(folder, out)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"Measured {113 - kept} points, {kept} were on record" in done.stdout
    undisturbed = Store(measured[1])
    for name, count in ((plate_run.NAME, 90), (estimate.NAME, 9)):
        mine = {r["key"]: r["result"] for r in Store(out).of(name)}
        assert len(mine) == count
        for key, result in mine.items():
            assert undisturbed.done(name, key)["result"] == result


def test_failed_point_is_recorded_and_run_again(folder, tmp_path, monkeypatch):
    store, good = Store(tmp_path), plate_run.run
    monkeypatch.setattr(plate_run, "run", lambda point, setting: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measure(plate_run, setting(folder), store)
    assert not Store(tmp_path).of(plate_run.NAME)
    monkeypatch.setattr(plate_run, "run", good)
    _, ran = measure(plate_run, setting(folder), Store(tmp_path))
    assert ran == 90


def test_estimate_agrees_with_the_loop_on_the_same_texts(folder):
    """The loop's tokens per pass within .03 of replay's, same model, prompts and window.

    Replay leaves only the coins of the loop: 1200 texts of about 7 rounds, whose
    emitted counts deviate by about 1, have a standard error near .011.
    """
    now = Setting(
        folder / "model", load_prompts(folder / "prompts.jsonl"), window=16, seeds=tuple(range(60))
    )
    result = estimate.run({"draft": "rtn3", "temperature": 1.0}, now)
    record = {"point": {"draft": "rtn3", "temperature": 1.0}, "result": result}
    expected = curve(record, np.ones((1, 6))).tokens_per_pass[0, 2]
    copy, rounds = now.draft("rtn3"), Totals()
    for prompt in now.prompts:
        for seed in range(200):
            made = generate(
                now.model, ModelDraft(copy.module, copy.bytes_per_pass), prompt.tokens,
                max_new_tokens=16 + 4, gamma=3, sampling=Sampling(1.0),
                chance=SeededChance(seed, f"loop {prompt.id}"),
            )  # fmt: skip
            rounds += whole_rounds(made, window=16)
    assert rounds.tokens_per_pass == pytest.approx(expected, abs=0.03)


def whole_rounds(made, window: int) -> Totals:
    """Totals of the rounds that start inside the window: replay's convention."""
    start, inside = 0, []
    for one in made.rounds:
        if start < window:
            inside.append(one)
        start += len(one.emitted)
    return Totals.of(inside)


def test_added_prompts_change_no_count(folder):
    """One stream of chance per prompt, and batches padded to one size: company changes nothing."""
    point = {"draft": "rtn4", "temperature": 1.0}
    every, some = setting(folder), setting(folder)
    some.prompts = every.prompts[2:4]
    whole, part = estimate.run(point, every), estimate.run(point, some)
    for name in ("rounds", "accepted", "checked"):
        assert np.allclose(whole[name][2:4], part[name], rtol=1e-4)


def test_agreement_can_fail(measured):
    records = Store(measured[1]).of(estimate.NAME)[:9]
    agrees, sentence = compare(records, Store(measured[1]))
    assert agrees is True and "largest difference 0.0000" in sentence
    moved = json.loads(json.dumps(records))
    moved[0]["result"]["accepted"] = [
        [2 * x for x in row] for row in moved[0]["result"]["accepted"]
    ]
    agrees, sentence = compare(moved, Store(measured[1]))
    assert agrees is False and "DIFFER" in sentence
    moved[0]["inputs"]["weights"] = "another"
    assert compare(moved, Store(measured[1]))[0] is None


def test_wrong_input_is_one_line(folder, tmp_path, capsys):
    for more, word in (
        (["--window", "3"], "--window"),
        (["--seeds", "x"], "--seeds"),
        (["--prompts", str(tmp_path / "none.jsonl")], "none.jsonl"),
        (["--model", str(tmp_path / "none")], "none"),
    ):
        try:
            code = main(command(folder, tmp_path / "out", *more))
        except SystemExit as stop:
            code = stop.code
        error = capsys.readouterr().err
        assert code == 2 and word in error and error.count("\n") == 1
    (tmp_path / "file").write_text("not a folder")
    assert main(command(folder, tmp_path / "file")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_prompt_too_long_for_the_window_is_refused_before_measuring(folder, tmp_path, capsys):
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"id": "long", "kind": "copy", "text": "x" * 120}) + "\n")
    assert main(command(folder, tmp_path / "out", "--prompts", str(long))) == 2
    assert "'long'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_screen_of_records_needs_no_model(measured):
    store = Store(measured[1])
    lines = first_screen(store.of(estimate.NAME)[:9], store.of(plate_run.NAME))
    assert with_signs(lines, list(estimate.DRAFTS), coloured=False)[:10] == measured[0][:10]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_results_folder(folder, tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(command(folder, tmp_path / "out")) == 2
    assert capsys.readouterr().err.count("\n") == 1
