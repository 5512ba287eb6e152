"""Figures of micro and its course: where it is good, how much text it needs, how it was trained. Records -> Figure."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from experiments.course.recipe_rates import baseline, minutes_to
from experiments.drawing.style import (
    INK,
    MUTED,
    look,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.plate.curves import HEADLINE_C, curve

KIND_MARKERS = {"lesson": "o", "copy": "s", "free": "^"}
BITS = "held-out loss (bits per byte)"


def loss_by_plate(records: list[dict]) -> Figure:
    """Held-out loss and overlap of every volume's held-out plate, by kind."""
    title = "Held-out loss and overlap, volume by volume"
    with styled():
        if not records:
            return settled(message(title, "No records: `selfdraft run losses` measures them."))
        first = records[0]["result"]
        sizes = np.array(first["bytes"])
        caption = (
            f"One held-out plate a volume, {sizes.sum():,} bytes in all; dashes: all together. Overlap: sum of min(p, q), the chance "
            "that a drafted byte is accepted at T = 1, both models reading the plate.",
        )
        figure = new_figure(title, 5.0, caption, ())
        above, below = figure.subplots(2, 1, sharex=True)
        volumes = np.arange(1, len(sizes) + 1)
        bits = np.array(first["nats"]) / sizes / log(2)
        kinds = np.array(first["kinds"])
        for kind, marker in KIND_MARKERS.items():
            mine = kinds == kind
            above.plot(volumes[mine], bits[mine], marker, color=INK, label=_kind_text(kind, first))
        above.axhline(sum(first["nats"]) / sizes.sum() / log(2), color=MUTED, lw=1, ls=(0, (4, 3)))
        drafts = [record["point"]["draft"] for record in records]
        for record in records:
            overlap = np.array(record["result"]["overlap"])
            style = look(drafts, record["point"]["draft"])
            below.plot(volumes, overlap / sizes, ls="", label=record["point"]["draft"], **style)
            below.axhline(overlap.sum() / sizes.sum(), color=style["color"], lw=1, ls=(0, (4, 3)))
        for axes, name in ((above, BITS), (below, "overlap β")):
            axes.set_ylabel(name)
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
        below.set_xticks(volumes)
        below.set_xlabel("volume of the course (its last plate is held out)")
        return settled(figure)


def _kind_text(kind: str, result: dict) -> str:
    mine = [i for i, k in enumerate(result["kinds"]) if k == kind]
    size = sum(result["bytes"][i] for i in mine)
    bits = sum(result["nats"][i] for i in mine) / max(size, 1) / log(2)
    return f"{kind} (n = {len(mine)}): {bits:.2f}"


def loss_by_place(records: list[dict]) -> Figure:
    """Held-out loss and overlap by place within a word."""
    title = "Where acceptance comes and goes: by place within a word"
    with styled():
        if not records:
            return settled(message(title, "No records: `selfdraft run losses` measures them."))
        first = records[0]["result"]
        counts = np.array(first["place_bytes"])
        there = np.flatnonzero(counts)
        share = counts / counts.sum()
        caption = (
            f'{counts.sum():,} held-out bytes; a word is a run of letters, "after a word" the byte that ends one; percent: share of the '
            "bytes. Overlap: the chance that a drafted byte is accepted at T = 1.",
        )
        figure = new_figure(title, 5.0, caption, ())
        above, below = figure.subplots(2, 1, sharex=True)
        x = np.arange(len(there))
        above.bar(
            x, np.array(first["place_nats"])[there] / counts[there] / log(2), 0.62, color=MUTED
        )
        drafts = [record["point"]["draft"] for record in records]
        for record in records:
            overlap = np.array(record["result"]["place_overlap"])[there] / counts[there]
            name = record["point"]["draft"]
            below.plot(x, overlap, ls="", label=name, **look(drafts, name))
        names = [f"{first['places'][i]}\n{share[i]:.0%}" for i in there]
        below.set_xticks(x, names)
        above.set_ylabel(BITS)
        below.set_ylabel("overlap β")
        below.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        return settled(figure)


