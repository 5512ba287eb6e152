"""One function per figure: the estimate's records -> a matplotlib Figure. Runs no model, reads no file, opens no window.

A point that is missing or null leaves a gap, and the figure says so; so it does where records come from another version of
the experiment. Intervals are 95%, over prompts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator

from experiments.drawing.shown import Shown, c_text, sample_text, shown
from experiments.drawing.style import (
    INK,
    MUTED,
    label_ends,
    look,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.plate.curves import HEADLINE_C, Curve, series
from experiments.stats import Interval
from specdec.theory import break_even_alpha

PLATE_GAMMA = 4
FORMULA = {"color": INK, "lw": 1.0, "ls": (0, (4, 2.5)), "zorder": 3}
NOTHING = "No finished records to draw: `selfdraft plate` measures them."


def tokens_per_pass(records: list[dict]) -> Figure:
    """Tokens per pass against gamma: measured, beside the formula and the ceiling gamma + 1."""
    return _drawn(records, "Tokens per pass, measured and by formula", _tokens_per_pass)


def speed_up(records: list[dict]) -> Figure:
    """Estimated speed-up against gamma, with each draft's best gamma and the line at 1."""
    return _drawn(records, "Estimated speed-up", _speed_up)


def alpha(records: list[dict]) -> Figure:
    """Alpha against temperature, with the alpha at which each draft breaks even."""
    return _drawn(records, "How much of the draft is accepted, by temperature", _alpha)


def by_kind(records: list[dict]) -> Figure:
    """Alpha and best speed-up by kind of prompt."""
    return _drawn(records, "By kind of prompt: lesson, copy, free", _by_kind)


FIGURES: dict[str, Callable[[list[dict]], Figure]] = {
    "tokens-per-pass": tokens_per_pass,
    "speed-up": speed_up,
    "alpha": alpha,
    "by-kind": by_kind,
}


def _drawn(records: list[dict], title: str, draw: Callable[[Shown, str], Figure]) -> Figure:
    # a rate whose count is 0 or null is NaN, which is what leaves the gap
    with styled(), np.errstate(invalid="ignore", divide="ignore"):
        found = shown(records)
        figure = draw(found, title) if found.curves else message(title, NOTHING, found.notes)
        return settled(figure)


