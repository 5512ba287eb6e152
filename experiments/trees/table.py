"""The trees' records as rows and lines. Runs no model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from experiments.loop.beside import Difference, tokens_per_pass
from experiments.paths import REFERENCE
from experiments.stats import Interval, interval, resample_weights
from experiments.store import Store

CONTENDERS = ("chain", "points", "with", "without", "best")


@dataclass(frozen=True)
class Row:
    """One contender at one budget, on the reporting prompts. levels: draft passes a round; widths: nodes by level; promised: tokens per
    pass that the choosing prompts' table gave it; over_chain: paired difference of speed-ups from the chain of the same budget; timed: the
    speed-up where a target pass of n rows costs w(n) > 1."""

    draft: str
    temperature: float
    budget: int
    name: str
    how: str
    widths: tuple[int, ...]
    rows: int
    levels: int
    promised: float
    depth: Interval
    tokens: Interval
    speed_up: Interval
    over_chain: Interval
    timed: float


def rows_of(records: list[dict]) -> list[Row]:
    return [row for record in records for row in _rows(record)]


def as_json(records: list[dict]) -> list[dict]:
    return [asdict(row) for row in rows_of(records)]


def as_text(records: list[dict]) -> str:
    return "\n".join(lines(records))


def _rows(record: dict) -> list[Row]:
    result, out = record["result"], []
    for budget, found in sorted(result["budgets"].items(), key=lambda item: int(item[0])):
        chain = _speeds(found["chain"], result["c"])
        for name in CONTENDERS:
            one = found[name]
            rounds, accepted = _resampled(one)
            speeds = _speeds(one, result["c"])
            tokens = 1 + accepted / rounds
            out.append(
                Row(
                    record["point"]["draft"], record["point"]["temperature"], int(budget), name, one["how"],
                    widths(one["shape"]), one["rows"], one["levels"], one["promised"],
                    interval(accepted / rounds), interval(tokens), interval(speeds), interval(speeds - chain),
                    float(tokens[0] / (measured_w(one["rows"]) + result["c"] * one["levels"])),
                )
            )  # fmt: skip
    return out


def _resampled(one: dict) -> tuple[np.ndarray, np.ndarray]:
    weights = resample_weights(len(one["rounds"]))
    return weights @ np.array(one["rounds"]), weights @ np.array(one["accepted"])


def _speeds(one: dict, c: float) -> np.ndarray:
    rounds, accepted = _resampled(one)
    return (1 + accepted / rounds) / (1 + c * one["levels"])


def widths(parents: list[int]) -> tuple[int, ...]:
    """Nodes by level."""
    from specdec.trees import depths

    levels = depths(parents)
    return tuple(levels.count(level) for level in range(1, max(levels, default=0) + 1))


@lru_cache
def _measured() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Rows, and what a pass of so many lanes costs against one row without: micro in float32 on one thread of the machine that
    experiments/reference/lanes.jsonl names."""
    (record,) = [r for r in Store(REFERENCE).of("lanes-cost") if r["point"]["dtype"] == "float32"]
    ratios = record["result"]["ratios"]["a pass of 1 row"]
    found = sorted((float(width), ratio["value"]) for width, ratio in ratios.items())
    return tuple(zip(*[(1.0, 1.0), *found]))


def measured_w(rows: int) -> float:
    """w(rows) by straight lines between the measured widths."""
    return float(np.interp(rows, *_measured()))


def loop_beside(record: dict) -> dict[str, Difference]:
    """contender -> tokens per pass in the loop and by replay of the same texts."""
    return {name: tokens_per_pass(both) for name, both in record["result"]["loop"].items()}


def lines(records: list[dict]) -> list[str]:
    """A block for each draft and temperature."""
    out = []
    for record in records:
        point, result = record["point"], record["result"]
        out += ["", f"{point['draft']} at T = {point['temperature']:g}, c = {result['c']:.3f} by weight bytes, {len(result['prompts'])} prompts",
                f"{'rows':>4} {'tree':8} {'nodes by level':16} {'passes':>6} {'tokens per pass':>20} {'promised':>8} {'speed-up, w = 1':>20} "
                f"{'over the chain':>22} {'w(rows)':>8}"]  # fmt: skip
        out += [_line(row) for row in _rows(record)]
        out += _loop_lines(record) + _fork_lines(result["forks"])
    return out


def _line(row: Row) -> str:
    branches = any(width > 1 for width in row.widths)
    name = f"best {row.how}" if row.name == "best" and branches else row.name
    over = "" if row.name == "chain" else f"{row.over_chain.value:+.2f} [{row.over_chain.low:+.2f}, {row.over_chain.high:+.2f}]"  # fmt: skip
    return (
        f"{row.budget:4} {name[:12]:12} {'-'.join(map(str, row.widths)):12} {row.levels:6} {row.tokens!s:>20} {row.promised:8.2f} "
        f"{row.speed_up!s:>20} {over:>22} {row.timed:8.2f}"
    )


def _loop_lines(record: dict) -> list[str]:
    parts = []
    for name, one in loop_beside(record).items():
        equal = one.z is None or abs(one.loop - one.replay) < 1e-6  # no coin: rounding alone
        z = "equal" if equal else f"z {one.z:+.1f}"
        parts.append(f"{name} {one.loop:.2f} / {one.replay:.2f} ({z})")
    return [f"     loop / replay of its texts, tokens per pass at 8 rows: {', '.join(parts)}"]


def _fork_lines(forks: dict | None) -> list[str]:
    if forks is None:
        return []
    out = []
    for name, one in forks.items():
        margins = ", ".join(f"{fork['margin']:.2g}" for fork in one["forks"]) or "none"
        out.append(
            f"     greedy in lanes, {name}: {len(one['forks'])} of {one['texts']} texts fork (margins: {margins}); logits differ in "
            f"{one['rows_differing']} of {one['rows']} rows"
        )
    return out
