"""The real loop beside replay: tokens per pass by gamma, and what is left between the two. Runs no model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.drawing.shown import one_setting
from experiments.drawing.style import (
    INK,
    label_ends,
    look,
    message,
    new_figure,
    settled,
    styled,
)
from experiments.loop.run import VERSION
from experiments.loop.table import agreement, bars, points

TITLE = "Replay and the real loop, on the same texts"
HEIGHT = 5.2


def loop(records: list[dict]) -> Figure:
    """Above: tokens per pass of the loop (markers) and by replay (lines). Below: loop less replay, with 95% bars."""
    with styled(), np.errstate(invalid="ignore", divide="ignore"):
        chosen, notes = one_setting(records, VERSION)
        if not chosen:
            return settled(message(TITLE, "No finished records: `selfdraft run loop`.", notes))
        return settled(_loop(points(chosen), notes))


def _loop(found: list[dict], notes: list[str]) -> Figure:
    drafts = list(dict.fromkeys(one["draft"] for one in found))
    temperatures = sorted({one["temperature"] for one in found})
    figure = new_figure(TITLE, HEIGHT, (
        f"Above: markers are the loop's rounds on {found[0]['texts']} texts a point, lines what replay expects of those texts. Below: "
        f"loop less replay, bars 95% of the coins. {agreement(found)}",
    ), notes)  # fmt: skip
    rows = [[], []]
    ends = []
    for i, temperature in enumerate(temperatures):
        mine = [one for one in found if one["temperature"] == temperature]
        for row in (0, 1):
            axes = figure.add_subplot(2, len(temperatures), row * len(temperatures) + i + 1)
            axes.set_xlabel("γ")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            rows[row].append(axes)
        ends.append(_rates(rows[0][-1], mine, drafts))
        _rest(rows[1][-1], mine, drafts)
        rows[0][-1].set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
    for panels in rows:
        low, high = zip(*(axes.get_ylim() for axes in panels))
        for axes in panels:
            axes.set_ylim(min(low), max(high))
    for axes, labels in zip(rows[0], ends):  # now that no scale will change
        label_ends(axes, labels, HEIGHT / 2 - 0.8)
    rows[0][0].set_ylabel("tokens per pass")
    rows[1][0].set_ylabel("loop less replay")
    return figure


def _rates(axes: Axes, mine: list[dict], drafts: list[str]) -> list[tuple]:
    """Draws a panel; the labels of its lines' ends."""
    ends = []
    for draft in drafts:
        own = [one for one in mine if one["draft"] == draft]
        if not own:
            continue
        gammas, by_loop, by_replay = ([one[n] for one in own] for n in ("gamma", "loop", "replay"))
        style = look(drafts, draft)
        axes.plot(gammas, by_replay, color=style["color"], lw=1)
        axes.plot(gammas, by_loop, **style, ls="none", ms=3.5)
        ends.append((draft, gammas[-1], by_replay[-1]))
    axes.set_xlim(0, max(x for _, x, _ in ends) * 1.5)
    return ends


def _rest(axes: Axes, mine: list[dict], drafts: list[str]) -> None:
    axes.axhline(0, color=INK, lw=0.8)
    for place, draft in enumerate(drafts):
        own = [one for one in mine if one["draft"] == draft]
        if not own:
            continue
        x = [one["gamma"] + (place - 1) * 0.22 for one in own]  # side by side, not on each other
        rest = [one["loop"] - one["replay"] for one in own]
        length = [bars(one) * one["error"] for one in own]
        axes.errorbar(x, rest, length, **look(drafts, draft), ls="none", ms=2.5, elinewidth=0.9)
    axes.set_xlim(0, max(one["gamma"] for one in mine) * 1.5)


FIGURES = {"loop": loop}
