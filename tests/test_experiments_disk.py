"""A full disk, a read-only folder, two runs in one folder: one clear line or a good result, nothing lost, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from experiments.kill_and_resume import make_inputs, plate_command, plate_leaves, train_command
from experiments.paths import ROOT
from experiments.store import Store
from micro.training_state import read_state

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
slow = pytest.mark.slow


def may_mount() -> bool:
    """Whether a process may have mounts of its own, which vanish with it and need no root outside."""
    if not shutil.which("unshare"):
        return False
    return (
        subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).returncode == 0
    )


def python(*words: str | os.PathLike) -> list[str]:
    return [sys.executable, *map(str, words)]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("limit", "train"),
        *(pytest.param(kind, "train", marks=slow) for kind in ("full", "read-only")),
        *(pytest.param(kind, "plate", marks=slow) for kind in ("limit", "full", "read-only")),
    ],
)
def test_a_disk_that_takes_no_more(tmp_path, kind, what):
    """At eight moments of a run, and in an empty and in a finished folder: see tests/disk_trials.py."""
    if sys.platform != "linux":
        pytest.skip("limits and mounts by Linux's means")
    if kind != "limit" and not may_mount():
        pytest.skip("this machine lets nobody mount: no small disk, no read-only folder")
    before = ["unshare", "-rm"] if kind != "limit" else []
    done = subprocess.run(
        [*before, *python("-m", "tests.disk_trials", kind, what, tmp_path)],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    trials = [line for line in done.stdout.splitlines() if line.startswith("ok")]
    assert len(trials) == (2 if kind == "read-only" else 8)
    assert "cannot be written" in done.stdout  # the limit was met at least once


def begin(*words: str) -> subprocess.Popen:
    return subprocess.Popen(
        python("-m", "experiments", *words), cwd=ROOT, env=ENVIRONMENT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_second_training_in_a_folder_is_refused_and_the_first_goes_on(tmp_path):
    """By --out and by --run; even --fresh deletes nothing that is in use."""
    make_inputs(tmp_path)
    out = tmp_path / "out"
    words = train_command(tmp_path, out)
    words[words.index("--steps") + 1] = "1000000"
    first = begin(*words)
    try:
        assert "step 1/" in first.stderr.readline()
        elsewhere = [*train_command(tmp_path, tmp_path / "other"), "--run", str(out / "run")]
        for second in ([*words, "--fresh"], elsewhere):
            _, error = (process := begin(*second)).communicate(timeout=300)
            assert process.returncode == 2 and error.count("\n") == 1
            assert f"is in use by process {first.pid} on" in error
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGINT)
        _, error = first.communicate(timeout=300)
    assert first.returncode == 130 and "Traceback" not in error
    newest = max(read_state(path)["step"] for path in (out / "run").glob("checkpoint-*.pt"))
    rows = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows[1:]] == list(range(1, newest + 1))
    assert [row["event"] for row in rows].count("start") == 1
    assert not list(out.rglob(".lock"))


@slow
def test_two_plates_in_one_folder_give_what_one_gives(tmp_path):
    """Each has a file of records of its own: both end well, and every record and figure is that of a plate that was alone."""
    make_inputs(tmp_path)
    alone, both = tmp_path / "alone", tmp_path / "both"
    _, error = (process := begin(*plate_command(tmp_path, alone))).communicate(timeout=600)
    assert process.returncode == 0, error
    processes = [begin(*plate_command(tmp_path, both)) for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        assert "Traceback" not in error
    assert len(list(both.glob("*.jsonl"))) == 2 and not Store(both).notes
    assert plate_leaves(both) == plate_leaves(alone)


APPENDERS = """
import os, sys
from experiments.store import Store
children = []
for name in "abc":
    child = os.fork()
    if not child:
        store = Store(sys.argv[1])
        for i in range(100):
            store.append(name, {"i": i}, {"i": i}, "ok", {"text": name * 500})
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def test_three_processes_append_at_once_and_no_record_is_lost(tmp_path):
    done = subprocess.run(python("-c", APPENDERS, tmp_path), cwd=ROOT, env=ENVIRONMENT)
    assert done.returncode == 0
    store = Store(tmp_path)
    assert store.notes == [] and len(list(tmp_path.glob("*.jsonl"))) == 3
    for name in "abc":
        assert [r["result"]["text"] for r in store.of(name)] == [name * 500] * 100
        assert [r["point"]["i"] for r in store.of(name)] == list(range(100))
