"""`selfdraft tune`: a draft at the format's own bytes, resumable to the bit, that other commands draft with; an untouched target."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
import torch

from experiments.__main__ import main
from experiments.draft_formats import read_format
from experiments.ladder.tuned_run import TunedDrafts
from experiments.prompts import load_prompts
from experiments.setting import Setting
from experiments.store import Store
from experiments.training.tune_text import openings
from micro.checkpoint import load_model, save_model
from micro.tensors import load_tensors
from micro.text import as_tokens
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.drafts import make_draft, tuned
from specdec.drafts.shipped import fingerprint
from specdec.drafts.stored import load_quantized
from tests.byte_model import byte_model

SMALL = ["--steps", "4", "--batch", "4", "--block", "24", "--opening", "8", "--own-texts", "5", "--validation-texts", "3",
         "--eval-every", "2", "--warmup", "1", "--lr", "0.05"]  # fmt: skip
TEXT = b"one and two are three, two and two are four; " * 12


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A small target and a text to tune it on."""
    folder = tmp_path_factory.mktemp("place")
    save_model(folder / "model", byte_model())
    (folder / "text.txt").write_bytes(TEXT)
    return folder


def command(place, out, *more: str) -> list[str]:
    return [
        "tune",
        "--model",
        str(place / "model"),
        "--text",
        str(place / "text.txt"),
        "--out",
        str(out),
        *SMALL,
        *more,
    ]


@pytest.fixture(scope="module")
def straight(place):
    """An undisturbed run's folder."""
    assert main(command(place, place / "straight")) == 0
    return place / "straight"


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tensors(folder) -> dict[str, bytes]:
    """Of a draft: packed codes, scales, norms. Not the file's bytes: safetensors writes its metadata in any order."""
    found = load_tensors(folder / "model.safetensors")
    return {name: t.view(torch.uint8).numpy().tobytes() for name, t in found.items()}


