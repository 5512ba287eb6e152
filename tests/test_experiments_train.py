"""`selfdraft train`: whatever the text, the console, the disk or the moment of a kill."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from experiments.course.compressors import compressor_rates
from experiments.training.log import TrainingLog, loss_figure, save_figure
from experiments.training.outcome import printable
from experiments.training.train import add_arguments, plan
from micro.checkpoint import load_model
from micro.files import FileFault
from micro.score import score
from micro.sizes import SIZES
from micro.text import Document
from micro.training_state import NAMES, read_state

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    "--layers", "1", "--width", "16", "--heads", "2", "--inner", "16", "--context", "16", "--batch", "2",
    "--warmup", "2", "--dropout", "0.1", "--ema", "0.5", "--eval-every", "2", "--device", "cpu",
]  # fmt: skip
BYTES = bytes(range(256)) * 3


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.bin"
    path.write_bytes(BYTES)
    return path


def command(text, out, *more: str) -> list[str]:
    return ["train", "--text", str(text), "--out", str(out), *SMALL, *more]


def outside(arguments: list[str], **options) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", *arguments],
        cwd=ROOT, env=environment, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def strict(line: str) -> dict:
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


# what a run leaves


def test_a_run_leaves_a_model_a_record_a_log_and_a_curve(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(command(text, out, "--steps", "5", "--seed", "7")) == 0
    assert sorted(p.name for p in out.iterdir()) == [
        "config.json", "model.safetensors", "run", "training.json",
    ]  # fmt: skip
    record = strict((out / "training.json").read_text())
    held_out = Document("", BYTES[-(len(BYTES) // 10) :])
    found = score(load_model(out), [held_out])
    assert record["held-out"]["nats"] == pytest.approx(found.nats, rel=1e-6)  # the file, read anew
    assert record["held-out"]["bytes"] == len(held_out.data) - 1
    assert (record["seed"], record["steps"], record["selected_on"]) == (7, 5, "held-out")
    assert set(record["compressors"]) == {"zlib", "bz2", "lzma"}
    for line in (out / "run" / "log.jsonl").read_text().splitlines():
        assert strict(line)["event"] in ("start", "step", "end")
    assert len(TrainingLog(out / "run" / "log.jsonl").steps()) == 5
    figure = (out / "run" / "loss.png").read_bytes()
    assert figure.startswith(b"\x89PNG") and len(figure) > 1000
    for name in NAMES:
        if (out / "run" / name).exists():
            torch.load(out / "run" / name, weights_only=True)
    printed = capsys.readouterr()
    assert "bits per byte" in printed.out and "lzma" in printed.out
    assert "\r" not in printed.err + printed.out and "\x1b" not in printed.err + printed.out
    assert printed.err.splitlines()[-1].startswith("step 5/5 loss ")


def test_the_recorded_command_does_the_same_again(text, tmp_path):
    out = tmp_path / "out"
    assert main(command(text, out, "--steps", "4", "--optimizer", "muon")) == 0
    first = weights(out)
    words = strict((out / "training.json").read_text())["command"].split()
    assert words[:2] == ["selfdraft", "train"]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert main(words[1:]) == 0
    assert weights(tmp_path / "again") == first


@pytest.mark.parametrize("stops", [[1], [2, 3], [6]])
def test_resumed_equals_straight(text, tmp_path, stops):
    assert main(command(text, tmp_path / "straight", "--steps", "6")) == 0
    out = tmp_path / "parts"
    for number, stop in enumerate(stops):
        resume = ["--resume"] if number else []
        assert main(command(text, out, "--steps", "6", "--stop-at", str(stop), *resume)) == 0
    assert main(command(text, out, "--steps", "6", "--resume")) == 0
    assert weights(out) == weights(tmp_path / "straight")
    logs = [TrainingLog(tmp_path / d / "run" / "log.jsonl").steps() for d in ("straight", "parts")]
    a, b = ([{**row, "seconds": 0, "processor": 0} for row in rows] for rows in logs)
    assert a == b


def test_an_earlier_run_is_not_written_over_unasked(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(command(text, out, "--steps", "2")) == 0
    before = weights(out)
    assert main(command(text, out, "--steps", "3")) == 2
    assert "--resume goes on with it, --fresh" in capsys.readouterr().err
    assert weights(out) == before
    assert main(command(text, out, "--steps", "3", "--fresh")) == 0
    assert len(TrainingLog(out / "run" / "log.jsonl").steps()) == 3  # those of the new run alone


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (["--lr", "0.5"], "lr was 0.002 and is now 0.5"),
        (["--steps", "9"], "steps was 4 and is now 9"),
        (["--width", "32"], "hidden_size was 16 and is now 32"),
        (["--dropout", "0"], "dropout was 0.1 and is now 0.0"),
    ],
)
def test_a_resume_with_another_setting_is_refused_naming_it(text, tmp_path, capsys, more, field):
    asked = command(text, tmp_path / "out", "--steps", "4", "--lr", "0.002")
    assert main([*asked, "--stop-at", "2"]) == 0
    capsys.readouterr()
    assert main([*asked, *more, "--resume"]) == 2
    error = capsys.readouterr().err
    assert field in error and error.count("\n") == 1


def test_a_resume_with_another_text_is_refused(text, tmp_path, capsys):
    asked = command(text, tmp_path / "out", "--steps", "4")
    assert main([*asked, "--stop-at", "2"]) == 0
    text.write_bytes(BYTES + b"!")
    assert main([*asked, "--resume"]) == 2
    assert "text (sha256) was" in capsys.readouterr().err


def test_a_torn_checkpoint_is_named_and_the_one_before_resumes(text, tmp_path, capsys):
    asked = command(text, tmp_path / "out", "--steps", "6", "--save-every", "1")
    assert main(command(text, tmp_path / "straight", "--steps", "6")) == 0
    assert main([*asked, "--stop-at", "4"]) == 0
    run = tmp_path / "out" / "run"
    newest = max((run / name for name in NAMES), key=lambda path: read_state(path)["step"])
    newest.write_bytes(newest.read_bytes()[:1000])
    capsys.readouterr()
    assert main([*asked, "--resume"]) == 0
    assert f"{newest} (1,000 bytes) is no whole checkpoint" in capsys.readouterr().err
    assert weights(tmp_path / "out") == weights(tmp_path / "straight")


# texts


@pytest.mark.parametrize("length", [0, 1, 16, 17, 18, 25])
def test_a_short_text_trains_from_one_byte_more_than_a_row(tmp_path, capsys, length):
    """25: its last tenth, 2 bytes, is shorter than a row."""
    path = tmp_path / "short.txt"
    path.write_bytes(b"x" * length)
    out = tmp_path / "out"
    code = main(command(path, out, "--steps", "2"))
    error = capsys.readouterr().err
    if length >= 17:
        assert code == 0 and (out / "model.safetensors").exists()
        return
    assert code == 2 and error.count("\n") == 1
    assert str(path) in error and f"{length} bytes" in error and "at least 17 needed" in error
    assert not out.exists()


@pytest.mark.parametrize(
    "data",
    [
        "Don\x92t stop, it’s fine. ".encode("cp1252", "replace") * 20 + b"\x92",
        "wide text\n".encode("utf-16") * 20,
        bytes(range(255, -1, -1)) * 2,
        b"\xef\xbb\xbfa\r\nb\rc\x00\x0c\xe2\x80\xa8d\xc2\x85" * 20,
    ],
    ids=["cp1252", "utf-16", "binary", "line ends, BOM and NUL"],
)
def test_any_bytes_are_a_text(tmp_path, data):
    path = tmp_path / "odd.dat"
    path.write_bytes(data)
    assert main(command(path, tmp_path / "out", "--steps", "5")) == 0
    record = strict((tmp_path / "out" / "training.json").read_text())
    assert record["train_bytes"] + record["held-out"]["bytes"] + 1 == len(data)


def test_a_folder_of_many_files_holds_whole_files_out(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_bytes(b"%d" % number * 20)
    assert main(command(tmp_path, tmp_path / ".out", "--steps", "2")) == 0
    record = strict((tmp_path / ".out" / "training.json").read_text())
    assert record["held-out"]["bytes"] == 19  # file 9, whole, but for its first byte


# wrong input


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--lr", "-1"], "--lr"),
        (["--lr", "nan"], "--lr"),
        (["--steps", "0"], "--steps"),
        (["--beta2", "1"], "beta2 must be from 0 to below 1"),
        (["--min-lr", "1"], "min_lr must be from 0 to lr"),
        (["--block", "17"], "block 17 is beyond the model's context 16"),
        (["--heads", "3"], "hidden_size 16"),
        (["--kv-heads", "4"], "num_key_value_heads 4"),
        (["--optimizer", "sgd"], "--optimizer"),
        (["--text", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--resume"], "holds no checkpoint to resume"),
        (["--device", "mps"], "--device mps: torch finds no such device here"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(text, tmp_path, capsys, more, message):
    if more[-1] == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has the device")
    try:
        code = main(command(text, tmp_path / "out", "--steps", "2", *more))
    except SystemExit as left:
        code = left.code
    error = capsys.readouterr().err
    assert code == 2 and message in error and error.count("\n") == 1
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_a_folder_that_cannot_be_written_is_named_before_training(text, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(command(text, tmp_path / "file" / "out", "--steps", "2")) == 2
    error = capsys.readouterr().err
    assert "file/out cannot be written" in error and error.count("\n") == 1


def test_a_loss_that_is_not_finite_ends_the_run_and_the_log_stays_strict(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(command(text, out, "--steps", "9", "--lr", "1e30", "--warmup", "0")) == 2
    error = capsys.readouterr().err
    assert "training has diverged" in error
    rows = [strict(line) for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    assert rows[-1]["event"] == "end" and rows[-1]["loss"] is None and rows[-1]["reason"]


# the log and its figure


def test_a_number_that_is_not_finite_is_logged_as_null_with_a_reason(tmp_path):
    log = TrainingLog(tmp_path / "log.jsonl")
    log.write("step", step=1, loss=float("nan"), validation=float("inf"))
    (row,) = log.steps()
    assert row["loss"] is None and row["validation"] is None
    assert row["reason"] == "loss is nan, validation is inf"


def test_a_torn_line_is_closed_and_a_repeated_step_counts_once(tmp_path):
    path = tmp_path / "log.jsonl"
    log = TrainingLog(path)
    log.write("step", step=1, loss=2.0)
    with open(path, "ab") as file:
        file.write(b'{"event": "step", "st')
    log = TrainingLog(path)
    log.write("step", step=2, loss=1.5)
    log.write("step", step=2, loss=1.0)
    assert [(row["step"], row["loss"]) for row in log.steps()] == [(1, 2.0), (2, 1.0)]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"step": 1, "loss": None}],
        [{"step": 1, "loss": 2.0, "validation": 2.1}],
        [{"step": 1, "loss": 0.0}, {"step": 2, "loss": None, "validation": None}],
    ],
    ids=["none", "all NaN", "one point", "a gap"],
)
def test_a_curve_of_anything_is_a_figure(tmp_path, rows):
    save_figure(loss_figure(rows), tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 1000


def test_a_gap_in_the_curve_is_said():
    figure = loss_figure([{"step": 1, "loss": 2.0}, {"step": 2, "loss": None}])
    assert "1 steps without a finite loss" in figure.axes[0].get_title()


def test_compressors_gain_from_text_they_have_seen():
    page = b"".join(b"%d squared is %d. " % (n, n * n) for n in range(300))
    rates = compressor_rates(page, page)
    for name in ("bz2", "lzma"):
        assert rates[name]["after training text"] < rates[name]["alone"]
    assert rates["lzma"]["after training text"] < 0.2  # a copy costs a few bytes
    with pytest.raises(ValueError, match="no held-out bytes"):
        compressor_rates(page, b"")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8", None])
def test_any_bytes_can_be_shown_on_any_console(encoding):
    shown = printable(BYTES, encoding)
    shown.encode(encoding or "ascii")
    assert "ABC" in shown and "\x1b" not in shown and "\r" not in shown


# kills, interrupts, full disks, consoles: in processes of their own

KILLS = """
import os, random, signal, sys, time
import torch
from pathlib import Path
from experiments.__main__ import main
from micro.training_state import CheckpointFolder, NAMES, read_state
from micro.files import FileFault

