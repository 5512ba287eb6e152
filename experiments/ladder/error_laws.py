"""Can acceptance be foretold from the error of the weights, or from the KL of the laws? Two laws, fitted and judged.

    1 - alpha = k x (root of the weights' relative squared error)        1 - alpha = k x sqrt(KL(target, draft))

The first would say that a draft's worth can be read off its weights; the second is Pinsker's inequality, 1 - beta <= sqrt(KL / 2),
taken as an equation, so its k should lie below .71. k is fitted, in logarithms, on every other draft that looks at no inputs and on the
choosing prompts; it is judged on the drafts left out and on the reporting prompts. Drafts made with inputs in view bend their errors
to where they do no harm: a group of their own, never fitted. alpha is that of gamma 4 at T = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.drawing.palette import LOOKS
from experiments.drawing.style import INK, MUTED, message, new_figure, settled, styled
from experiments.ladder.rates import Rung, rung

GROUPS = ("fitted", "left out", "made with inputs in view")
AWARE = ("+act", "+gptq", "+tuned", "mix")
FEWEST = 3  # drafts to fit on
TITLE = "Acceptance foretold: 1 − α against two distances"


@dataclass(frozen=True)
class Fit:
    """A law: its k, the slope of a free line in logarithms (1 where the law holds), and how it fares on what it was not fitted on.

    points: draft, group, x, 1 - alpha, residual = ln of measured over foretold. spread: root mean square of a group's residuals.
    """

    law: str
    k: float
    slope: float
    points: list[tuple[str, str, float, float, float]]
    spread: dict[str, float]

    def __str__(self) -> str:
        judged = ", ".join(f"{100 * s:.0f}% off ({name})" for name, s in self.spread.items())
        return (
            f"1 − α = {self.k:.3f} × {self.law}: {judged}; a free line has slope {self.slope:.2f}"
        )


LAWS = {
    "root of the weights' relative squared error": lambda one, half: one.relative_error,
    "root of KL": lambda one, half: one.kl[half] ** 0.5,
}


def fits(rungs: list[Rung]) -> list[Fit]:
    """Both laws; none where there are too few drafts to fit on."""
    usable = [one for one in rungs if all(0 < a < 1 for a in one.alphas) and min(one.kl) > 0]
    if sum(group == "fitted" for group in groups(usable).values()) < FEWEST:
        return []
    return [_fit(law, usable) for law in LAWS]


def groups(rungs: list[Rung]) -> dict[str, str]:
    """draft -> one of GROUPS: every other one of those that look at no inputs is fitted."""
    aware = {one.draft for one in rungs if any(mark in one.draft for mark in AWARE)}
    plain = [one.draft for one in rungs if one.draft not in aware]
    out = {name: GROUPS[i % 2] for i, name in enumerate(plain)}
    return out | dict.fromkeys(aware, GROUPS[2])


def _fit(law: str, rungs: list[Rung]) -> Fit:
    group = groups(rungs)
    fitted = [one for one in rungs if group[one.draft] == "fitted"]
    x = np.log([LAWS[law](one, 0) for one in fitted])
    y = np.log([1 - one.alphas[0] for one in fitted])
    k = float(np.exp((y - x).mean()))
    points = []
    for one in rungs:
        at = int(group[one.draft] != "fitted")  # 0: choosing prompts, 1: reporting prompts
        distance, lost = LAWS[law](one, at), 1 - one.alphas[at]
        points.append((one.draft, group[one.draft], distance, lost, float(np.log(lost / (k * distance)))))  # fmt: skip
    spread = {}
    for name in GROUPS:
        own = [p[4] for p in points if p[1] == name]
        if own:
            spread[name] = float(np.sqrt(np.mean(np.square(own))))
    return Fit(law, k, float(np.polyfit(x, y, 1)[0]), points, spread)


def error_laws(records: list[dict]) -> Figure:
    """Both laws: above, 1 - alpha against the distance with the fitted line; below, what the line misses."""
    with styled():
        found = fits([rung(record) for record in records])
        if not found:
            return settled(message(TITLE, "Too few formats on record to fit a law."))
        return settled(_draw(found))


def _draw(found: list[Fit]) -> Figure:
    caption = [
        "T = 1, γ = 4. Fitted on the choosing prompts; all others on the reporting prompts. Lines: 1 − α = k × distance.",
        *(f"{fit}." for fit in found),
    ]
    figure = new_figure(TITLE, 6.4, caption, ())
    panels = figure.subplots(
        2, len(found), sharex="col", sharey="row", height_ratios=(2, 1), squeeze=False
    )
    for column, fit in zip(panels.T, found):
        _scatter(column[0], fit)
        _residuals(column[1], fit)
        column[1].set_xlabel(fit.law)
    panels[0, 0].set_ylabel("1 − α")
    panels[1, 0].set_ylabel("measured / foretold")
    handles = [Line2D([], [], label=name, **_style(name)) for name in GROUPS]
    panels[0, 0].legend(handles=handles, loc="lower right")
    return figure


def _style(group: str) -> dict:
    colour, marker = LOOKS[GROUPS.index(group)]
    return {"color": colour, "marker": marker, "ls": "", "mfc": "none" if group == "fitted" else colour}  # fmt: skip


def _scatter(axes: Axes, fit: Fit) -> None:
    ends = np.array([min(p[2] for p in fit.points), max(p[2] for p in fit.points)])
    axes.plot(ends, fit.k * ends, color=INK, lw=1.0, ls=(0, (4, 2.5)))
    for _, group, x, lost, _ in fit.points:
        axes.plot([x], [lost], **_style(group))
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        plain_log(axis)
    axes.set_title(f"k = {fit.k:.3f}", loc="left", fontweight="bold")


def _residuals(axes: Axes, fit: Fit) -> None:
    """The ratio on a log axis, its farthest point named."""
    axes.axhline(1, color=INK, lw=1.0)
    for _, group, x, _, residual in fit.points:
        axes.plot([x], [np.exp(residual)], **_style(group))
    axes.set_yscale("log")
    plain_log(axes.yaxis, (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
    axes.margins(y=0.2)
    worst = sorted(fit.points, key=lambda p: -abs(p[4]))[:1]
    for name, _, x, _, residual in worst:  # away from the line, where no point stands
        axes.annotate(name, (x, np.exp(residual)), (0, -13 if residual < 0 else 6), textcoords="offset points", ha="center", color=MUTED)  # fmt: skip


def plain_log(axis, steps: tuple[float, ...] = (1, 2, 5)) -> None:
    """Numbers as 0.05 on a log axis, and no others."""
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
