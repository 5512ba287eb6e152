"""The frontier figure: alpha against true c, with curves of equal speed-up; every draft named, the best of each byte class ringed.

Curves: the closed form at the best gamma for each c and alpha, so a point's height above a curve is what its acceptance is worth.
The speed-ups in the table come from replay; the curves are there to read by.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.drawing.palette import LOOKS
from experiments.drawing.point_names import Named, name_points, points_of
from experiments.drawing.style import (
    INK,
    MUTED,
    SIZE,
    message,
    new_figure,
    settled,
    styled,
)
from experiments.ladder.rates import Rung, rung, winner, winners
from specdec.theory import tokens_per_pass

TITLE = "The frontier: acceptance against size"
SPEEDS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5)
FAMILIES = (  # a draft belongs to the first whose mark its name holds
    ("trained to be accepted (+tuned)", ("+tuned",)),
    ("a format for each matrix", ("mix",)),
    ("errors passed on (+gptq)", ("+gptq",)),
    ("rotated, or weighed by inputs", ("had+", "+act")),
    ("searched scale", ("mse",)),
    ("tables of levels", ("nf", "fp4")),
    ("largest magnitude, or minimum", ("",)),
)
HEIGHT = 8.6
MOST_GAMMA = 64


def frontier(records: list[dict], temperature: float = 1.0) -> Figure:
    """T as given. Drafts with alpha of 0 or 1 have no place on the axis and are told of in the caption."""
    with styled():
        rungs = [rung(record) for record in records]
        shown = [one for one in rungs if 0 < one.rates[temperature].alpha.value < 1]
        if not shown:
            return settled(message(TITLE, "No formats on record: `selfdraft run ladder` measures them."))  # fmt: skip
        return _draw(shown, [one.draft for one in rungs if one not in shown], temperature)


def _draw(rungs: list[Rung], missing: list[str], temperature: float) -> Figure:
    best = winners(rungs, temperature)
    top = winner(rungs, temperature)
    caption = [
        f"T = {temperature:g}; c by weight bytes, target in bfloat16; γ chosen for each draft. Grey: equal speed-up by the closed form "
        "at the best γ.",
        "Ringed: the largest speed-up of its byte class, chosen on the choosing prompts, measured here on the reporting ones: "
        + ", ".join(f"{o.draft} {o.rates[temperature].speed_up}" for o in best.values())
        + ".",
        *([f"Not shown, α is 0 or 1: {', '.join(missing)}."] if missing else []),
    ]
    title = f"The frontier: at best {top.rates[temperature].speed_up} times, {top.draft}"
    figure = new_figure(title, HEIGHT, caption, ())
    axes = figure.add_subplot()
    _scales(axes, rungs, temperature)
    names = _curves(axes)
    for one in rungs:
        _mark(axes, one, temperature, one in best.values())
    handles = [Line2D([], [], label=name, ls="", color=c, marker=m) for (name, _), (c, m) in zip(FAMILIES, LOOKS)]  # fmt: skip
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.06), ncols=3)
    figure = settled(figure)
    _labels(axes, rungs, temperature, {one.draft for one in best.values()}, names)
    return figure


def _scales(axes: Axes, rungs: list[Rung], temperature: float) -> None:
    """1 - alpha falls on a log axis, so that .99 and .98 are as far apart as .8 and .6."""
    lost = [1 - one.rates[temperature].alpha.value for one in rungs]
    c = [one.c["weights"] for one in rungs]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(c) / 1.16, max(max(c) * 1.2, min(c) * 1.5))
    axes.set_ylim(min(1, max(lost) * 1.3), min(lost) / 1.6)
    ticks = [t for t in (0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5) if axes.get_xlim()[0] < t < axes.get_xlim()[1]]  # fmt: skip
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    alphas = [0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999]  # fmt: skip
    low, high = sorted(axes.get_ylim())
    axes.yaxis.set_major_locator(FixedLocator([1 - a for a in alphas if low < 1 - a < high]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{1 - y:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("c: bytes a draft pass reads / bytes a target pass reads")
    axes.set_ylabel("α = accepted / checked")


def _curves(axes: Axes) -> list[tuple[str, float, float]]:
    """Equal speed-up; returns (text, x, y) of each curve's name, at its right or upper end."""
    (low, high), limits = axes.get_xlim(), sorted(axes.get_ylim())
    c, names = np.geomspace(low, high, 80), []
    for speed, lost in zip(SPEEDS, 1 - alphas_for(SPEEDS, c)):
        inside = (lost > limits[0]) & (lost < limits[1])
        if not inside.any():
            continue
        axes.plot(c, lost, color=MUTED, lw=0.8, alpha=0.55, zorder=1)
        last = np.flatnonzero(inside)[-1]
        names.append((f"{speed:g}×", float(c[last]), float(lost[last])))
    return names


