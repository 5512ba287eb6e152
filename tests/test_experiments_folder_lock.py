"""A folder has one holder: named to whoever comes second, given back at the end, after an error and after a kill."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from experiments.folder_lock import NAME, held
from experiments.paths import ROOT
from micro.files import FileFault

HOLDER = """
import sys
from pathlib import Path
from experiments.folder_lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(folder):
    """Holds the folder from its first line on; it gives it back when its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.communicate()


def refusal(folder) -> str:
    with pytest.raises(FileFault) as fault, held(folder):
        pass
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_the_second_is_told_who_the_first_is(tmp_path):
    with another_process(tmp_path) as first:
        message = refusal(tmp_path)
        assert f"{tmp_path} is in use by process {first.pid} on {platform.node()}" in message
    with held(tmp_path):  # its end gives the folder back
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_holds_nothing(tmp_path):
    with another_process(tmp_path) as first:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert (tmp_path / NAME).exists()  # what it left says nothing any more
        with held(tmp_path):
            assert str(os.getpid()) in (tmp_path / NAME).read_text()
    assert list(tmp_path.iterdir()) == []


def test_an_error_inside_gives_the_folder_back(tmp_path):
    with pytest.raises(RuntimeError), held(tmp_path):
        raise RuntimeError
    with held(tmp_path):
        pass


def test_one_folder_by_two_names_is_held_once_and_two_are_held_both(tmp_path):
    with held(tmp_path / "a", tmp_path / "b" / ".." / "a", tmp_path / "b"):
        assert "in use" in refusal(tmp_path / "a") and "in use" in refusal(tmp_path / "b")


def test_a_refused_second_folder_gives_the_first_back(tmp_path):
    with held(tmp_path / "b"):
        with pytest.raises(FileFault), held(tmp_path / "a", tmp_path / "b"):
            pass
        with held(tmp_path / "a"):
            pass


def test_a_removed_lock_file_is_not_mistaken_for_a_held_one(tmp_path, monkeypatch):
    """The last holder removes the file between our opening and our locking: what we locked is no longer in the folder."""
    import experiments.folder_lock as module

    lock, calls = module._lock, []

    def removed_before_the_first(file):
        calls.append(file)
        if len(calls) == 1:
            (tmp_path / NAME).unlink()
        lock(file)

    monkeypatch.setattr(module, "_lock", removed_before_the_first)
    with held(tmp_path):
        assert len(calls) == 2 and (tmp_path / NAME).exists()
        assert "in use" in refusal(tmp_path)


def test_a_place_where_no_folder_can_be_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "file/out cannot be written: not a directory" in refusal(tmp_path / "file" / "out")
