"""The resumable checkpoint: two files written in turn, so that the last complete state survives any kill.

    checkpoint-a.pt, checkpoint-b.pt = torch.save({kind, version, run, step, best_step, best_loss, tensors})

Each save replaces the older of the two, by a temporary neighbour and a rename; a resume takes the newest that is whole.
Only tensors and plain Python values are stored, so `torch.load(weights_only=True)` reads them and a hostile file cannot run code.
`run` tells what the state belongs to: configuration, model sizes, hash of the text.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path, PurePath

import torch
from torch import Tensor

from micro.files import FileFault, read_bytes, write_atomically

KIND, VERSION = "micro training state", 1
NAMES = ("checkpoint-a.pt", "checkpoint-b.pt")


@dataclass(frozen=True)
class TrainingState:
    """A run after `step` steps: named tensors on the CPU; where validation was best, and its loss in nats."""

    step: int
    best_step: int
    best_loss: float | None
    tensors: dict[str, Tensor]


@dataclass
class CheckpointFolder:
    """Where a run's states are kept. `run`: values by name, all of which must agree on resume.

    Raises ValueError naming a value of `run` that a checkpoint cannot hold.
    """

    folder: Path
    run: dict[str, object]
    _newest: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.run = {name: plain(name, value) for name, value in self.run.items()}

    def paths(self) -> list[Path]:
        """The files that exist."""
        return [path for name in NAMES if (path := Path(self.folder) / name).exists()]

    def save(self, state: TrainingState) -> None:
        """Write over the older file. Raises FileFault naming it; the newer one stays as it is."""
        content = {
            "kind": KIND,
            "version": VERSION,
            "run": self.run,
            "step": state.step,
            "best_step": state.best_step,
            "best_loss": plain("best_loss", state.best_loss),
            "tensors": state.tensors,
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        name = NAMES[1] if self._newest == NAMES[0] else NAMES[0]
        path = Path(self.folder) / name
        write_atomically(path, lambda file: file.write(buffer.getbuffer()))
        self._newest = name

    def load(self) -> tuple[TrainingState, list[str]]:
        """The newest whole state, and a note for every file that was passed over.

        Raises FileFault: no file, none whole, or the newest whole one belongs to another run (naming the field).
        """
        whole: list[tuple[int, Path, dict]] = []
        faults = []
        for path in self.paths():
            try:
                content = read_state(path)
                whole.append((content["step"], path, content))
            except FileFault as error:
                faults.append(str(error))
        if not whole:
            raise FileFault("; ".join(faults) or f"{self.folder} holds no checkpoint to resume")
        step, path, content = max(whole, key=lambda entry: entry[0])
        self._compare(path, content["run"])
        self._newest = path.name
        notes = [f"{fault}; resuming from {path.name}, step {step}" for fault in faults]
        numbers = {key: content[key] for key in ("step", "best_step", "best_loss", "tensors")}
        return TrainingState(**numbers), notes

    def _compare(self, path: Path, saved: dict) -> None:
        for name in [*self.run, *(saved.keys() - self.run.keys())]:
            ours, theirs = self.run.get(name), saved.get(name)
            if ours != theirs:
                raise FileFault(
                    f"{path} belongs to another run: {name} was {theirs!r} and is now {ours!r}; resume "
                    f"with what it was begun with, or begin anew in another folder"
                )


def plain(name: str, value: object) -> object:
    """Python's own value of a number or path, numpy's among them: safe mode would store those and then refuse to read them.

    Raises ValueError naming a value of another kind.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    for kind, own in ((Integral, int), (Real, float), (PurePath, str)):
        if isinstance(value, kind):
            return own(value)
    raise ValueError(f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def read_state(path: Path) -> dict:
    """The checked content of one file. Raises FileFault naming it and what is wrong."""
    blob = read_bytes(path)
    head = f"{path} ({len(blob):,} bytes)"
    if not zipfile.is_zipfile(io.BytesIO(blob)):
        raise FileFault(f"{head} is no whole checkpoint: it was cut off or is something else")
    try:
        content = torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a foreign file makes the reader raise
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise FileFault(
            f"{head} cannot be loaded safely as a checkpoint: {why[0][:120]}"
        ) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise FileFault(f"{head} is not a checkpoint of this program")
    if content.get("version") != VERSION:
        version = content.get("version")
        raise FileFault(f"{head} has version {version!r}; this program reads {VERSION}")
    _check_types(content, head)
    return content


def _check_types(content: dict, head: str) -> None:
    kinds = {"run": dict, "step": int, "best_step": int, "tensors": dict}
    for name, kind in kinds.items():
        if type(content.get(name)) is not kind:
            raise FileFault(f"{head} is damaged: {name!r} is no {kind.__name__}")
    if not isinstance(content.get("best_loss"), (float, type(None))):
        raise FileFault(f"{head} is damaged: 'best_loss' is no number")
    for name, tensor in content["tensors"].items():
        if not isinstance(name, str) or type(tensor) is not Tensor:
            raise FileFault(f"{head} is damaged: {name!r} is no named tensor")
