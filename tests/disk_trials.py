"""Runs on a disk that is full or read-only, as a program: `python -m tests.disk_trials KIND WHAT FOLDER`.

KIND full: a disk of its own (tmpfs) with less room than the run needs; limit: files that may not grow beyond a size;
read-only: a folder that is mounted so. WHAT is one of kill_and_resume's targets. Each trial prints one line that begins with
"ok" or "FAULT"; exit code 1 where there was a fault. `full` and `read-only` mount, so they run under `unshare -rm`.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.kill_and_resume import TARGETS, Target, faults, run_child
from micro.checkpoint import load_model
from micro.files import FileFault
from micro.training_state import NAMES, read_state

SHARES = (
    0.02,
    0.2,
    0.4,
    0.6,
    0.8,
    0.95,
    1.1,
    1.3,
)  # of the room that the undisturbed run left taken
PAGE = 4096


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


@contextlib.contextmanager
def disk_of(out: Path, room: int) -> Iterator[None]:
    """A disk at `out`; on leaving, the run is given all the room it wants."""
    out.mkdir()
    mount("-t", "tmpfs", "-o", f"size={room}", "tmpfs", out)
    yield
    mount("-o", "remount,size=64m", out)


@contextlib.contextmanager
def files_of(out: Path, room: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def read_only(out: Path) -> Iterator[None]:
    mount("--bind", out, out)
    mount("-o", "remount,bind,ro", out)
    yield
    subprocess.run(["umount", str(out)], check=True)


def sizes(out: Path) -> list[int]:
    return [path.stat().st_size for path in out.rglob("*") if path.is_file()]


def spoken(log: Path) -> list[str]:
    """What the run said on either stream, without the lines that tell of progress."""
    lines = log.read_text().splitlines()
    return [line for line in lines if not line.startswith("step ") and "done, " not in line]


def half_written(out: Path) -> list[str]:
    """Files that are neither whole nor absent: temporaries; checkpoints and weights that cannot be read."""
    found = [str(path) for path in out.rglob(".*.tmp")]
    for name in NAMES:
        with contextlib.suppress(FileNotFoundError):
            path = out / "run" / name
            path.stat()
            try:
                read_state(path)
            except FileFault as error:
                found.append(str(error))
    if (out / "model.safetensors").exists():
        try:
            load_model(out)
        except FileFault as error:
            found.append(str(error))
    return found


def complaint(log: Path, code: int, out: Path, reason: str) -> list[str]:
    """What is wrong with how a run ended that met the disk's end, if it met it. A drawing that failed is told beside results that
    are whole."""
    lines = spoken(log)
    told = [line for line in lines if line.startswith("selfdraft") and reason in line.lower()]
    if code == 0 and all("figures failed" in line or "page failed" in line for line in told):
        return []
    if code != 2 or len(lines) != 1 or not told or str(out) not in told[0]:
        return [f"ended with {code} and said {lines}"]
    return []


def full_trials(target: Target, folder: Path, kind: str) -> list[list[str]]:
    """With too little room a run ends in one line and leaves nothing half; with room it goes on and ends as if undisturbed."""
    out, log = folder / "out", folder / "log.txt"
    code = run_child(target.command(folder, out), log).code
    wanted, found = target.leaves(out), sizes(out)
    print(f"undisturbed: exit {code}, {sum(found)} bytes, the largest file {max(found)}")
    shutil.rmtree(out)
    limited, most = (disk_of, sum(found)) if kind == "full" else (files_of, max(found))
    reason = "no space left" if kind == "full" else "file too large"
    trials = []
    for share in SHARES:
        room = max(int(most * share) // PAGE, 1) * PAGE
        with limited(out, room):
            code = run_child(target.command(folder, out), log).code
            wrong = complaint(log, code, out, reason) + half_written(out)
        last = spoken(log)[-1:]
        code = run_child(target.command(folder, out), log).code
        wrong += faults(target, out, wanted, code, log)
        trials.append(wrong)
        print(f"{'FAULT' if wrong else 'ok'}: {room} bytes of room; said {last}; {wrong}")
        if kind == "full":
            subprocess.run(["umount", str(out)], check=True)
        shutil.rmtree(out)
    return trials


def read_only_trials(target: Target, folder: Path) -> list[list[str]]:
    """An empty folder, then one with a finished run in it: refused in a line, or the results that are there shown."""
    out, log, trials = folder / "out", folder / "log.txt", []
    out.mkdir()
    for state in ("empty", "finished"):
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with read_only(out):
            code = run_child(target.command(folder, out), log).code
            wrong = complaint(log, code, out, "read-only file system")
        after = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        wrong += [] if before == after else ["files changed"]
        trials.append(wrong)
        print(
            f"{'FAULT' if wrong else 'ok'}: {state}, exit {code}; said {spoken(log)[-1:]}; {wrong}"
        )
        run_child(target.command(folder, out), log)
    return trials


def main(kind: str, what: str, folder: Path) -> int:
    TARGETS[what].prepare(folder)
    trials = (
        read_only_trials(TARGETS[what], folder)
        if kind == "read-only"
        else full_trials(TARGETS[what], folder, kind)
    )
    return 1 if any(trials) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
