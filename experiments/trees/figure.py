"""Trees against chains: estimated speed-up by row budget, a panel for each draft and temperature. Runs no model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing.shown import one_setting
from experiments.drawing.style import look, message, new_figure, settled, styled, whiskers
from experiments.trees.run import VERSION
from experiments.trees.table import CONTENDERS, Row, rows_of

TITLE = "Token trees for low-bit drafts, by row budget"
NAMES = {"chain": "best chain", "points": "top-k points", "with": "with replacement", "without": "without replacement",
         "best": "best tree"}  # fmt: skip


def trees(records: list[dict]) -> Figure:
    with styled():
        chosen, notes = one_setting(records, VERSION)
        if not chosen:
            return settled(message(TITLE, "No finished records: `selfdraft run trees`.", notes))
        rows = rows_of(chosen)
        drafts = list(dict.fromkeys(row.draft for row in rows))
        temperatures = sorted({row.temperature for row in rows})
        prompts = len(chosen[0]["result"]["prompts"])
        figure = new_figure(TITLE, 2.5 * len(drafts) + 0.4, (
            "Estimated speed-up where a target pass costs the same for any number of rows, c by weight bytes; replay of the same texts, "
            f"{prompts} prompts, bars: 95% over prompts. Points, with and without replacement: one shape of even widths; best: way and shape "
            "by dynamic programming from other prompts' acceptance by rank and depth.",
        ), notes)  # fmt: skip
        panels = figure.subplots(len(drafts), len(temperatures), squeeze=False, sharey="row")
        for own, draft in zip(panels, drafts):
            for axes, temperature in zip(own, temperatures):
                _panel(axes, [r for r in rows if (r.draft, r.temperature) == (draft, temperature)])
                axes.set_title(f"{draft}, T = {temperature:g}", loc="left", fontweight="bold")
            own[0].set_ylabel("estimated speed-up")
        for axes in panels[-1]:
            axes.set_xlabel("rows of a target pass, at most")
        panels[0][0].legend(loc="best", fontsize=8)
        return settled(figure)


def _panel(axes: Axes, rows: list[Row]) -> None:
    budgets = sorted({row.budget for row in rows})
    for place, name in enumerate(CONTENDERS):
        own = sorted((row for row in rows if row.name == name), key=lambda row: row.budget)
        low, value, high = (np.array([getattr(r.speed_up, n) for r in own]) for n in ("low", "value", "high"))  # fmt: skip
        x = np.arange(len(own)) + (place - 2) * 0.09  # side by side, not on each other
        axes.errorbar(x, value, whiskers(low, value, high), **look(list(CONTENDERS), name), label=NAMES[name],
                      lw=1, ms=3.5, elinewidth=0.9)  # fmt: skip
    axes.set_xticks(range(len(budgets)), budgets)


FIGURES = {"trees": trees}
