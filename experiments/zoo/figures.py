"""The zoo's figures: speed-up by kind of prompt, acceptance against bytes, learning curves. Runs no model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.drawing.palette import LOOKS
from experiments.drawing.point_names import Named, name_points
from experiments.drawing.style import (
    MUTED,
    label_ends,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.zoo.points import ALONE, GROUPS, ZOO
from experiments.zoo.rates import KINDS, Animal, best_of_group
from experiments.zoo.table import groups, known

NAMED_FROM = 0.19  # alpha
NOTHING = "No drafts on record: `selfdraft run zoo` measures them."


def by_kind(records: list[dict]) -> Figure:
    """The fastest draft of each group at T = 1: its speed-up on each kind of prompt, at every temperature."""
    title = "Speed-up by kind of prompt: the best of each group"
    with styled():
        animals = known(records)
        warm = [one for one in animals if one.temperature == 1]
        best = best_of_group(warm, groups(warm))
        if not best:
            return settled(message(title, NOTHING))
        names = [one.draft for one in sorted(best.values(), key=lambda one: one.speed_up.value)]
        temperatures = sorted({one.temperature for one in animals})
        height = 1.2 + 0.34 * len(names)
        figure = new_figure(title, height, (
            "Estimated speed-up by weight bytes, a verifying pass costing 1; budgets chosen on other plates. Bars: 95% over prompts. Each "
            "group's draft is its fastest at T = 1: "
            + ", ".join(f"{g} {one.draft}" for g, one in best.items()) + ".",
        ), ())  # fmt: skip
        for place, temperature in enumerate(temperatures):
            axes = figure.add_subplot(1, len(temperatures), place + 1)
            _kinds(axes, names, [o for o in animals if o.temperature == temperature], place == 0)
            axes.set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
        figure.axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.75 / height), ncols=3)
        return settled(figure)


def _kinds(axes: Axes, names: list[str], animals: list[Animal], named: bool) -> None:
    found = {one.draft: one for one in animals}
    for k, kind in enumerate(KINDS):
        rows = [(y, found[n].by_kind[kind]) for y, n in enumerate(names) if n in found and kind in found[n].by_kind]  # fmt: skip
        colour, marker = LOOKS[k]
        value, low, high = (np.array([getattr(i, end) for _, i in rows]) for end in ("value", "low", "high"))  # fmt: skip
        y = np.array([y for y, _ in rows]) + (1 - k) * 0.22
        axes.errorbar(value, y, xerr=whiskers(low, value, high), ls="", color=colour, marker=marker, ms=4, lw=1, label=kind)  # fmt: skip
    axes.axvline(1, color=MUTED, lw=0.8)
    axes.grid(axis="x")
    axes.set_yticks(range(len(names)), names if named else [""] * len(names))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("speed-up")


def by_bytes(records: list[dict]) -> Figure:
    """Every chain at T = 1: what it loses against what a pass of it reads."""
    title = "Acceptance against bytes: which part of micro to draft with"
    with styled():
        shown = [one for one in known(records) if one.temperature == 1 and one.alpha is not None
                 and one.c > 0 and 0 < one.alpha.value < 1 and ZOO[one.draft].group != "cascades"]  # fmt: skip
        if not shown:
            return settled(message(title, NOTHING))
        figure = new_figure(title, 8.4, (
            "T = 1, α at each draft's own best γ; c by weight bytes, target in bfloat16. Bars: 95% over prompts. A draft is worth more "
            f"the higher and the further left it stands. Without a name: below α = {NAMED_FROM:g}, layers without the first. Cascades, whose "
            "passes differ, are left out.",
        ), ())  # fmt: skip
        axes = figure.add_subplot()
        _scales(axes, shown)
        named = [one for group in GROUPS for one in _group(axes, group, shown)]
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.07), ncols=5)
        figure = settled(figure)
        name_points(axes, named, [], size=7)
        return figure


def _group(axes: Axes, group: str, shown: list[Animal]) -> list[Named]:
    """Draws a group's points; their names."""
    mine = [one for one in shown if ZOO[one.draft].group == group]
    if not mine:
        return []
    colour, marker, fill = look(group)
    lost = np.array([[1 - o.alpha.high, 1 - o.alpha.value, 1 - o.alpha.low] for o in mine]).T
    axes.errorbar([one.c for one in mine], lost[1], yerr=whiskers(*lost), ls="", color=colour, marker=marker,
                  fillstyle=fill, ms=5, lw=1, label=group)  # fmt: skip
    return [
        Named(one.draft, (one.c, 1 - one.alpha.value), colour)
        for one in mine
        if one.alpha.value > NAMED_FROM
    ]