def _tokens_per_pass(found: Shown, title: str) -> Figure:
    height = 3.2
    caption = (
        f"{sample_text(found)} Bands: 95% over prompts. Measured: by replay. Formula: f(α) = (1 − α^(γ+1)) / (1 − α) "
        "with the α measured at the same γ.",
    )
    figure, panels = _panels(found, title, height, caption)
    top = 1.12 * max(float(np.nanmax(one.tokens_per_pass)) for one in found.curves)
    for axes, temperature in zip(panels, found.temperatures):
        axes.set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
        axes.set_ylim(1, top)
        ends = []
        for one in found.at(temperature):
            value = _line(axes, one, one.tokens_per_pass, found)
            axes.plot(one.gammas, one.formula[0], **FORMULA)
            ends.append(_end(one, value))
        _ceiling(axes, found, top)
        label_ends(axes, ends, height - 0.7)
    panels[0].set_ylabel("tokens per pass (emitted / rounds)")
    panels[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    kinds = [
        Line2D([], [], color=MUTED, marker="o", label="measured"),
        Line2D([], [], label="formula f(α)", **FORMULA),
    ]
    figure.legend(
        handles=kinds, loc="upper right", bbox_to_anchor=(0.99, 0.975), ncols=2, handlelength=2.4
    )
    return figure


def _ceiling(axes: Axes, found: Shown, top: float) -> None:
    gammas = _gammas(found)
    x = np.array([0, gammas[-1]])
    axes.plot(x, x + 1, ":", color=MUTED, lw=1.4)
    axes.text(min(top - 1, gammas[-1]) + 0.25, top, "ceiling γ + 1", va="top", color=MUTED)


def _speed_up(found: Shown, title: str) -> Figure:
    caption = (
        f"Tokens per pass / (1 + γ c), c by weight bytes: {c_text(found)}. Rings and figures: the best γ and its "
        "speed-up, [95%] with γ chosen again in each resample.",
        f"{sample_text(found)} Bands: 95% over prompts.",
    )
    figure, panels = _panels(found, f"{title}: {_best_text(found)}", 3.5, caption)
    for axes, temperature in zip(panels, found.temperatures):
        axes.axhline(1, color=INK, lw=1.1)
        handles = [_speed_up_line(axes, one, found) for one in found.at(temperature)]
        _legend(axes, f"T = {temperature:g}", handles)
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(min(low, 0.85), max(high, 1.15))
    panels[-1].annotate("no\ndraft", (1, 1), (4, 0), xycoords=("axes fraction", "data"),
                        textcoords="offset points", va="center", linespacing=1)  # fmt: skip
    panels[0].set_ylabel("estimated speed-up (times)")
    return figure


def _best_text(found: Shown) -> str:
    one = max(found.curves, key=lambda one: one.best(one.c[HEADLINE_C])[1].value)
    gamma, best = one.best(one.c[HEADLINE_C])
    return f"at best {best} times, {one.draft} at T = {one.temperature:g}, γ = {gamma}"


def _speed_up_line(axes: Axes, one: Curve, found: Shown) -> Line2D:
    """Draws one draft; returns what the legend shows of it."""
    c, style = one.c[HEADLINE_C], look(found.drafts, one.draft)
    _line(axes, one, one.speed_up(c), found)
    gamma, best = one.best(c)
    _point(axes, gamma, best, {**style, "marker": "o"}, ms=10, mfc="none", mew=1.3)
    text = f"{one.draft} {best}, γ {gamma}"
    return Line2D([], [], label=text, **style)


def _alpha(found: Shown, title: str) -> Figure:
    height, gamma = 3.0, _plate_gamma(found)
    caption = (
        f"α = accepted / checked, at γ = {gamma}. {sample_text(found)} Bars: 95% over prompts. Dashes: the α above which "
        f"γ = {gamma} pays by the formula, c by weight bytes: {c_text(found)}.",
    )
    figure = new_figure(title, height, caption, found.notes)
    axes = figure.add_subplot()
    ends, highest = [], max(found.temperatures)
    for i, draft in enumerate(found.drafts):
        mine = [one for one in found.curves if one.draft == draft and gamma in one.gammas]
        mine.sort(key=lambda one: one.temperature)
        shift = 0.012 * max(highest, 1) * (i - (len(found.drafts) - 1) / 2)
        x = np.array([one.temperature for one in mine]) + shift
        at = [one.at(one.alpha, gamma) for one in mine]
        value = np.array([a.value for a in at])
        errors = whiskers(np.array([a.low for a in at]), value, np.array([a.high for a in at]))
        axes.errorbar(x, value, errors, capsize=3, **look(found.drafts, draft))
        if np.isfinite(value).any():
            last = np.flatnonzero(np.isfinite(value))[-1]
            ends.append((draft, x[last], value[last]))
    axes.set_xticks(found.temperatures, [f"{t:g}" for t in found.temperatures])
    axes.set_xlim(min(found.temperatures) - 0.08, highest + 0.18)
    levels = _break_even(axes, found, gamma)
    axes.set_ylim(max(axes.get_ylim()[0] - 0.05, 0), min(axes.get_ylim()[1] + 0.05, 1))
    label_ends(axes, ends, height - 0.5)
    label_ends(axes, levels, height - 0.5, MUTED)
    axes.set_xlabel("temperature T")
    axes.set_ylabel(f"α at γ = {gamma}")
    return figure


def _break_even(axes: Axes, found: Shown, gamma: int) -> list[tuple[str, float, float]]:
    """One dashed line for each c that the drafts have; returns the labels of the lines' ends."""
    names: dict[float, list[str]] = {}
    for one in found.curves:
        drafts = names.setdefault(one.c[HEADLINE_C], [])
        drafts += [one.draft] if one.draft not in drafts else []
    labels = []
    for c, drafts in names.items():
        level = break_even_alpha(gamma, c)
        if level is not None:
            axes.axhline(level, color=MUTED, lw=1.1, ls=(0, (4, 3)))
            labels.append(
                (f"pays above {level:.2f} ({', '.join(drafts)})", axes.get_xlim()[1], level)
            )
    return labels


def _by_kind(found: Shown, title: str) -> Figure:
    gamma = _plate_gamma(found)
    caption = (
        f"α at γ = {gamma}; best speed-up with c by weight bytes ({c_text(found)}), its γ above it. {sample_text(found)} "
        "Bars: 95% over the prompts of the kind.",
    )
    figure = new_figure(title, 4.6, caption, found.notes)
    temperatures = sorted({found.temperatures[-1], found.temperatures[0]}, reverse=True)
    panels = figure.subplots(2, len(temperatures), sharex=True, sharey="row", squeeze=False)
    counts = Counter(found.records[0]["result"]["kinds"])
    for column, temperature in enumerate(temperatures):
        for one in found.kinds(temperature):
            _kinds_of_draft(panels[:, column], one, found, gamma)
        panels[0, column].set_title(f"T = {temperature:g}", loc="left", fontweight="bold")
        panels[1, column].axhline(1, color=INK, lw=1.1)
        panels[1, column].set_xticks(
            range(len(counts)), [f"{k} (n = {n})" for k, n in counts.items()]
        )
    handles = [Line2D([], [], label=d, ls="", **look(found.drafts, d)) for d in found.drafts]
    panels[0, -1].legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles))  # fmt: skip
    panels[0, 0].set_ylabel(f"α at γ = {gamma}")
    panels[1, 0].set_ylabel("best estimated\nspeed-up (times)")
    for row, room in zip(panels, (0.1, 0.18)):
        for axes in row:  # a shared axis takes the narrowest margin
            axes.margins(y=room)
    panels[0, 0].set_ylim(top=min(panels[0, 0].get_ylim()[1], 1))
    return figure


