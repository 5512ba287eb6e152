"""What a rule changes: block over token by gamma, and alpha of every rule by temperature. Runs no model."""

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
    whiskers,
)
from experiments.plate.curves import Curve, series
from experiments.rules.run import RULES, VERSION
from experiments.rules.table import curves

TITLE = "What the acceptance rule changes"
HEIGHT = 5.4


def rules(records: list[dict]) -> Figure:
    """Above: tokens per pass of block over token's, for each temperature above 0. Below: alpha of each rule, for each draft."""
    with styled(), np.errstate(invalid="ignore", divide="ignore"):
        chosen, notes = one_setting(records, VERSION)
        if not chosen:
            return settled(message(TITLE, "No finished records: `selfdraft run rules`.", notes))
        return settled(_rules(chosen, notes))


def _rules(records: list[dict], notes: list[str]) -> Figure:
    found = {(r["point"]["draft"], r["point"]["temperature"]): curves(r) for r in records}
    drafts = list(dict.fromkeys(draft for draft, _ in found))
    warm = sorted({t for _, t in found if t > 0})
    gamma = records[0]["result"]["loop_gamma"]
    figure = new_figure(TITLE, HEIGHT, (
        "Above: tokens per pass under block verification over those under the token rule, on the same texts; at T = 0 the two are "
        f"one. Below: α = accepted / checked at γ = {gamma}. {len(records[0]['result']['prompts'])} prompts, by replay; bands and "
        "bars: 95% over prompts.",
    ), notes)  # fmt: skip
    columns = max(len(warm), len(drafts))
    above = [figure.add_subplot(2, columns, i + 1) for i in range(len(warm))]
    below = [figure.add_subplot(2, columns, columns + i + 1) for i in range(len(drafts))]
    ends = []
    for axes, temperature in zip(above, warm):
        ends.append(_gain(axes, temperature, {d: found[d, temperature] for d in drafts if (d, temperature) in found}))  # fmt: skip
    for axes, draft in zip(below, drafts):
        own = {t: rules for (d, t), rules in found.items() if d == draft}
        ends.append(_alpha(axes, draft, own, gamma))
    _share_scale(above)
    _share_scale(below)
    for axes, labels in zip(above + below, ends):  # now that no scale will change
        label_ends(axes, labels, HEIGHT / 2 - 0.8)
    above[0].set_ylabel("block over token, %")
    below[0].set_ylabel("α")
    return figure


def _gain(axes: Axes, temperature: float, found: dict[str, dict[str, Curve]]) -> list[tuple]:
    """Draws a panel; the labels of its lines' ends."""
    drafts, ends = list(found), []
    for draft, own in found.items():
        gain = 100 * (own["block"].tokens_per_pass / own["token"].tokens_per_pass - 1)
        value, low, high = series(gain)
        gammas = own["token"].gammas
        axes.plot(gammas, value, **look(drafts, draft), ms=3)
        axes.fill_between(gammas, low, high, color=look(drafts, draft)["color"], alpha=0.18, lw=0)
        ends.append((draft, gammas[-1], value[-1]))
    axes.set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
    axes.set_xlabel("γ")
    axes.set_xlim(0, max(x for _, x, _ in ends) * 1.3)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return ends


def _alpha(axes: Axes, draft: str, found: dict[float, dict[str, Curve]], gamma: int) -> list[tuple]:
    """Draws a panel; the labels of its lines' ends."""
    temperatures, ends = sorted(found), []
    for rule in RULES:
        points = [found[t][rule].at(found[t][rule].alpha, gamma) for t in temperatures]
        value, low, high = (np.array([getattr(p, n) for p in points]) for n in ("value", "low", "high"))  # fmt: skip
        axes.errorbar(
            temperatures, value, whiskers(low, value, high), **look(list(RULES), rule), ms=3.5
        )
        ends.append((rule, temperatures[-1], value[-1]))
    axes.set_title(draft, loc="left", fontweight="bold", color=INK)
    axes.set_xlabel("T")
    axes.set_xlim(-0.1, temperatures[-1] * 1.5 + 0.1)
    axes.set_xticks(temperatures)
    return ends


def _share_scale(panels: list[Axes]) -> None:
    """One scale for a row of panels, with room for labels that were moved apart."""
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    room = 0.08 * (high - low)
    for axes in panels:
        axes.set_ylim(low - room, high + room)


FIGURES = {"rules": rules}
