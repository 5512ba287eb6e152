"""How micro was trained, beside plain AdamW, drawn. Records -> Figure."""

from __future__ import annotations

from math import log

import numpy as np
from matplotlib.figure import Figure

from experiments.course.recipe_rates import baseline, minutes_to
from experiments.drawing.style import (
    INK,
    MUTED,
    look,
    message,
    new_figure,
    settled,
    styled,
)

BITS = "held-out loss (bits per byte)"


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


FIGURES = {"recipe": recipe}
