"""How much text micro needs, drawn. Records -> Figure."""

from __future__ import annotations

from math import log

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from experiments.drawing.style import (
    INK,
    look,
    message,
    new_figure,
    settled,
    styled,
    whiskers,
)
from experiments.plate.curves import HEADLINE_C, curve

BITS = "held-out loss (bits per byte)"


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


FIGURES = {"text-amount": text_amount}