def look(group: str) -> tuple[str, str, str]:
    """Colour, marker and filling: the palette twice, full and hollow."""
    round_, place = divmod(list(GROUPS).index(group), len(LOOKS))
    return (*LOOKS[place], "none" if round_ else "full")


def _scales(axes: Axes, shown: list[Animal]) -> None:
    """1 - alpha on a log axis that falls, as in the frontier's figure."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(o.c for o in shown) / 1.3, max(o.c for o in shown) * 1.9)
    axes.set_ylim(1.05, min(1 - o.alpha.high for o in shown) / 1.3)
    alphas = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
    low, high = sorted(axes.get_ylim())
    axes.yaxis.set_major_locator(FixedLocator([1 - a for a in alphas if low < 1 - a < high]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{1 - y:g}"))
    ticks = (
        0.0001,
        0.0002,
        0.0005,
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.3,
        0.5,
        0.75,
        1.0,
    )
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(FixedLocator([t for t in ticks if low < t < high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("c: bytes a draft pass reads / bytes a target pass reads")
    axes.set_ylabel("α = accepted / checked")


def curves(records: list[dict]) -> Figure:
    """Learning curves: overlap with micro of what was trained to draft, loss of what was trained on text alone."""
    title = "Learning curves of the trained drafts"
    with styled():
        found = {}
        for record in records:
            trained = record["result"].get("training")
            name = record["point"]["draft"]
            if trained and trained.get("curve") and name in ZOO:
                found[ZOO[name].trained] = trained
        if not found:
            return settled(message(title, "No trained draft on record holds a learning curve."))
        figure = new_figure(title, 4.6, (
            "On validation plates, over minutes of training on one thread beside other work. Overlap: Σ min(p, q) behind what micro "
            "wrote, of heads the mean of the places they draft. Left: towards micro's own law; right: on people's text.",
        ), ())  # fmt: skip
        drafting = {name: one for name, one in found.items() if name not in ALONE}
        alone = {name: one for name, one in found.items() if name in ALONE}
        panels = [(drafting, "overlap with micro"), (alone, "loss (nats a byte)")]
        panels = [(part, label) for part, label in panels if part]
        for place, (part, label) in enumerate(panels):
            _learning(figure.add_subplot(1, len(panels), place + 1), part, label)
        return settled(figure)


def _learning(axes: Axes, found: dict[str, dict], label: str) -> None:
    ends = []
    for place, (name, trained) in enumerate(found.items()):
        steps, values = np.array(trained["curve"], dtype=float).T
        minutes = steps / steps[-1] * trained["minutes"]
        round_, i = divmod(place, len(LOOKS))
        colour, marker = LOOKS[i]
        axes.plot(minutes, values, color=colour, marker=marker, ms=3, fillstyle="none" if round_ else "full")  # fmt: skip
        ends.append((name.split("/")[-1], minutes[-1], values[-1]))
    axes.set_xlim(0, max(x for _, x, _ in ends) * 1.5)
    axes.set_xlabel("minutes of training")
    axes.set_title(label, loc="left")
    label_ends(axes, ends, 3.6)


# file -> figure
FIGURES: dict[str, Callable[[list[dict]], Figure]] = {
    "zoo-by-kind": by_kind,
    "zoo-bytes": by_bytes,
    "zoo-curves": curves,
}
