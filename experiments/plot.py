"""Redraw every figure from records, as PNG and SVG, of every experiment that the folder has records of. Runs no model.

The same records give the same bytes. No display is needed. Exit code 1 where the records of a figure cannot be read.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import estimate
from experiments.drawing.shown import UNREADABLE, one_setting, shown
from experiments.paths import RESULTS
from experiments.store import Store
from micro.files import FileFault, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[list[dict]], Figure]  # records -> a figure


@dataclass(frozen=True)
class Drawn:
    """module: whose FIGURES (file name -> function of records) draw an experiment. own, shared: what parts its records into settings
    (experiments/drawing/shown.py)."""

    module: str
    own: tuple[str, ...] = ()
    shared: tuple[str, ...] | None = None


COPY = ("calibration", "mix", "tuned", "content")  # what makes a low-bit copy: a point's own

# experiment on record -> how it is drawn
DRAWN: dict[str, Drawn] = {
    estimate.NAME: Drawn("figures"),
    "loss-profile": Drawn("course.loss_figures"),
    "text-amount": Drawn("course.text_amount_figure", own=("weights",)),
    "recipe": Drawn("course.recipe_figure", shared=("version", "text (sha256)")),
    "rules": Drawn("rules.figure"),
    "loop": Drawn("loop.figure"),
    "lanes": Drawn("lanes.figure"),
    "ladder": Drawn("ladder.figures", own=COPY),
    "sensitivity": Drawn("ladder.sensitivity_figure", own=COPY),
    "tuned": Drawn("ladder.tuned_figure", own=COPY),
    "zoo": Drawn("zoo.figures", own=("budgets", "trained")),
    "trees": Drawn("trees.figure"),
    "shared": Drawn("shared.figure"),
    "lengths": Drawn("lengths.figure"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_records(parser)
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="folder the figures go to (default: the folder of the records)")  # fmt: skip


def add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=Path, default=RESULTS / "plate", metavar="DIR",
                        help="folder of records, the --out of a run (default: %(default)s)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    store, failed = open_records(args.records, tuple(DRAWN)), 0
    warn("plot", store)
    for name in DRAWN:
        records, notes = of_one_setting(name, store)
        try:
            paths = draw(name, records, args.out or args.records)
        except FileFault:
            raise
        except UNREADABLE as error:
            notes.append(
                f"not drawn: a record is missing or cannot be read ({type(error).__name__}: {error})"
            )
            paths, failed = [], 1
        for note in notes:
            print(f"selfdraft plot: {name}: {note}", file=sys.stderr)
        for path in paths:
            print(path)
    return failed


def of_one_setting(experiment: str, store: Store) -> tuple[list[dict], list[str]]:
    """The records that its figures show, and notes. The plate's figures choose for themselves and say it in their captions."""
    records, drawn = store.of(experiment), DRAWN[experiment]
    if experiment == estimate.NAME:
        return records, []
    return one_setting(records, own=drawn.own, shared=drawn.shared)


def open_records(folder: Path, experiments: tuple[str, ...] = (estimate.NAME,)) -> Store:
    """The folder's records. Raises FileFault where it holds no finished point of these experiments."""
    store = Store(folder)
    if not any(map(store.of, experiments)):
        what = "estimate" if experiments == (estimate.NAME,) else "point of a figure"
        state = f"holds no finished {what}" if store.folder.exists() else "does not exist"
        raise FileFault(f"{folder} {state}; `selfdraft plate --out DIR` measures some")
    return store


def warn(command: str, store: Store) -> None:
    """On stderr: what was passed over in reading, and what the plate's figures say of missing, foreign or unreadable records."""
    for note in [*store.notes, *shown(store.of(estimate.NAME)).notes]:
        print(f"selfdraft {command}: {note}", file=sys.stderr)


def draw(experiment: str, records: list[dict], out: Path) -> list[Path]:
    """Every figure of an experiment as PNG and SVG in the folder `out`, none where there are no records; the paths. Raises FileFault
    where that cannot be written."""
    with quiet_matplotlib():
        figures = figures_of(experiment) if records else {}
        return [p for name, make in figures.items() for p in write_figure(name, make(records), out)]


def figures_of(experiment: str) -> dict[str, Draw]:
    """file name -> function of records. Imports matplotlib: call it under quiet_matplotlib."""
    return importlib.import_module(f"experiments.{DRAWN[experiment].module}").FIGURES


def draw_safely(experiment: str, records: list[dict], out: Path) -> None:
    """`draw` behind a measurement: what goes wrong with a figure is said, and loses no record."""
    with quiet_matplotlib():
        for name, make in figures_of(experiment).items():
            try:
                write_figure(name, make(records), out)
            except Exception as error:
                print(
                    f"selfdraft run {experiment}: the figure {name} failed ({type(error).__name__}: {error}); "
                    f"the records in {out} are complete",
                    file=sys.stderr,
                )


def write_figure(name: str, figure: Figure, out: Path) -> list[Path]:
    """A figure as `out`/name.png and .svg; the two paths. Raises FileFault where they cannot be written."""
    from experiments.drawing.style import to_png, to_svg

    paths = []
    for ending, content in (("png", to_png(figure)), ("svg", to_svg(figure, name).encode())):
        paths.append(Path(out) / f"{name}.{ending}")
        write_atomically(paths[-1], lambda file, content=content: file.write(content))
    return paths


@contextmanager
def quiet_matplotlib() -> Iterator[None]:
    """Its log lines (where the home folder is read-only it tells of a temporary one) are kept off stderr for a while."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
