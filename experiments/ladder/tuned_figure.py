"""What tuning does to a draft, at the same bytes: overlap against steps, and acceptance before and after. Records -> Figure."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing.style import look, message, new_figure, settled, styled, whiskers
from experiments.ladder.rates import rung

TITLE = "Drafts tuned for acceptance, at the same bytes"


def tuned(records: list[dict]) -> Figure:
    """Left: learning curves of every seed. Right: alpha at T = 1 of untuned and tuned drafts, with intervals."""
    with styled():
        if not records:
            return settled(message(TITLE, "No records: `selfdraft run tuned` makes them."))
        caption = (
            "Left: overlap with the target on text that it wrote behind validation plates; a line a seed, dashes: untuned, on the reporting "
            "prompts. Right: α on the reporting prompts, γ chosen on others; bars: 95% over prompts; first of each format: untuned.",
        )
        figure = new_figure(TITLE, 3.4, caption, ())
        curves, alphas = figure.subplots(1, 2, width_ratios=(3, 2))
        drafts = list(dict.fromkeys(r["point"]["draft"] for r in records))
        for place, draft in enumerate(drafts):
            own = [r for r in records if r["point"]["draft"] == draft]
            style = look(drafts, draft)
            _curves(curves, own, style)
            _alphas(alphas, own, place, style)
        curves.set_xlabel("step")
        curves.set_ylabel("overlap β, T = 1")
        if curves.get_legend_handles_labels()[0]:
            curves.legend(loc="center", bbox_to_anchor=(0.6, 0.52), ncols=2)
        alphas.set_xticks(
            range(len(drafts)), drafts, rotation=30, ha="right", rotation_mode="anchor"
        )
        alphas.set_ylabel("α, T = 1")
        return settled(figure)


def _curves(axes: Axes, records: list[dict], style: dict) -> None:
    label = records[0]["point"]["draft"]
    for record in records:
        if "curve" in record["result"]:
            steps, values = zip(*record["result"]["curve"])
            axes.plot(steps, values, label=label, **style)
            label = None
        else:
            beta = rung(record).rates[1.0].beta
            axes.axhline(beta, color=style["color"], lw=1, ls=(0, (4, 3)))


def _alphas(axes: Axes, records: list[dict], place: int, style: dict) -> None:
    found = [rung(record).rates[1.0].alpha for record in records]
    low, value, high = (np.array([getattr(i, n) for i in found]) for n in ("low", "value", "high"))
    x = place + (np.arange(len(found)) - (len(found) - 1) / 2) * 0.16
    axes.errorbar(x, value, whiskers(low, value, high), capsize=3, **{**style, "ls": ""})


FIGURES = {"tuned": tuned}
