"""Coordinates of the page's interactive charts: everything a script would have to compute, computed here.

A chart is an SVG of fixed inner size; both axes are drawn once and shared by every setting, so that settings can be
compared by eye. What moves (line, band, formula, dot, ring) is handed to the script as strings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.page.parts import text

WIDE, HIGH = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 34, 44
RING, DOT = 9, 5


@dataclass(frozen=True)
class Frame:
    """The plane of a chart: gamma along x, a value along y."""

    gammas: tuple[int, ...]
    low: float
    high: float

    def x(self, gamma: float) -> float:
        first, last = self.gammas[0] - 0.5, self.gammas[-1] + 0.5
        return LEFT + (gamma - first) / (last - first) * (WIDE - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return HIGH - BOTTOM - share * (HIGH - TOP - BOTTOM)

    def line(self, values: Sequence[float]) -> str:
        """A path through the values, one a gamma; a value that is NaN leaves a gap."""
        parts, pen = [], "M"
        for gamma, value in zip(self.gammas, values):
            known = math.isfinite(value)
            if known:
                parts.append(f"{pen}{self.x(gamma):.1f} {self.y(value):.1f}")
            pen = "L" if known else "M"
        return "".join(parts)

    def band(self, low: Sequence[float], high: Sequence[float]) -> str:
        """A closed path between two lines, over the gammas where both are known."""
        known = [i for i in range(len(low)) if math.isfinite(low[i]) and math.isfinite(high[i])]
        edge = [(self.gammas[i], high[i]) for i in known]
        edge += [(self.gammas[i], low[i]) for i in reversed(known)]
        points = "L".join(f"{self.x(g):.1f} {self.y(v):.1f}" for g, v in edge)
        return f"M{points}Z" if points else ""

    def whisker(self, gamma: int, low: float, high: float) -> str:
        x, top, bottom = self.x(gamma), self.y(high), self.y(low)
        return f"M{x:.1f} {top:.1f}L{x:.1f} {bottom:.1f}"

    def place(self, gamma: int, value: float) -> list[str]:
        """[x, y], as attributes."""
        return [f"{self.x(gamma):.1f}", f"{self.y(value):.1f}"]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` steps apart of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(name: str, title: str, frame: Frame, unit: str, fixed: str) -> str:
    """The chart's SVG with its axes, and empty shapes for the script to fill. fixed: what stands still behind them."""
    moving = (
        f'<path class="band" id="{name}-band"/><path class="line" id="{name}-line"/>'
        f'<path class="formula" id="{name}-formula"/><path class="whisker" id="{name}-whisker"/>'
        f'<circle class="ring" id="{name}-ring" r="{RING}"/><circle class="dot" id="{name}-dot" r="{DOT}"/>'
    )
    return (
        f'<figure class="chart"><figcaption>{text(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-labelledby="{name}-said"><title id="{name}-said"></title>'
        f"{_axes(frame, unit)}{fixed}{moving}</svg></figure>"
    )


def _axes(frame: Frame, unit: str) -> str:
    left, bottom = LEFT, HIGH - BOTTOM
    parts = [f'<g class="axes"><path d="M{left} {bottom}H{WIDE - RIGHT}"/>']
    for value in ticks(frame.low, frame.high):
        y = frame.y(value)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{WIDE - RIGHT}"/>')
        parts.append(f'<text x="{left - 7}" y="{y + 4.5:.1f}" text-anchor="end">{value:g}</text>')
    for gamma in frame.gammas:
        parts.append(
            f'<text x="{frame.x(gamma):.1f}" y="{bottom + 17}" text-anchor="middle">{gamma}</text>'
        )
    middle = (left + WIDE - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HIGH - 6}" text-anchor="middle">γ (drafted tokens per round)</text>'
    )
    parts.append(f'<text class="unit" x="0" y="15">{text(unit)}</text></g>')
    return "".join(parts)


def level(frame: Frame, value: float, words: str) -> str:
    """A line across the chart that stands still, with its name at the right."""
    y, right = frame.y(value), WIDE - RIGHT
    return (
        f'<path class="level" d="M{LEFT} {y:.1f}H{right}"/>'
        f'<text class="level" x="{right}" y="{y - 5:.1f}" text-anchor="end">{text(words)}</text>'
    )


def ceiling(frame: Frame) -> str:
    """gamma + 1, as far as the chart reaches."""
    last = min(frame.gammas[-1], frame.high - 1)
    start, end = frame.place(frame.gammas[0], frame.gammas[0] + 1), frame.place(last, last + 1)
    middle = frame.gammas[0] + 0.7 * (last - frame.gammas[0])
    x, y = frame.x(middle) - 9, frame.y(middle + 1) + 3
    return (
        f'<path class="ceiling" d="M{start[0]} {start[1]}L{end[0]} {end[1]}"/>'
        f'<text class="level" x="{x:.1f}" y="{y:.1f}" text-anchor="end">ceiling γ + 1</text>'
    )
