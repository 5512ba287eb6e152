"""The checkpoint on disk: safe to read, whole or passed over, and refused by name where it does not belong."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

from micro.files import FileFault
from micro.training_state import NAMES, CheckpointFolder, TrainingState, read_state

RUN = {"text": "abc", "lr": float(np.float64(2e-3)), "steps": 10}


def state(step: int) -> TrainingState:
    return TrainingState(step, step, 1.5, {"weights/a": torch.full((3,), float(step))})


@pytest.fixture
def saved(tmp_path):
    """Steps 1, 2 and 3 saved: the files hold 3 and 2."""
    folder = CheckpointFolder(tmp_path, RUN)
    for step in (1, 2, 3):
        folder.save(state(step))
    return tmp_path


def test_the_newest_comes_back_exactly(saved):
    found, notes = CheckpointFolder(saved, RUN).load()
    assert (found.step, found.best_step, found.best_loss, notes) == (3, 3, 1.5, [])
    assert torch.equal(found.tensors["weights/a"], torch.full((3,), 3.0))
    assert sorted(p.name for p in saved.iterdir()) == sorted(NAMES)  # no temporary left


def test_both_files_load_in_safe_mode(saved):
    for name in NAMES:
        content = torch.load(saved / name, weights_only=True)
        assert content["run"] == RUN and type(content["step"]) is int


def test_every_save_leaves_the_one_before(saved):
    steps = {read_state(saved / name)["step"] for name in NAMES}
    assert steps == {2, 3}
    again = CheckpointFolder(saved, RUN)
    again.load()
    again.save(state(4))  # after a resume too, the older one is written over
    assert {read_state(saved / name)["step"] for name in NAMES} == {3, 4}


def test_numbers_of_numpy_and_paths_are_stored_as_plain_values(tmp_path):
    """Case C02: stored as they are, nothing could read them again in safe mode."""
    run = {"lr": np.float64(2e-3), "decay": np.float32(0.5), "steps": np.int64(10), "tied": True,
           "text": tmp_path / "text.txt", "autocast": None}  # fmt: skip
    folder = CheckpointFolder(tmp_path, run)
    folder.save(TrainingState(1, 1, np.float64(1.5), {"a": torch.ones(1)}))
    found, notes = CheckpointFolder(tmp_path, run).load()
    assert (found.best_loss, notes) == (1.5, []) and type(found.best_loss) is float
    stored = torch.load(tmp_path / NAMES[0], weights_only=True)["run"]
    assert stored == {"lr": 2e-3, "decay": 0.5, "steps": 10, "tied": True,
                      "text": str(tmp_path / "text.txt"), "autocast": None}  # fmt: skip
    assert [type(value) for value in stored.values()] == [float, float, int, bool, str, type(None)]
    with pytest.raises(ValueError, match="betas is a list, which a checkpoint cannot hold"):
        CheckpointFolder(tmp_path, {"betas": [0.9]})


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_a_torn_newest_is_named_and_the_one_before_is_used(saved, keep):
    newest = max((saved / n for n in NAMES), key=lambda p: read_state(p)["step"])
    blob = newest.read_bytes()
    newest.write_bytes(blob[: int(keep * len(blob)) if keep < 1 else keep])
    folder = CheckpointFolder(saved, RUN)
    found, (note,) = folder.load()
    assert found.step == 2
    assert newest.name in note and "step 2" in note
    folder.save(state(3))  # the torn one is what is replaced
    assert CheckpointFolder(saved, RUN).load()[0].step == 3


def test_none_whole_is_refused_naming_both(saved):
    for name in NAMES:
        (saved / name).write_bytes(b"PK")
    with pytest.raises(FileFault) as caught:
        CheckpointFolder(saved, RUN).load()
    assert all(name in str(caught.value) for name in NAMES)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FileFault, match="holds no checkpoint"):
        CheckpointFolder(tmp_path, RUN).load()


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def hostile(path):
    torch.save({"kind": "micro training state", "run": Hostile()}, path)


def plain_pickle(path):
    path.write_bytes(pickle.dumps(Hostile()))


def other_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("hello.txt", "hello")


def other_torch(path):
    torch.save({"model": torch.zeros(3)}, path)


def later_version(path):
    torch.save({"kind": "micro training state", "version": 99}, path)


def wrong_types(path):
    content = {"kind": "micro training state", "version": 1, "run": {}, "step": True}
    torch.save({**content, "best_step": 0, "best_loss": None, "tensors": {}}, path)


def tensors_that_are_none(path):
    content = {"kind": "micro training state", "version": 1, "run": {}, "step": 1}
    torch.save({**content, "best_step": 0, "best_loss": None, "tensors": {"a": [1]}}, path)


@pytest.mark.parametrize(
    "write",
    [hostile, plain_pickle, other_zip, other_torch, later_version, wrong_types, tensors_that_are_none],
)  # fmt: skip
def test_a_foreign_or_hostile_file_is_refused_by_name(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / NAMES[0]
    write(path)
    with pytest.raises(FileFault) as caught:
        CheckpointFolder(tmp_path, RUN).load()
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "xyz"}, "text was 'abc' and is now 'xyz'"),
        ({"lr": 1e-3}, "lr was 0.002 and is now 0.001"),
        ({"more": 1}, "more was None and is now 1"),
    ],
)
def test_another_run_is_refused_naming_the_field(saved, change, message):
    with pytest.raises(FileFault, match=message):
        CheckpointFolder(saved, {**RUN, **change}).load()
    fewer = {name: value for name, value in RUN.items() if name != "steps"}
    with pytest.raises(FileFault, match="steps was 10 and is now None"):
        CheckpointFolder(saved, fewer).load()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileFault, match="file/checkpoint-a.pt cannot be written"):
        CheckpointFolder(tmp_path / "file", RUN).save(state(1))
