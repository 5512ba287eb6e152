"""Redraw every figure from records, as PNG and SVG. Runs no model.

The same records give the same bytes. No display is needed.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import estimate
from experiments.paths import RESULTS
from experiments.store import Store
from micro.files import FileFault, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[list[dict]], Figure]  # records -> a figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_records(parser)
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="folder the figures go to (default: the folder of the records)")  # fmt: skip


def add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=Path, default=RESULTS / "plate", metavar="DIR",
                        help="folder of records, as `selfdraft plate` fills it (default: %(default)s)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    store = open_records(args.records)
    warn("plot", store)
    for path in draw_all(store, args.out or args.records):
        print(path)
    return 0


def open_records(folder: Path) -> Store:
    """The folder's records. Raises FileFault where it holds no finished estimate."""
    store = Store(folder)
    if not store.of(estimate.NAME):
        state = "holds no finished estimate" if store.folder.exists() else "does not exist"
        raise FileFault(f"{folder} {state}; `selfdraft plate --out {folder}` measures one")
    return store


def warn(command: str, store: Store) -> None:
    """On stderr: what was passed over in reading, and what the figures say of missing, foreign or unreadable records."""
    from experiments.drawing.shown import shown

    for note in [*store.notes, *shown(store.of(estimate.NAME)).notes]:
        print(f"selfdraft {command}: {note}", file=sys.stderr)


def draw_all(store: Store, out: Path) -> list[Path]:
    """Every figure of the plate as PNG and SVG in the folder `out`; the paths. Raises FileFault where that cannot be written."""
    with quiet_matplotlib():
        from experiments.figures import FIGURES

        found = store.of(estimate.NAME)
        return [p for name, draw in FIGURES.items() for p in write_figure(name, draw(found), out)]


def write_figures(figures: dict[str, Draw], records: list[dict], out: Path, command: str) -> None:
    """Each figure of these records. What goes wrong is said, naming `command`, and loses no record."""
    for name, figure in figures.items():
        try:
            write_figure(name, figure(records), out)
        except Exception as error:
            print(
                f"{command}: the figure {name} failed ({type(error).__name__}: {error}); "
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