def text_amount(records: list[dict]) -> Figure:
    """Held-out loss, alpha and best speed-up against the share of the course that was trained on."""
    title = "How much text is enough"
    with styled():
        if not records:
            return settled(message(title, "No records: `selfdraft run amount` measures them."))
        caption = (
            "micro trained by one recipe on a part of the plates, taken evenly and read equally often; weights chosen on the same validation plates. "
            f"α at γ = 4, T = 1, over {len(records[0]['result']['prompts'])} prompts; bars: 95% over prompts. "
            "Best speed-up: estimated, c by weight bytes.",
        )
        figure = new_figure(title, 2.9, caption, ())
        panels = figure.subplots(1, 3)
        drafts = list(dict.fromkeys(record["point"]["draft"] for record in records))
        shares = sorted({record["result"]["train_bytes"]: record for record in records}.items())
        x = [size / 1000 for size, _ in shares]
        for split, style in (("held-out", "-o"), ("validation", ":o")):
            bits = [record["result"]["nats"][split] / log(2) for _, record in shares]
            panels[0].plot(x, bits, style, color=INK, label=split)
        for draft in drafts:
            _amount_of_draft(panels, [r for r in records if r["point"]["draft"] == draft], drafts)
        labels = ("bits per byte", "α at γ = 4", "best speed-up (times)")
        for axes, name in zip(panels, labels):
            axes.set_title(name, loc="left")
            axes.set_xscale("log", base=2)
            axes.set_xticks(x, [f"{size:.0f}" for size in x])
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.minorticks_off()
            axes.set_xlabel("training text (kB)")
            axes.legend(loc="best")
        return settled(figure)


def _amount_of_draft(panels: np.ndarray, records: list[dict], drafts: list[str]) -> None:
    records = sorted(records, key=lambda record: record["result"]["train_bytes"])
    x = [record["result"]["train_bytes"] / 1000 for record in records]
    curves = [curve(record) for record in records]
    alphas = [one.at(one.alpha, 4) for one in curves]
    bests = [one.best(one.c[HEADLINE_C])[1] for one in curves]
    style = look(drafts, records[0]["point"]["draft"])
    for axes, found in ((panels[1], alphas), (panels[2], bests)):
        low, value, high = (
            np.array([getattr(i, n) for i in found]) for n in ("low", "value", "high")
        )
        axes.errorbar(x, value, whiskers(low, value, high), capsize=3,
                      label=records[0]["point"]["draft"], **style)  # fmt: skip


def recipe(records: list[dict]) -> Figure:
    """Held-out loss of each training against its minutes."""
    title = "The recipe beside plain AdamW: held-out loss against time"
    with styled():
        if not records:
            return settled(message(title, "No records: `selfdraft run recipe RUN ...` makes them."))
        best = baseline(records)
        caption = (
            "Held-out plates scored at every kept step, after the training. Minutes of the steps and their evaluations, as logged. "
            + (
                "Dotted: the best that an AdamW run reaches; rings: where the others reach it."
                if best
                else ""
            ),
        )
        figure = new_figure(title, 3.6, caption, ())
        axes = figure.add_subplot()
        others = [r for r in records if r["point"]["optimizer"] != "adamw"]
        baselines = [r for r in records if r["point"]["optimizer"] == "adamw"]
        names = ["recipe", *(r["point"]["run"] for r in baselines)]
        for record in [*others, *baselines]:
            ours = record["point"]["optimizer"] != "adamw"
            style = look(names, "recipe" if ours else record["point"]["run"])
            bits = np.array(record["result"]["held_out"]) / log(2)
            axes.plot(record["result"]["minutes"], bits, label=record["point"]["run"],
                      lw=1.1 if ours else 1.8, **{**style, "marker": None if ours else style["marker"]})  # fmt: skip
        if best:
            goal = min(best["result"]["held_out"])
            axes.axhline(goal / log(2), color=MUTED, ls=":", lw=1.2)
            for record in others:
                if (at := minutes_to(record, goal)) is not None:
                    axes.plot([at], [goal / log(2)], "o", ms=9, mfc="none", color=INK)
        low = min(min(r["result"]["held_out"]) for r in records) / log(2)
        axes.set_ylim(low - 0.05, low + 1.0)
        axes.set_xlabel("minutes")
        axes.set_ylabel(BITS)
        axes.legend(loc="upper right")
        return settled(figure)


FIGURES: dict[str, Callable[[list[dict]], Figure]] = {
    "loss-by-plate": loss_by_plate,
    "loss-by-place": loss_by_place,
    "text-amount": text_amount,
    "recipe": recipe,
}