def alphas_for(speeds: tuple[float, ...], c: np.ndarray) -> np.ndarray:
    """(speeds, c's): the alpha whose best gamma gives the speed-up by the closed form; NaN where alpha 1 does not reach it.

    Read off a table of 600 alphas, spaced evenly in the logarithm of 1 - alpha: finer than a line is drawn.
    """
    alphas = np.append(1 - np.geomspace(1, 1e-4, 600), 1.0)
    gammas = np.arange(1, MOST_GAMMA + 1)
    tokens = np.array([[tokens_per_pass(a, g) for g in gammas] for a in alphas.tolist()])
    out = []
    for one in c:
        best = np.maximum((tokens / (1 + gammas * one)).max(1), 1.0)  # gamma 0 gives 1
        out.append(np.interp(speeds, best, alphas, right=np.nan))
    return np.array(out).T


def _mark(axes: Axes, one: Rung, temperature: float, best: bool) -> None:
    x, at = one.c["weights"], one.rates[temperature].alpha
    colour, marker = look(one.draft)
    axes.plot([x, x], [1 - at.low, 1 - at.high], color=colour, lw=1.0, alpha=0.6)
    axes.plot([x], [1 - at.value], color=colour, marker=marker, ls="", ms=4.5)
    if best:
        axes.plot([x], [1 - at.value], marker="o", ls="", ms=10, mfc="none", mec=INK, mew=1.2)


def look(draft: str) -> tuple[str, str]:
    """Colour and marker of a draft's family."""
    family = next(i for i, (_, marks) in enumerate(FAMILIES) if any(m in draft for m in marks))
    return LOOKS[family]


def _bar(axes: Axes, one: Rung, temperature: float, scale: float) -> tuple:
    """The box of a draft's interval, in points."""
    alpha = one.rates[temperature].alpha
    ends = [axes.transData.transform((one.c["weights"], 1 - a)) for a in (alpha.low, alpha.high)]
    (x, low), (_, high) = sorted((scale * end for end in ends), key=lambda end: end[1])
    return (x - 1, low, x + 1, high)


def _labels(axes: Axes, rungs: list[Rung], temperature: float, best: set[str], curves) -> None:
    """The curves' names at their ends, then every draft's where it covers nothing."""
    scale, frame = points_of(axes)
    taken = [_bar(axes, one, temperature, scale) for one in rungs]
    for text, x, y in curves:
        px, py = (scale * v for v in axes.transData.transform((x, y)))
        px, py = min(px, frame[2] - 2), min(py, frame[3] - SIZE)
        taken.append((px - 0.63 * SIZE * len(text), py - 2, px, py + SIZE))
        axes.annotate(text, (px, py), xycoords=("figure points", "figure points"), ha="right", va="bottom", color=MUTED)  # fmt: skip
    named = [
        Named(
            one.draft,
            (one.c["weights"], 1 - one.rates[temperature].alpha.value),
            look(one.draft)[0],
            one.draft in best,
        )
        for one in rungs
    ]
    name_points(axes, named, taken)
