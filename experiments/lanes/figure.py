"""The lane study's figure: the share of rows whose bits differ, of texts that fork, where, and the top-2 margins that decide it.

Runs no model, reads no file. Both counts of threads are added up.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, PercentFormatter

from experiments.drawing.shown import one_setting
from experiments.drawing.style import look, message, new_figure, settled, styled
from experiments.identity.counts import Counts
from experiments.lanes.points import DRAFT, DTYPES, VERSION
from experiments.lanes.table import counts_of, edges, merged, quantile

TITLE = "Why greedy text forks without lanes"
HEIGHT = 5.0


def forks(records: list[dict]) -> Figure:
    """By number type: rows that differ and texts that fork against gamma, where they fork, and the margins of rows and forks."""
    with styled():
        shown, notes = one_setting(records, VERSION)
        found = [r for r in shown if not r["point"]["lanes"]]
        if not found:
            nothing = "No finished records: `selfdraft run lanes` measures them."
            return settled(message(TITLE, nothing, notes))
        padded = [r for r in shown if r["point"]["lanes"]]
        figure = new_figure(TITLE, HEIGHT, _caption(found, padded), notes)
        (rows, texts), (places, margins) = figure.subplots(2, 2)
        dtypes = [dtype for dtype in DTYPES if _of(found, dtype)]
        for dtype in dtypes:
            mine = _of(found, dtype)
            _against_gamma(rows, mine, dtype, "rows")
            _against_gamma(texts, mine, dtype, "texts")
            _places(places, mine, dtype)
            _margins(margins, mine, dtype)
        _dress(rows, texts, places, margins, found[0]["point"]["gammas"])
        handles = [Line2D([], [], label=dtype, **look(list(DTYPES), dtype)) for dtype in dtypes]
        figure.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.99, 0.99), ncols=3)
        return settled(figure)


def _of(records: list[dict], dtype: str) -> list[dict]:
    return [record for record in records if record["point"]["dtype"] == dtype]


def _caption(found: list[dict], padded: list[dict]) -> tuple[str, ...]:
    result, inputs = found[0]["result"], found[0]["inputs"]
    threads = " and ".join(map(str, sorted({r["point"]["threads"] for r in found})))
    total = sum(map(counts_of, padded), Counts())
    lanes = f" In fixed lanes {total.rows_differing:,} of {total.rows:,} rows differ." if padded else ""  # fmt: skip
    margins = [margin for r in found for *_, margin in r["result"]["forks"]]
    ties = sum(margin == 0 for margin in margins)
    return (
        f"Speculation ({DRAFT} drafting) beside plain decoding at T = 0, {len(result['lengths'])} texts of at most "
        f"{inputs['new_tokens']} new tokens, {threads} threads added up, every pass as wide as it is.{lanes}",
        "A text can fork only where rounding moves logits (dashes: the median, over rows, of the largest shift in a row) as far as the "
        f"two largest lie apart (lines: share of rows; crosses: forks, but for the {ties} of {len(margins)} at exact ties).",
    )


def _against_gamma(axes: Axes, records: list[dict], dtype: str, what: str) -> None:
    """Share of `what` that differs at each gamma."""
    gammas = sorted({int(gamma) for record in records for gamma in record["result"]["counts"]})
    shares = []
    for gamma in gammas:
        one = sum((Counts(**r["result"]["counts"][str(gamma)]) for r in records), Counts())
        shares.append(getattr(one, f"{what}_differing") / getattr(one, what))
    size = 8 - 2 * DTYPES.index(dtype)  # lines may lie on each other
    style = look(list(DTYPES), dtype)
    axes.plot(range(len(gammas)), shares, clip_on=False, ms=size, **style)


def _places(axes: Axes, records: list[dict], dtype: str) -> None:
    """Share of the texts, all gammas and threads together, that have forked by each new token."""
    texts = sum(counts_of(record).texts for record in records)
    new_tokens = records[0]["inputs"]["new_tokens"]
    places = np.array([place for r in records for _, _, place, _ in r["result"]["forks"]], int)
    forked = np.bincount(places, minlength=new_tokens).cumsum() / texts
    style = {**look(list(DTYPES), dtype), "marker": ""}
    axes.plot(np.arange(1, new_tokens + 1), forked, lw=4 - DTYPES.index(dtype), **style)


def _margins(axes: Axes, records: list[dict], dtype: str) -> None:
    """The margins' distribution; the median distance that rounding puts between two logits; the margins at forks."""
    style = look(list(DTYPES), dtype)
    x, counts = (np.array(part, float) for part in zip(*edges(merged(records, "margins"))))
    share = counts.cumsum() / counts.sum()
    seen = x > 0
    axes.plot(10**0.125 * x[seen], share[seen], **{**style, "marker": ""})
    gap = quantile(merged(records, "gaps"), 0.5)
    if gap:
        axes.axvline(gap, ls=(0, (4, 2.5)), lw=1.2, color=style["color"])
    forked = sorted(m for r in records for *_, m in r["result"]["forks"] if m)
    axes.plot(forked, np.interp(forked, 10**0.125 * x, share) if forked else [], "x", color=style["color"], ms=5)  # fmt: skip


def _dress(rows: Axes, texts: Axes, places: Axes, margins: Axes, gammas: list[int]) -> None:
    for axes, title in ((rows, "Rows that differ"), (texts, "Texts that fork")):
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("γ")
        axes.set_xticks(range(len(gammas)), [str(gamma) for gamma in gammas])
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    places.set_title("Texts that have forked by a new token", loc="left", fontweight="bold")
    places.set(xlabel="new token", xlim=(0, None), ylim=(0, max(0.1, places.get_ylim()[1])))
    places.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    margins.set_title("Rows with a top-2 margin below x", loc="left", fontweight="bold")
    margins.set(xscale="log", yscale="log", xlabel="x: distance of the two largest logits")
    margins.set(xlim=(1e-16, 100), ylim=(None, 1))
    margins.minorticks_off()
    margins.xaxis.set_major_locator(LogLocator(10, numticks=5))
    margins.xaxis.set_major_formatter(lambda x, _: _power(x))
    margins.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g}%")


def _power(x: float) -> str:
    """10 with its exponent raised: mathematical text is off, for a $ in a draft's name is a $."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"10{str(round(math.log10(x))).translate(raised)}"


FIGURES = {"lanes": forks}
