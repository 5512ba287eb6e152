"""Cut off at every byte: records of the reference, a training's log, a checkpoint. What was whole is kept, the rest is told."""

from __future__ import annotations

import json
import os

import pytest
import torch

from experiments import store as store_module
from experiments.paths import REFERENCE
from experiments.store import Store
from experiments.training.log import TrainingLog
from micro.files import FileFault
from micro.training_state import NAMES, CheckpointFolder, TrainingState


@pytest.fixture(scope="module")
def real_lines() -> list[bytes]:
    """The three shortest records of the reference, as they stand in its files."""
    lines = [line for path in REFERENCE.glob("*.jsonl") for line in path.read_bytes().split(b"\n")]
    return sorted((line for line in lines if line), key=len)[:3]


def test_records_cut_at_every_byte(tmp_path, real_lines):
    whole = b"".join(line + b"\n" for line in real_lines)
    keys = [json.loads(line)["key"] for line in real_lines]
    path = tmp_path / "records-0.jsonl"
    path.write_bytes(whole)
    for cut in range(len(whole), -1, -1):
        os.truncate(path, cut)
        store = Store(tmp_path)
        assert [key for _, key in store.records] == keys[: whole[:cut].count(b"\n")]
        torn = cut > 0 and whole[cut - 1 : cut] != b"\n"
        assert len(store.notes) == torn
        assert not torn or "is torn off; a run measures it again" in store.notes[0]


def test_a_process_goes_on_behind_every_cut(tmp_path, real_lines, monkeypatch):
    """A disk that was full for a moment (every fifth byte): what is appended to the same file is never glued to what was torn."""
    monkeypatch.setattr(store_module, "environment", lambda dtype="float32": {})
    monkeypatch.setattr(
        os, "fsync", lambda file: None
    )  # waiting for the disk some 300 times is not the point
    first, last = real_lines[0] + b"\n", real_lines[1] + b"\n"
    path = tmp_path / "records-0.jsonl"
    for cut in [*range(0, len(last) - 1, 5), len(last) - 2, len(last) - 1]:
        path.write_bytes(first + last[:cut])
        store = Store(tmp_path)
        store._file = path
        store.append("mine", {"cut": cut}, {}, "ok", {"cut": cut})
        again = Store(tmp_path)
        lacks_its_newline = cut == len(last) - 1  # which makes it whole again
        assert len(again.records) == 2 + lacks_its_newline
        assert again.of("mine")[0]["result"] == {"cut": cut}
        assert len(again.notes) == (0 < cut < len(last) - 1)


def test_a_training_log_cut_at_every_byte(tmp_path):
    path = tmp_path / "log.jsonl"
    log = TrainingLog(path)
    log.write("start", seed=1)
    for step in (1, 2, 3):
        log.write("step", step=step, loss=2.0 / step, seconds=0.1)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(lines[0]), len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n") - 1  # steps whose line is whole
        resumed = TrainingLog(path)
        for step in range(kept + 1, 4):  # from the checkpoint on, as a resumed run does
            resumed.write("step", step=step, loss=2.0 / step, seconds=0.1)
        assert [(row["step"], row["loss"]) for row in resumed.steps()] == [
            (1, 2),
            (2, 1),
            (3, 2 / 3),
        ]


def test_a_checkpoint_cut_at_every_byte(tmp_path):
    """The newest is cut; the one before is found at every length, and the fault is told in a line."""
    folder = CheckpointFolder(tmp_path, {"seed": 1})
    for step in (1, 2):
        folder.save(TrainingState(step, step, None, {"w": torch.full((2,), float(step))}))
    newest = tmp_path / NAMES[1]
    whole = newest.read_bytes()
    for cut in range(len(whole) - 1, -1, -1):
        os.truncate(newest, cut)
        state, (note,) = CheckpointFolder(tmp_path, {"seed": 1}).load()
        assert state.step == 1 and f"{newest} ({cut:,} bytes)" in note and "\n" not in note
    (tmp_path / NAMES[0]).unlink()
    with pytest.raises(FileFault, match="0 bytes"):
        CheckpointFolder(tmp_path, {"seed": 1}).load()
