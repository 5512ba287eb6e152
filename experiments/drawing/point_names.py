"""The names of many points in one figure, each where it covers nothing, with a line to its point where it stands apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from experiments.drawing.label_places import Box, places
from experiments.drawing.style import MUTED, PAPER, SIZE


@dataclass(frozen=True)
class Named:
    """A point in data's units and what is written beside it."""

    text: str
    at: tuple[float, float]
    colour: str
    bold: bool = False


def points_of(axes: Axes) -> tuple[float, Box]:
    """(display pixels -> points, the axes' frame in points) of a figure that is laid out."""
    scale = 72 / axes.figure.dpi
    box = axes.get_window_extent()
    return scale, tuple(scale * v for v in (box.x0, box.y0, box.x1, box.y1))


def name_points(axes: Axes, named: list[Named], taken: list[Box], size: float = SIZE) -> None:
    """Write them. taken: boxes, in points, that no name may cover; size: of the letters."""
    scale, frame = points_of(axes)
    points = [tuple(scale * v for v in axes.transData.transform(one.at)) for one in named]
    sizes = [(0.64 * size * len(one.text) * (1.15 if one.bold else 1), 1.1 * size) for one in named]
    for one, (x, y), box in zip(named, points, places(points, sizes, frame, taken)):
        middle = (box[1] + box[3]) / 2
        near = box[0] if box[0] > x else box[2] if box[2] < x else x
        if np.hypot(near - x, middle - y) > 9:
            axes.annotate("", (x, y), (near, middle), xycoords="figure points", textcoords="figure points",
                          arrowprops={"arrowstyle": "-", "color": MUTED, "lw": 0.5, "shrinkA": 0, "shrinkB": 3}, zorder=2)  # fmt: skip
        axes.annotate(one.text, (box[0], middle), xycoords="figure points", va="center", color=one.colour, fontsize=size,
                      fontweight="bold" if one.bold else "normal", zorder=4,
                      bbox={"fc": PAPER, "ec": "none", "pad": 0.3, "alpha": 0.8})  # fmt: skip
