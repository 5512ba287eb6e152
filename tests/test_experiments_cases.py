"""Faults that people met in other software doing this job, through the program as it is: consoles, pipes, places that hold no
file, temperatures near 0. What a single function can show is tested beside that function."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys

import pytest
import torch

from experiments.__main__ import main
from experiments.kill_and_resume import make_inputs, plate_command, train_command
from experiments.paths import ROOT
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.decode import generate
from specdec.drafts.model import ModelDraft
from specdec.table import TableModel, constant_model


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


# S04: a temperature near 0 gives NaN, or one token forever


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("temperature", [0, 1e-12, 1e-5, 1e-3])
def test_a_temperature_near_zero_is_greedy_with_a_draft_and_without(temperature, dtype):
    """Logits 28, 29, 11: token 1, whatever the draft says; another draft is refused each time and costs nothing but rounds."""
    target = TableModel(3, lambda prefix: [28, 29, 11], dtype=dtype)
    sampling = Sampling(temperature)
    assert plain(target, [0], 8, sampling, SeededChance(1)) == [1] * 8
    for law, rounds in (((0.2, 0.7, 0.1), 2), ((0.9, 0.05, 0.05), 8)):
        draft = ModelDraft(constant_model(law), 1)
        done = generate(target, draft, [0], max_new_tokens=8, gamma=3, sampling=sampling,
                        chance=SeededChance(1))  # fmt: skip
        assert list(done.tokens) == [1] * 8
        assert done.totals.rounds == rounds


# X04: a place that holds no file


@pytest.mark.parametrize(
    ("place", "said"),
    [("folder", "is a directory"), ("folder/none", "no such file"), ("/proc/self/mem", "cannot be read")],
)  # fmt: skip
def test_a_folder_a_missing_and_an_unreadable_file_are_one_line_each(
    inputs, tmp_path, capsys, place, said
):
    """The memory of a process opens and cannot be read from its start: not even by root, who may read everything else."""
    if place.startswith("/proc") and not os.path.exists(place):
        pytest.skip("no such file here")
    (tmp_path / "folder").mkdir()
    path, out = str(tmp_path / place), str(tmp_path / "out")
    model = ["--model", str(inputs / "model")]
    for words in (
        ["generate", "--prompt-file", path, *model],
        ["trace", "--prompt-file", path, *model],
        ["plate", "--prompts", path, "--out", out, *model],
        ["identity", "--prompt-set", path, *model],
        ["train", "--text", path, "--out", out],
    ):
        assert main(words) == 2
        output, error = capsys.readouterr()
        empty = (
            words[0] == "train" and place == "folder"
        )  # a folder of texts is right, an empty one is not
        assert ("is a folder without files" if empty else said) in error
        assert output == "" and error.count("\n") == 1 and path in error
    assert not os.path.exists(out)


# T05, R06, R07: consoles, displays, pipes


def outside(words: list[str], env: dict, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", *words], cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env}, **options,
    )  # fmt: skip


POOR = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "no display": {"DISPLAY": "bad:9", "MPLBACKEND": "TkAgg", "HOME": "/proc", "TERM": "dumb", "COLUMNS": "1"},
}  # fmt: skip


@pytest.mark.parametrize(
    "command", [train_command, pytest.param(plate_command, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("console", POOR)
def test_into_files_on_a_poor_console_and_without_a_terminal_to_return_to(
    inputs, tmp_path, command, console
):
    """`nohup selfdraft ... >out 2>err`: it ends, with figures, and the files hold whole lines without bars, colours or bytes that
    the console lacks."""
    out, error = tmp_path / "stdout", tmp_path / "stderr"
    with open(out, "wb") as stdout, open(error, "wb") as stderr:
        process = outside(
            command(inputs, tmp_path / "run"), POOR[console], stdout=stdout, stderr=stderr,
            stdin=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )  # fmt: skip
        if console == "no display":
            process.send_signal(signal.SIGHUP)  # the terminal is closed
        assert process.wait(timeout=600) == 0, error.read_text()
    for path in (out, error):
        data = path.read_bytes()
        assert b"\r" not in data and b"\x1b" not in data and b"Traceback" not in data
        assert data == b"" or data.endswith(b"\n")
        data.decode("cp1252" if console == "cp1252" else "utf-8")
    assert out.stat().st_size > 0
    figures = list((tmp_path / "run").rglob("*.png"))
    assert figures and all(path.stat().st_size > 1000 for path in figures)


class Notebook(io.TextIOBase):
    """A notebook kernel's stream: it takes text, and has neither a file behind it nor a terminal."""

    encoding = "UTF-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def test_in_a_notebook_without_widgets_every_command_ends(inputs, tmp_path):
    out = str(tmp_path / "run")
    model = ["--model", str(inputs / "model")]
    for words in (
        train_command(inputs, tmp_path / "run"),
        # an untrained model may write any byte: as JSON what it writes is spelled out
        ["generate", "a", "--max-new-tokens", "8", "--json", *model],
        ["trace", "--prompt", "a", "--max-new-tokens", "8", *model],
        ["quantize", "--out", str(tmp_path / "draft"), "--mean-context", "8", str(inputs / "model")],
        ["identity", "--prompt-set", str(inputs / "prompts.jsonl"), "--prompts", "1", "--tokens", "2",
         "--drafts", "rtn3", "--gammas", "1", "--workers", "1", *model],
        ["list"],
    ):  # fmt: skip
        stdout, stderr = Notebook(), Notebook()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            assert main(words) == 0, stderr.text
        assert stdout.text and "\r" not in stdout.text + stderr.text
        assert "\x1b" not in stdout.text + stderr.text
    assert os.path.exists(f"{out}/training.json")
