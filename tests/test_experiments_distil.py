"""`selfdraft distil`: siblings and exits that other commands draft with, resumable to the bit, an untouched target."""

from __future__ import annotations

import json

import pytest

from experiments.__main__ import main
from micro.checkpoint import load_model, save_model
from micro.tensors import load_tensors
from specdec.drafts import make_draft
from specdec.drafts.shipped import fingerprint
from tests.byte_model import byte_model

SMALL = ["--steps", "4", "--batch", "4", "--block", "24", "--opening", "8", "--own-texts", "5", "--validation-texts", "3",
         "--eval-every", "2", "--warmup", "1", "--lr", "0.003"]  # fmt: skip
STUDENTS = {"pico": ["--size", "pico"], "exit": ["--exit", "1"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A small target and a text to learn on."""
    folder = tmp_path_factory.mktemp("place")
    save_model(folder / "model", byte_model())
    (folder / "text.txt").write_bytes(b"one and two are three, two and two are four; " * 12)
    return folder


def command(place, out, *more: str) -> list[str]:
    given = ["--model", str(place / "model"), "--text", str(place / "text.txt")]
    return ["distil", *given, "--out", str(out), *SMALL, *more]


@pytest.fixture(scope="module")
def straight(place):
    """Undisturbed runs' folders."""
    for name, student in STUDENTS.items():
        assert main(command(place, place / name, *student)) == 0
    return place


def tensors(folder) -> dict[str, bytes]:
    found = load_tensors(folder / "model.safetensors")
    return {name: t.float().numpy().tobytes() for name, t in found.items()}


@pytest.mark.parametrize("name", STUDENTS)
def test_a_run_leaves_a_draft_a_record_and_a_curve(straight, name, capsys):
    target, out = load_model(straight / "model"), straight / name
    before = fingerprint(target)
    assert main(command(straight, out, *STUDENTS[name], "--fresh")) == 0
    printed = capsys.readouterr()
    assert fingerprint(load_model(straight / "model")) == before
    record = json.loads((out / "training.json").read_text())
    draft = make_draft(target, f"{name}:{out}")
    assert draft.bytes_per_pass == record["bytes_per_pass"]
    assert draft.extra_parameters == record["parameters"] == {"pico": 18_528, "exit": 32}[name]
    assert record["target"] == before and record["steps"] == 4 and record["threads"] >= 1
    assert record["overlap"]["after"] > record["overlap"]["before"]
    assert [step for step, _ in record["curve"]] == [2, 4] and record["processor_minutes"] >= 0
    # the curve's best is of the weights as they were trained, the record's of those in bfloat16: 8 bits of each
    best = max(value for _, value in record["curve"])
    assert record["overlap"]["after"] == pytest.approx(best, abs=0.01)
    assert (out / "run" / "overlap.png").read_bytes().startswith(b"\x89PNG")
    assert "ok: the target is as it was" in printed.out and "FAILED" not in printed.out
    assert "held-out: " in printed.out


@pytest.mark.parametrize("name", STUDENTS)
@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_equals_straight(straight, tmp_path, name, stop):
    """1 between evaluations, 4 at the last step."""
    out = tmp_path / "out"
    assert main(command(straight, out, *STUDENTS[name], "--stop-at", str(stop))) == 0
    assert main(command(straight, out, *STUDENTS[name], "--resume")) == 0
    assert tensors(out) == tensors(straight / name)


def test_rows_of_training_text_are_learned_from_too(straight, tmp_path):
    """Then the target's laws are not known beforehand, and the student is another."""
    assert main(command(straight, tmp_path, "--size", "pico", "--own-share", "0.5")) == 0
    assert tensors(tmp_path) != tensors(straight / "pico")


@pytest.mark.parametrize(
    "more, what",
    [(["--exit", "2"], "--exit 2: the model has exits behind 1 to 1 of its 2 layers"), (["--size", "pico", "--exit", "1"], "not allowed with"),
     ([], "one of the arguments --size --exit is required"), (["--size", "micro"], "invalid choice"),
     (["--size", "pico", "--block", "97"], "the model's context, 96"), (["--size", "pico", "--loss", "kl,xy"], "'xy' is unknown")],
    ids=str,
)  # fmt: skip
def test_wrong_input_is_told_in_one_line(place, tmp_path, more, what, capsys):
    try:
        code = main(command(place, tmp_path / "out", *more))
    except SystemExit as end:  # argparse's own refusal
        code = end.code
    errors = capsys.readouterr().err.splitlines()
    assert code == 2 and what in errors[-1] and errors[-1].startswith("selfdraft distil: ")
    assert not (tmp_path / "out").exists()


def test_the_model_s_own_folder_is_no_place_for_a_draft(place, capsys):
    assert main(command(place, place / "model", "--size", "pico")) == 2
    assert "name another" in capsys.readouterr().err