def _kinds_of_draft(panels: np.ndarray, kinds: dict[str, Curve], found: Shown, gamma: int) -> None:
    """Alpha above, best speed-up below; drafts stand side by side within a kind."""
    for place, one in enumerate(kinds.values()):
        style = look(found.drafts, one.draft)
        x = place + 0.26 * (found.drafts.index(one.draft) - (len(found.drafts) - 1) / 2)
        if gamma in one.gammas:
            _point(panels[0], x, one.at(one.alpha, gamma), style)
        speed = one.speed_up(one.c[HEADLINE_C])[0]
        if np.isfinite(speed).any():
            best_gamma, best = one.best(one.c[HEADLINE_C])
            _point(panels[1], x, best, style)
            panels[1].annotate(f"γ {best_gamma}", (x, max(best.high, best.value)), (0, 4),
                               textcoords="offset points", ha="center", va="bottom")  # fmt: skip
    panels[1].set_xlim(-0.6, len(kinds) - 0.4)


def _panels(
    found: Shown, title: str, height: float, caption: tuple[str, ...]
) -> tuple[Figure, np.ndarray]:
    """A figure with a panel for each temperature, gamma along x, y shared."""
    figure = new_figure(title, height, caption, found.notes)
    panels = figure.subplots(1, len(found.temperatures), sharey=True, squeeze=False)[0]
    gammas = _gammas(found)
    for axes in panels:
        axes.set_xlabel("γ (drafted tokens per round)")
        axes.set_xlim(gammas[0] - 0.6, gammas[-1] + 0.6)
        axes.xaxis.set_major_locator(MultipleLocator(1 if len(gammas) <= 12 else 4))
    return figure, panels


def _line(axes: Axes, one: Curve, values: np.ndarray, found: Shown) -> np.ndarray:
    """A draft's line and band over gamma; returns the line."""
    value, low, high = series(values)
    style = look(found.drafts, one.draft)
    axes.fill_between(one.gammas, low, high, color=style["color"], alpha=0.22, lw=0)
    axes.plot(one.gammas, value, **style)
    return value


def _point(axes: Axes, x: float, at: Interval, style: dict, **more) -> None:
    errors = whiskers(np.array([at.low]), np.array([at.value]), np.array([at.high]))
    axes.errorbar([x], [at.value], errors, capsize=3, ls="", **style, **more)


def _end(one: Curve, value: np.ndarray) -> tuple[str, float, float]:
    last = np.flatnonzero(np.isfinite(value))[-1]
    return one.draft, float(one.gammas[last]), float(value[last])


def _legend(axes: Axes, title: str, handles: list[Line2D]) -> None:
    """Above the axes, where no line can run into it."""
    axes.legend(handles=handles, title=title, loc="lower left", bbox_to_anchor=(-0.02, 1),
                      alignment="left", title_fontproperties={"weight": "bold", "size": 10})  # fmt: skip


def _gammas(found: Shown) -> list[int]:
    return sorted({int(gamma) for one in found.curves for gamma in one.gammas})


def _plate_gamma(found: Shown) -> int:
    """The plate's gamma, or the nearest one there is."""
    return min(_gammas(found), key=lambda gamma: abs(gamma - PLATE_GAMMA))
