"""Where micro is good and where it is not, drawn. Records -> Figure."""

from __future__ import annotations

from math import log

import numpy as np
from matplotlib.figure import Figure

from experiments.drawing.style import (
    INK,
    MUTED,
    look,
    message,
    new_figure,
    settled,
    styled,
)

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


FIGURES = {"loss-by-plate": loss_by_plate, "loss-by-place": loss_by_place}
