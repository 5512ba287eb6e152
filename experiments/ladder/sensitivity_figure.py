"""Sensitivity as rows and as a figure: what alpha loses when a part of the model alone is rounded. Runs no model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.drawing.style import look, message, new_figure, settled, styled, whiskers
from experiments.ladder.error_laws import plain_log
from experiments.stats import interval, resample_weights

TITLE = "Which matrices cost acceptance"


def as_rows(records: list[dict]) -> list[dict]:
    """part, bits, bytes, and 1 - alpha with its interval over prompts; search steps, which are no part, are passed over."""
    rows = []
    for record in records:
        point, result = record["point"], record["result"]
        if "part" not in point:
            continue
        weights = resample_weights(len(result["accepted"]))
        lost = 1 - (weights @ np.array(result["accepted"])) / (
            weights @ np.array(result["checked"])
        )
        at = interval(lost)
        rows.append(
            {
                "part": short(point["part"]),
                "bits": point["bits"],
                "bytes": result["bytes"],
                "lost": at.value,
                "low": at.low,
                "high": at.high,
            }
        )
    return rows


def short(part: str) -> str:
    """model.layers.2.mlp.up_proj.weight -> 2 up_proj; model.embed_tokens.weight -> embed_tokens."""
    steps = part.removesuffix(".weight").split(".")
    numbers = [step for step in steps if step.isdigit()]
    return " ".join([*numbers, steps[-1]])


def as_text(rows: list[dict], mixes: dict) -> str:
    """A line a part, costliest first at the fewest bits, and the mixes that were found."""
    bits = sorted({row["bits"] for row in rows})
    by_part: dict[str, dict[int, dict]] = {}
    for row in rows:
        by_part.setdefault(row["part"], {})[row["bits"]] = row
    order = sorted(by_part, key=lambda part: -by_part[part][bits[0]]["lost"])
    width = max(map(len, by_part))
    lines = ["1 - alpha where this part alone is rounded (T = 1, gamma 4):"]
    lines.append("  ".join([f"{'part':{width}}", *(f"{f'at {b} bits':>22}" for b in bits)]))
    for part in order:
        cells = (f"{r['lost']:.4f} [{r['low']:.4f}, {r['high']:.4f}]" for r in map(by_part[part].get, bits))  # fmt: skip
        lines.append("  ".join([f"{part:{width}}", *(f"{cell:>22}" for cell in cells)]))
    for name, mix in mixes.items():
        bits_text = ", ".join(f"{short(n)} {b}" for n, b in mix["bits"].items())
        lines.append(f"{name}: alpha {mix['alpha']:.4f} on the choosing prompts; bits: {bits_text}")
    return "\n".join(lines)


def sensitivity(records: list[dict]) -> Figure:
    """Left: every matrix; right: whole layers and kinds; a mark for each width."""
    with styled():
        rows = as_rows(records)
        if not rows:
            return settled(message(TITLE, "Nothing on record: `selfdraft run sensitivity` measures it."))  # fmt: skip
        return settled(_draw(rows))


def _draw(rows: list[dict]) -> Figure:
    caption = [
        "1 − α at T = 1, γ = 4, on the choosing prompts, where this part alone is rounded (searched scale, groups of 32), all else in 16 bits. "
        "Bars: 95% over prompts. A tied embedding is also the head."
    ]
    figure = new_figure(TITLE, 6.4, caption, ())
    panels = figure.subplots(1, 2, sharex=True)
    names = list(dict.fromkeys(row["part"] for row in rows))
    groups = [n for n in names if n.startswith(("layer", "kind", "all"))]
    for axes, parts in zip(panels, ([n for n in names if n not in groups], groups)):
        _parts(axes, parts, rows)
    bits = sorted({row["bits"] for row in rows}, reverse=True)
    handles = [Line2D([], [], label=f"{b} bits", ls="", **look(bits, b)) for b in bits]
    panels[0].legend(handles=handles, loc="center right")
    return figure


def _parts(axes: Axes, parts: list[str], rows: list[dict]) -> None:
    bits = sorted({row["bits"] for row in rows}, reverse=True)
    for width in bits:
        own = {row["part"]: row for row in rows if row["bits"] == width}
        there = [part for part in parts if part in own]
        value, low, high = (np.array([own[p][k] for p in there]) for k in ("lost", "low", "high"))
        y = np.array([parts.index(p) for p in there]) + 0.12 * (
            bits.index(width) * 2 - len(bits) + 1
        )
        axes.errorbar(value, y, xerr=whiskers(low, value, high), ls="", capsize=2, **look(bits, width))  # fmt: skip
    axes.set_yticks(range(len(parts)), parts)
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.grid(axis="x")
    axes.set_xlabel("1 − α")


FIGURES = {"sensitivity": sensitivity}