def test_a_run_leaves_a_draft_a_record_a_curve_and_its_texts(place, straight, capsys):
    target = load_model(place / "model")
    before = digest(place / "model" / "model.safetensors")
    assert main(command(place, straight, "--fresh")) == 0
    printed = capsys.readouterr()
    assert digest(place / "model" / "model.safetensors") == before
    record = json.loads((straight / "training.json").read_text())
    draft, untuned = load_quantized(straight, target), quantize_model(target, parse_format("rtn3"))
    assert draft.bytes_per_pass == untuned.bytes_per_pass == record["bytes_per_pass"]
    assert record["stored_bytes"] == untuned.stored_bytes and record["steps"] == 4
    assert record["target"] == fingerprint(target) and record["selected_on"] == "held-out"
    assert record["overlap"]["tuned"] > record["overlap"]["untuned"]
    assert (straight / "run" / "overlap.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((straight / "run").glob("own-text-*.safetensors"))) == 1
    assert "ok: the target is as it was" in printed.out and "FAILED" not in printed.out
    assert printed.err.splitlines()[-1].startswith("step 4/4 loss ") and "writes" not in printed.err
    for path in (straight / "run").glob("*.pt"):
        torch.load(path, weights_only=True)


def test_a_format_for_each_matrix_is_tuned_from_its_file(place):
    """At the mix's own bytes; a draft of it is made from the folder."""
    target = load_model(place / "model")
    names = [name for name, parameter in target.named_parameters() if parameter.dim() == 2]
    formats = {name: ("rtn2", "mse3-fp8")[i % 2] for i, name in enumerate(names)}
    (place / "mix.json").write_text(json.dumps(formats))
    out = place / "mixed"
    assert main(command(place, out, "--format", f"mix:{place / 'mix.json'}")) == 0
    untuned = quantize_model(target, read_format(f"mix:{place / 'mix.json'}"))
    assert make_draft(target, str(out)).bytes_per_pass == untuned.bytes_per_pass
    assert json.loads((out / "config.json").read_text())["quantization"]["matrices"] == formats


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_resumed_equals_straight(place, straight, tmp_path, stop, capsys):
    """1 between evaluations, 2 behind one, 4 at the last step; the texts are written once."""
    out = tmp_path / "out"
    assert main(command(place, out, "--stop-at", str(stop))) == 0
    assert main(command(place, out, "--resume")) == 0
    assert capsys.readouterr().err.count("the target writes 8 texts") == 1
    assert tensors(out) == tensors(straight)


def test_an_earlier_run_is_neither_written_over_nor_resumed_as_another(place, straight, capsys):
    before = tensors(straight)
    for more, what in (
        ([], "--resume goes on with it"),
        (["--resume", "--shrink", "0.8"], "shrink was 0.9 and is now 0.8"),
        (["--resume", "--loss", "kl"], "schedule was 'kl:1,tv:2' and is now 'kl:1'"),
    ):
        assert main(command(place, straight, *more)) == 2
        assert what in capsys.readouterr().err
    assert tensors(straight) == before


@pytest.mark.parametrize(
    "more, what",
    [(["--loss", "kl,xy"], "'xy' is unknown"), (["--format", "rtn3+gptq"], "without +act and +gptq"), (["--opening", "24"], "--opening 24 must be below --block 24"),
     (["--block", "97"], "the model's context, 96"), (["--parts", "9"], "parts must be 1 to batch"), (["--format", "rtn9"], "unknown format 'rtn9'")],
    ids=str,
)  # fmt: skip
def test_wrong_input_is_told_in_one_line(place, tmp_path, more, what, capsys):
    assert main(command(place, tmp_path / "out", *more)) == 2
    errors = capsys.readouterr().err.splitlines()
    assert what in errors[-1] and errors[-1].startswith("selfdraft tune: ")
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_model_s_own_folder_is_no_place_for_its_draft(place, capsys):
    assert main(command(place, place / "model")) == 2
    assert "name another" in capsys.readouterr().err


def test_openings_reach_from_the_first_byte_to_the_last():
    tokens = as_tokens(bytes(range(100)))
    assert [o[0] for o in openings(tokens, 4, 10)] == [0, 30, 60, 90]
    with pytest.raises(ValueError, match="100 bytes of text, 101 needed"):
        openings(tokens, 1, 101)


# --- the drafts that ship


def test_a_shipped_draft_is_named_by_its_format(place, straight, tmp_path, monkeypatch):
    target = load_model(place / "model")
    monkeypatch.setattr(tuned, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"no tuned draft 'rtn3\+tuned' ships \(none does\)"):
        make_draft(target, "rtn3+tuned")
    shutil.copytree(straight, tmp_path / "rtn3")
    draft = make_draft(target, "rtn3+tuned")
    assert torch.equal(
        draft.model.lm_head.weight, load_quantized(straight, target).model.lm_head.weight
    )
    with pytest.raises(ValueError, match=r"\(rtn3\+tuned does\)"):
        make_draft(target, "rtn2+tuned")
    other = byte_model(seed=4)
    with pytest.raises(ValueError, match="was trained for the target"):
        make_draft(other, "rtn3+tuned")


def test_shipped_drafts_are_the_shipped_micro_s():
    """Where one ships, it loads beside the target that ships; what is tuned anew for new weights replaces it."""
    from experiments.paths import WEIGHTS

    target = load_model(WEIGHTS)
    for spec in tuned.shipped():
        untuned = quantize_model(target, parse_format(spec.removesuffix(tuned.ENDING)))
        assert make_draft(target, spec).bytes_per_pass == untuned.bytes_per_pass


# --- measured beside the untuned


@pytest.fixture(scope="module")
def measured(place):
    """`run tuned` on one format and seed, with prompts of two plates of each kind."""
    rows = [{"id": f"{plate}-{n}", "kind": kind, "text": f"{plate} {n}."} for kind in ("lesson", "free") for plate in ("a" + kind[0], "b" + kind[0]) for n in (1, 2)]  # fmt: skip
    (place / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tuning = " ".join(["--text", str(place / "text.txt"), *SMALL])
    return ["run", "tuned", "--model", str(place / "model"), "--prompts", str(place / "prompts.jsonl"), "--out", str(place / "tuned"),
             "--formats", "rtn3", "--seeds", "2", "--tuning", tuning]  # fmt: skip


def test_tuned_drafts_are_measured_beside_untuned_ones_at_equal_bytes(place, measured, capsys):
    assert main(measured) == 0
    first = capsys.readouterr().out
    records = Store(place / "tuned").of("tuned")
    untuned, tuned_one = (r["result"] for r in records)
    assert (
        untuned["c"] == tuned_one["c"]
        and untuned["bits_per_weight"] == tuned_one["bits_per_weight"]
    )
    assert untuned["temperatures"] != tuned_one["temperatures"]
    assert untuned["kl"][1] > tuned_one["kl"][1]  # 4 steps are few, and enough to be nearer
    assert [step for step, _ in tuned_one["curve"]] == [2, 4]
    assert "rtn3 tuned, 1 seeds: alpha" in first and "aimed at 0.95" in first
    assert (place / "tuned" / "tuned.svg").exists()
    # nothing is tuned or measured again; a draft of other content is another record
    assert main(measured) == 0
    again = capsys.readouterr()
    assert first.endswith(again.out) and again.out and "tuning" not in again.err
    experiment = TunedDrafts(place / "tuned", ("rtn3",), (2,))
    setting = Setting(place / "model", load_prompts(place / "prompts.jsonl"))
    before = [experiment.identity(point, setting)["content"] for point in experiment.POINTS]
    assert before[0] is None and len(before[1]) == 16


@pytest.mark.parametrize("more, what", [(["--seeds", "0"], "--seeds '0'"), (["--formats", ","], "--formats names none"), (["--formats", "rtn9"], "unknown format"), (["--tuning", "'"], "--tuning")], ids=str)  # fmt: skip
def test_what_cannot_be_tuned_is_told_before_time_is_spent(measured, more, what, capsys):
    assert main([*measured, *more]) == 2
    assert what in capsys.readouterr().err