torch.set_num_threads(1)
kills, run, arguments = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
chance = random.Random(int(sys.argv[1]))
last, torn = 0, 0
for number in range(kills + 1):
    begin = ["--resume"] if last else ["--fresh"]
    child = os.fork()
    if not child:
        os._exit(main([*arguments, *begin]))
    if number < kills:
        time.sleep(chance.uniform(0.05, 0.6))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if number == kills:
        sys.exit(os.waitstatus_to_exitcode(status))
    steps = [read_state(run / name)["step"] for name in NAMES if (run / name).exists()]  # never torn
    assert max(steps, default=0) >= last, (steps, last)
    last = max(steps, default=0)
    print(last, flush=True)
"""


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_the_last_complete_checkpoint(text, tmp_path, kills):
    steps = 40 * kills
    options = ["--steps", str(steps), "--save-every", "1", "--eval-every", "7"]
    assert main([*command(text, tmp_path / "straight", *options), "--threads", "1"]) == 0
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(kills), str(out / "run"), *command(text, out, *options)],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert weights(out) == weights(tmp_path / "straight")
    rows = TrainingLog(out / "run" / "log.jsonl").steps()
    assert [row["step"] for row in rows] == list(range(1, steps + 1))


def test_ctrl_c_saves_says_so_and_exits_130(text, tmp_path):
    out = tmp_path / "out"
    asked = command(text, out, "--steps", "100000")
    process = outside(asked, stdout=subprocess.PIPE)
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert b"step 1/100000" in first
    assert b"the run is saved in" in error and b"--resume" in error and b"Traceback" not in error
    assert output == b""
    (state,) = (read_state(path) for path in (out / "run").glob("checkpoint-*.pt"))
    rows = TrainingLog(out / "run" / "log.jsonl").steps()
    assert state["step"] == rows[-1]["step"] >= 1


def test_a_full_disk_is_one_line_and_the_old_checkpoint_stays(text, tmp_path):
    out = tmp_path / "out"
    asked = command(text, out, "--steps", "4")
    assert main([*asked, "--stop-at", "2"]) == 0
    (path,) = (out / "run").glob("checkpoint-*.pt")
    before = path.read_bytes()

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    process = outside([*asked, "--resume"], stdout=subprocess.PIPE, preexec_fn=little_room)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2, error
    (line,) = (row for row in error.decode().splitlines() if not row.startswith("step "))
    assert "checkpoint-b.pt cannot be written" in line
    assert sorted(p.name for p in (out / "run").iterdir()) == ["checkpoint-a.pt", "log.jsonl"]
    assert path.read_bytes() == before


def test_no_console_ends_a_run(text, tmp_path):
    """ASCII only; no display; a reader that went away: the model is there each time."""
    closed_read, closed = os.pipe()
    os.close(closed_read)
    plain = {"PYTHONIOENCODING": "ascii", "DISPLAY": "bad:9", "MPLBACKEND": "TkAgg", "TERM": "dumb"}
    runs = {
        "ascii": (subprocess.PIPE, plain, 0),
        "closed": (closed, {"COLUMNS": "1"}, 141),
    }
    for name, (stdout, environment, code) in runs.items():
        out = tmp_path / name
        process = outside(command(text, out, "--steps", "3"), stdout=stdout, env=environment)
        output, error = process.communicate(timeout=60)
        assert process.returncode == code, error
        assert (out / "training.json").exists() and (out / "run" / "loss.png").exists()
        assert b"Traceback" not in error and b"\r" not in error and b"\x1b" not in error
        if output is not None:
            assert b"sample: " in output and output.decode("ascii")
    os.close(closed)


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileFault, match="log.jsonl cannot be written"):
        TrainingLog(tmp_path / "file" / "log.jsonl")


def test_a_size_stands_for_its_numbers_and_an_option_beside_it_counts(tmp_path):
    parser = ArgumentParser()
    add_arguments(parser)
    for name, sizes in SIZES.items():
        asked = plan(parser.parse_args(["--size", name, "--out", str(tmp_path)]))
        assert asked.model_config == sizes and f"--width {sizes.hidden_size} " in asked.command
    assert plan(parser.parse_args([])).model_config == SIZES["micro"]
    wider = plan(parser.parse_args(["--size", "pico", "--width", "64", "--context", "128"]))
    assert wider.model_config.hidden_size == 64 and wider.model_config.num_hidden_layers == 1
    assert wider.config.block == wider.model_config.max_position_embeddings == 128
