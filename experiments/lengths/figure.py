"""How much of the gap between the best fixed gamma and the oracle each policy closes. Runs no model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing.shown import one_setting
from experiments.drawing.style import (
    INK,
    look,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.lengths.run import VERSION
from experiments.lengths.table import ENDS, Row, rows_of

TITLE = "How many tokens to draft: what adapting is worth"


def lengths(records: list[dict]) -> Figure:
    with styled():
        chosen, notes = one_setting(records, VERSION)
        if not chosen:
            return settled(message(TITLE, "No finished records: `selfdraft run lengths`.", notes))
        rows = rows_of(chosen)
        temperatures = sorted({row.temperature for row in rows})
        figure = new_figure(TITLE, 3.0, (
            "Share of the gap in estimated speed-up between the best fixed γ (0%) and an oracle that drafts what will be kept (100%); every "
            f"policy's numbers chosen on other prompts, {len(chosen[0]['result']['prompts'])} prompts, all on the same rounds; bars: 95% over prompts.",
        ), notes)  # fmt: skip
        panels = figure.subplots(1, len(temperatures), squeeze=False, sharey=True)[0]
        drafts = list(dict.fromkeys(row.draft for row in rows))
        names = [n for n in dict.fromkeys(row.name for row in rows) if n not in ENDS]
        for axes, temperature in zip(panels, temperatures):
            _panel(axes, [r for r in rows if r.temperature == temperature], drafts, names)
            axes.set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
            axes.set_xlabel("share of the gap closed, %")
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        panels[0].legend(loc="lower left")
        return settled(figure)


def _panel(axes: Axes, rows: list[Row], drafts: list[str], names: list[str]) -> None:
    axes.axvline(0, color=INK, lw=0.8)
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    for place, draft in enumerate(drafts):
        own = {row.name: row.share for row in rows if row.draft == draft}
        there = [i for i, name in enumerate(names) if name in own]
        low, value, high = (np.array([100 * getattr(own[names[i]], side) for i in there]) for side in ("low", "value", "high"))  # fmt: skip
        y = np.array(there) + (place - (len(drafts) - 1) / 2) * 0.25
        axes.errorbar(value, y, xerr=whiskers(low, value, high), **{**look(drafts, draft), "ls": ""}, label=draft,
                      ms=4, elinewidth=1)  # fmt: skip


FIGURES = {"lengths": lengths}
