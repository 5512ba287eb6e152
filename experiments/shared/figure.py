"""alpha by place in the round, with a draft's own cache and over the target's. Runs no model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing.shown import one_setting
from experiments.drawing.style import (
    label_ends,
    look,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.shared.run import VERSION
from experiments.shared.table import Row, row

TITLE = "A draft with its own cache, and over the target's"
HEIGHT = 3.6


def shared(records: list[dict]) -> Figure:
    """A panel for each temperature: dashed lines and open markers are own caches, full ones shared."""
    with styled():
        chosen, notes = one_setting(records, VERSION)
        if not chosen:
            return settled(message(TITLE, "No finished records: `selfdraft run shared`.", notes))
        return settled(_shared(chosen, notes))


def _shared(records: list[dict], notes: list[str]) -> Figure:
    rows = [row(record) for record in records]
    drafts = list(dict.fromkeys(one.draft for one in rows))
    temperatures = sorted({one.temperature for one in rows})
    result = records[0]["result"]
    figure = new_figure(TITLE, HEIGHT, (
        f"α of the token at each place of a round, of the rounds that came so far: the real loop at γ = {result['gamma']}, "
        f"{len(result['prompts'])} prompts. Full: the copy reads the target's keys and values; dashed: its own. Bars: 95% over prompts. "
        "Later places are reached in easy text only.",
    ), notes)  # fmt: skip
    panels = []
    for number, temperature in enumerate(temperatures):
        axes = figure.add_subplot(1, len(temperatures), number + 1)
        mine = [one for one in rows if one.temperature == temperature]
        panels.append((axes, [_line(axes, one, drafts) for one in mine if one.cache == "shared"]))
        for one in mine:
            if one.cache != "shared":
                _line(axes, one, drafts)
        axes.set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
        axes.set_xlabel("place in the round")
        axes.set_xticks(range(1, result["gamma"] + 1))
        axes.set_xlim(0.5, result["gamma"] + 2)
    low = min(axes.get_ylim()[0] for axes, _ in panels)
    for axes, ends in panels:
        axes.set_ylim(low, 1.01)
        label_ends(axes, ends, HEIGHT - 0.8)
    panels[0][0].set_ylabel("α")
    return figure


def _line(axes: Axes, one: Row, drafts: list[str]) -> tuple[str, float, float]:
    """Draws it; the label of its end."""
    own = one.cache == "own"
    known = [(place, p) for place, p in enumerate(one.places, 1) if p is not None]
    x = np.array([place for place, _ in known]) + (-0.1 if own else 0.1)
    value, low, high = (np.array([getattr(p, n) for _, p in known]) for n in ("value", "low", "high"))  # fmt: skip
    style = look(drafts, one.draft) | {"ls": "--" if own else "-", "lw": 1.2 if own else 1.6}
    if own:
        style["mfc"] = "none"
    axes.errorbar(x, value, whiskers(low, value, high), **style, ms=3.5, elinewidth=0.8)
    return one.draft, float(x[-1]), float(value[-1])


FIGURES = {"shared": shared}
