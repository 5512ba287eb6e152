"""Append-only records: one line of strict JSON for each measured point, in a file of its own for each process.

    {"schema": 1, "key", "experiment", "point", "inputs", "status", "result", "environment"}

`key` hashes `inputs` (and the experiment's name), which is everything that changes the result; machine and commit are recorded, not hashed. Only "\\n" ends a record: what a
killed process left unfinished is passed over, reported, and measured again. A failed point is not "done".
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from experiments.paths import ROOT
from micro.files import FileFault, reason

SCHEMA = 1


def canonical(value: object) -> str:
    """One spelling of a JSON value. Raises ValueError on NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(experiment: str, inputs: dict) -> str:
    """20 hex digits of what a result depends on."""
    return hashlib.sha256(canonical([experiment, inputs]).encode()).hexdigest()[:20]


def environment(dtype: str = "float32") -> dict:
    """The machine and versions a result was measured with: recorded, not hashed."""
    import torch

    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {processor()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "device": "cpu",
        "dtype": dtype,
    }


@lru_cache(maxsize=1)
def commit() -> str:
    """The clone's commit, with "-dirty" where files differ from it; "unknown" outside a clone or without git."""
    if not (ROOT / ".git").exists():
        return "unknown"
    line = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except (OSError, IndexError):
        names = []
    return (names or [platform.processor() or "unknown processor"])[0]


def open_store(folder: Path, command: str) -> Store:
    """The folder's records; what was passed over in reading is told on stderr. Raises as Store."""
    store = Store(folder)
    for note in store.notes:
        print(f"selfdraft {command}: {note}", file=sys.stderr)
    return store


@dataclass
class Store:
    """The records of a folder, by experiment and key. `notes` tells what was passed over in reading.

    Raises FileFault where the folder cannot be read or, on the first append, written.
    """

    folder: Path
    records: dict[tuple[str, str], dict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self._file = self.folder / f"records-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
        there = next(
            path for path in (self.folder, *self.folder.absolute().parents) if path.exists()
        )
        if not there.is_dir():
            raise FileFault(f"{there} is a file; a folder for records is wanted")
        for path in sorted(self.folder.glob("*.jsonl")):
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise FileFault(f"{path} cannot be read: {reason(error)}") from error
        if lines[-1]:
            self.notes.append(f"{path}: the last line is torn off; a run measures it again")
        for number, line in enumerate(lines[:-1], 1):
            try:
                self._take(json.loads(line, parse_constant=_refuse_constant))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self.notes.append(f"{path} line {number} is no record and is passed over: {error}")

    def _take(self, record: dict) -> None:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}, this program reads {SCHEMA}")
        for name in ("point", "inputs", "result", "environment"):
            if not isinstance(record[name], dict):
                raise ValueError(f"{name} is no JSON object")
        place = (record["experiment"], record["key"])
        if record["status"] == "ok" or place not in self.records:
            self.records[place] = record

    def done(self, experiment: str, key: str) -> dict | None:
        """The finished record, None where there is none or it failed."""
        record = self.records.get((experiment, key))
        return record if record and record["status"] == "ok" else None

    def of(self, experiment: str) -> list[dict]:
        """Finished records of an experiment, in the order they were made."""
        return [r for (e, _), r in self.records.items() if e == experiment and r["status"] == "ok"]

    def append(self, experiment: str, inputs: dict, point: dict, status: str, result: dict) -> dict:
        """Write one record through to the disk. Raises FileFault naming the file."""
        record = {
            "schema": SCHEMA,
            "key": key_of(experiment, inputs),
            "experiment": experiment,
            "point": point,
            "inputs": inputs,
            "status": status,
            "result": result,
            "environment": environment(inputs.get("dtype", "float32")),
        }
        line = canonical(record).encode() + b"\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self._file, "a+b") as file:
                file.write(b"" if _ends_whole(file) else b"\n")
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileFault(f"{self._file} cannot be written: {reason(error)}") from error
        record = json.loads(line)  # as a later run will read it: key by key in the same order
        self._take(record)
        return record


def _ends_whole(file: BinaryIO) -> bool:
    """Whether what is appended starts a line; not behind a write that a full disk cut short."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _refuse_constant(name: str):
    raise ValueError(f"{name} is no JSON number")
