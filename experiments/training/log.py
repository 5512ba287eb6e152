"""The log of a training run, one line of strict JSON an event, and the figure drawn from it.

    {"event": "start", ...}  {"event": "step", "step", "loss", "rate", "norm", "seconds", "processor"[, "validation", "best"]}  {"event": "end", ...}

seconds are a clock's, processor is what the process computed in them, on all its threads. A number that is not finite is written as null,
with a "reason". A resumed run appends; where it repeats a step, the later line counts.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.drawing.palette import LOOKS, THEME
from micro.files import FileFault, reason, write_atomically

BITS = 1 / math.log(2)  # of a nat


class TrainingLog:
    """Appends to a file; a line that a kill tore off is closed first. Raises FileFault naming the file."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab+") as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    file.write(b"\n")
        except OSError as error:
            raise FileFault(f"{self.path} cannot be written: {reason(error)}") from error

    def write(self, event: str, **values: object) -> None:
        line = json.dumps({"event": event, **_finite(values)}, allow_nan=False) + "\n"
        try:
            with open(self.path, "ab") as file:
                file.write(line.encode())
        except OSError as error:
            raise FileFault(f"{self.path} cannot be written: {reason(error)}") from error

    def steps(self) -> list[dict]:
        """The step lines since the last start, in order, each step once."""
        found: dict[int, dict] = {}
        for line in self.path.read_bytes().split(b"\n"):
            try:
                row = json.loads(line)
                if row["event"] == "start":
                    found = {}
                elif row["event"] == "step" and type(row["step"]) is int:
                    found[row["step"]] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # torn by a kill
        return [found[step] for step in sorted(found)]


def minutes(rows: list[dict]) -> dict[str, float]:
    """What the steps took by the clock, and of processors: on a machine that others use too the second is less."""
    names = {"minutes": "seconds", "processor_minutes": "processor"}
    return {
        name: round(sum(row.get(of, 0.0) for row in rows) / 60, 2) for name, of in names.items()
    }


def _finite(values: dict) -> dict:
    bad = [k for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)]
    if not bad:
        return values
    why = ", ".join(f"{name} is {values[name]}" for name in bad)
    return {**values, **dict.fromkeys(bad), "reason": why}


def loss_figure(rows: list[dict], held_out: float | None = None) -> Figure:
    """Bits per byte against steps: the batches' (thin, and their running mean), validation, and held-out at the end."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    batches = [(r["step"], r["loss"] * BITS) for r in rows if r.get("loss") is not None]
    checked = [(r["step"], r["validation"] * BITS) for r in rows if r.get("validation") is not None]
    if batches:
        steps, losses = zip(*batches)
        axes.plot(steps, losses, color=THEME["muted"][0], linewidth=0.6, label="training batch")
    if checked:
        axes.plot(*zip(*checked), color=LOOKS[0][0], marker="o", markersize=3, label="validation")
        step, best = min(checked, key=lambda point: point[1])
        axes.plot(step, best, "D", color=LOOKS[1][0], label=f"best, {best:.3f} at step {step}")
    if held_out is not None:
        axes.axhline(held_out, color=LOOKS[2][0], linestyle="--", label=f"held out, {held_out:.3f}")
    if not batches and not checked:
        axes.text(0.5, 0.5, "no finite loss was recorded", ha="center", transform=axes.transAxes)
    missing = len(rows) - len(batches)
    axes.set(xlabel="step", ylabel="bits per byte", title="Training of micro")
    if missing:
        axes.set_title(f"Training of micro ({missing} steps without a finite loss left out)")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """A PNG, whole or not at all. Raises FileFault naming it."""
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=120))
