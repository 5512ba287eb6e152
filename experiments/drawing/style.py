"""How every figure looks and is written: colours, markers, labels that keep apart, captions; the same bytes each time.

Colours and markers are those of experiments/drawing/palette.py; a line style says the same once more. A figure is 8 inches wide with
text of 9 points or above: a README shows it at about 800 pixels. Only matplotlib's Figure is used, no pyplot: no display is
asked for, no global backend set, and a figure is freed with its last reference.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from contextlib import AbstractContextManager

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import palette
from experiments.drawing.palette import THEME

# the light theme; a page replaces these by its own, so that a figure follows the reader's setting
INK, MUTED, GRID, PAPER, ALARM = (
    THEME[name][0] for name in ("ink", "muted", "grid", "paper", "alarm")
)
WIDTH, CAPTION_COLUMNS = 8.0, 116
SIZE, PNG_DPI = 9.0, 200
STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same everywhere
    "font.size": SIZE,
    "axes.titlesize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.facecolor": "none",
    "grid.color": GRID,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a draft's name is a $
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.3,
    "legend.handlelength": 1.2,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",  # letters look alike wherever the file is shown
}


def styled(salt: str = "") -> AbstractContextManager:
    """matplotlib's own defaults and STYLE for the time of a `with`, whatever the user's configuration says."""
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
    return matplotlib.rc_context({**defaults, **STYLE, "svg.hashsalt": salt or "selfdraft"})


def look(drafts: list[str], draft: str) -> dict:
    """Colour and marker of a draft among the drafts of a figure."""
    colour, marker = palette.look(drafts, draft)
    return {"color": colour, "marker": marker}


def new_figure(title: str, height: float, caption: Iterable[str], alarms: Iterable[str]) -> Figure:
    """An empty figure with its title above, caption below, and alarms (what is missing, or of another version) last."""
    lines = [(line, MUTED) for text in caption for line in wrapped(text)]
    lines += [(line, ALARM) for text in alarms for line in wrapped(text)]
    line_height, top = SIZE * 1.35 / 72, 0.34
    foot = line_height * len(lines) + 0.12
    total = height + foot + top
    figure = Figure(figsize=(WIDTH, total), layout="constrained", facecolor=PAPER)
    figure.get_layout_engine().set(rect=(0.005, foot / total, 0.99, height / total), wspace=0.04)
    figure.text(0.012, 1 - 0.1 / total, title, va="top", fontsize=11.5, fontweight="bold")
    for i, (line, colour) in enumerate(lines):
        y = (foot - 0.06 - i * line_height) / total
        figure.text(0.012, y, line, va="top", color=colour)
    return figure


def wrapped(text: str) -> list[str]:
    """Lines of a caption; what belongs together (γ = 4) is not parted."""
    for sign in "=>−+/":
        text = text.replace(f" {sign} ", f"\u00a0{sign}\u00a0")
    return textwrap.wrap(text, CAPTION_COLUMNS)


def message(title: str, text: str, alarms: Iterable[str] = ()) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure = new_figure(title, 1.2, (), alarms)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    return figure


def spread(values: list[float], gap: float) -> list[float]:
    """Places near `values`, in the same order and at least `gap` apart: for labels that would overlap."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[list[int]] = []
    centres: list[float] = []
    for i in order:
        groups.append([i])
        centres.append(values[i])
        while len(groups) > 1 and _bottom(groups, centres, gap) < _top(groups, centres, gap):
            merged = groups.pop(-2) + groups.pop()
            centres[-2:] = [sum(values[j] for j in merged) / len(merged)]
            groups.append(merged)
    out = [0.0] * len(values)
    for group, centre in zip(groups, centres):
        for place, i in enumerate(group):
            out[i] = centre + (place - (len(group) - 1) / 2) * gap
    return out


def _bottom(groups: list[list[int]], centres: list[float], gap: float) -> float:
    return centres[-1] - (len(groups[-1]) - 1) / 2 * gap


def _top(groups: list[list[int]], centres: list[float], gap: float) -> float:
    """The first free place above the last group but one."""
    return centres[-2] + (len(groups[-2]) + 1) / 2 * gap


def label_ends(
    axes: Axes, ends: list[tuple[str, float, float]], height: float, colour: str = INK
) -> None:
    """Write each (text, x, y) to the right of its line's end. height: inches of the axes, to keep texts apart."""
    low, high = axes.get_ylim()
    places = spread([y for _, _, y in ends], SIZE * 1.25 / 72 / height * (high - low))
    for (text, x, _), place in zip(ends, places):
        axes.annotate(
            text, (x, place), (7, 0), textcoords="offset points", va="center", color=colour
        )


def settled(figure: Figure) -> Figure:
    """Lays the figure out once and for all. The solver's last bits differ from call to call; rounded they do not."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(edge, 4) for edge in axes.get_position().bounds])
    return figure


def whiskers(low: np.ndarray, value: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(2, n) lengths for errorbar. A percentile interval need not hold its estimate; a length below 0 becomes 0."""
    return np.maximum(np.stack([value - low, high - value]), 0)


def to_svg(figure: Figure, salt: str) -> str:
    """The figure as SVG text, the same for the same figure: no date, and ids made from `salt`."""
    out = io.StringIO()
    with styled(salt):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def to_png(figure: Figure) -> bytes:
    """The figure as PNG, without a date or a version in it."""
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return out.getvalue()
