"""How a training towards the target's law ends: its record written, its curve drawn, its checks told."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.drawing.style import INK, MUTED, new_figure, settled, styled
from experiments.store import environment
from experiments.training.log import TrainingLog, save_figure
from experiments.training.teaching import Asked
from micro.files import write_json
from specdec.drafts.shipped import fingerprint


def settle(
    asked: Asked,
    command: str,
    record: dict,
    checks: Mapping[str, bool],
    lines: Sequence[str],
    figure: Figure,
    log: TrainingLog,
    out: Path,
    folder: Path,
) -> int:
    """Write the record and the curve, say the lines and the checks; 1 where one failed. Raises FileFault naming a file."""
    checks = {**checks, "the target is as it was": fingerprint(asked.model) == asked.fingerprint}
    write_json(out / "training.json", {**record, "environment": environment()})
    log.write("end", **record)
    save_figure(figure, folder / "overlap.png")
    for line in lines:
        print(line)
    for what, passed in checks.items():
        print(f"{'ok' if passed else 'FAILED'}: {what}")
    print(f"draft: {out}   log, curve, checkpoints, texts: {folder}")
    for what in (what for what, passed in checks.items() if not passed):
        print(f"selfdraft {command}: check failed: {what}", file=sys.stderr)
    return 0 if all(checks.values()) else 1


def overlap_figure(
    curve: Sequence[Sequence[float]], title: str, label: str, before: Mapping[str, float]
) -> Figure:
    """Overlap on validation against steps from pairs of both; `before`: name -> overlap of what is drawn as a line."""
    caption = (
        "Mean of the sum of min(p, q) at T = 1 over text that the target wrote behind validation text.",
    )
    with styled():
        figure = new_figure(f"{title}: overlap with the target", 3.2, caption, ())
        axes = figure.add_subplot()
        if curve:
            axes.plot(*zip(*curve), "-o", color=INK, label=label)
            for name, value in before.items():
                axes.axhline(value, color=MUTED, ls="--", label=name)
            axes.legend(loc="lower right")
        axes.set_xlabel("step")
        axes.set_ylabel("overlap")
        return settled(figure)
