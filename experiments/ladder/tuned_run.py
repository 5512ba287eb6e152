"""Tuned drafts beside untuned ones of the same bytes: each measured as the ladder measures a format.

A point is a format and a seed; seed 0 is the format itself, untuned. A tuned draft is a folder that `selfdraft tune` wrote, whose
content is part of the record's key. Gamma is chosen on the choosing plates, counts are the reporting plates' (ladder/run.py);
neither has been tuned on or chosen by: tuning reads training plates and picks its step on validation plates.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments.ladder import run as ladder_run
from micro.files import read_json

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting

FORMATS = ("rtn4", "rtn3", "rtn2")
SEEDS = (1, 2, 3)
UNTUNED = 0


@dataclass(frozen=True)
class TunedDrafts:
    """An Experiment over the folders below `folder`."""

    folder: Path
    formats: tuple[str, ...] = FORMATS
    seeds: tuple[int, ...] = SEEDS
    NAME: ClassVar[str] = "tuned"
    VERSION: ClassVar[int] = 1

    @property
    def POINTS(self) -> list[dict]:  # noqa: N802 - the name that every experiment's table has
        return [{"draft": f, "seed": s} for f in self.formats for s in (UNTUNED, *self.seeds)]

    def folder_of(self, draft: str, seed: int) -> Path:
        return self.folder / f"{draft}-seed-{seed}"

    def identity(self, point: dict, setting: Setting) -> dict:
        from specdec.drafts.shipped import fingerprint
        from specdec.drafts.stored import read_quantized

        content = None
        if point["seed"] != UNTUNED:
            copy = read_quantized(self.folder_of(**point), setting.model)
            content = fingerprint(copy.module)
        return {
            **ladder_run.identity({"draft": point["draft"]}, setting),
            "tuned": self.VERSION,
            "content": content,
            **point,
        }

    def run(self, point: dict, setting: Setting) -> dict:
        """The ladder's counts; of a tuned draft also what its tuning recorded, and overlap against steps."""
        if point["seed"] == UNTUNED:
            return ladder_run.run({"draft": point["draft"]}, setting)
        from specdec.drafts.stored import read_quantized

        folder = self.folder_of(**point)
        setting.add(folder.name, read_quantized(folder, setting.model))
        record = read_json(folder / "training.json")
        about = ("command", "minutes", "threads", "steps", "best_step", "overlap", "target")
        return {
            **ladder_run.run({"draft": folder.name}, setting),
            "tuning": {name: record[name] for name in about if name in record},
            "curve": learning_curve(folder),
        }


def learning_curve(folder: Path) -> list[list[float]]:
    """[step, overlap on validation] of every evaluation."""
    from experiments.training.log import TrainingLog

    rows = TrainingLog(folder / "run" / "log.jsonl").steps()
    checked = [row for row in rows if row.get("validation") is not None]
    return [[row["step"], float(f"{1 - row['validation']:.6g}")] for row in checked]
