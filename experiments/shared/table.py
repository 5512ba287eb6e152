"""Own and shared caches as rows and lines: alpha by place in the round, what sharing changes, bytes. Runs no model."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from experiments.shared.run import CACHES
from experiments.stats import Interval, interval, resample_weights

SHOWN = (1, 2, 4, 8)  # places of a round that the lines tell; JSON and figure have them all


@dataclass(frozen=True)
class Row:
    """A draft at a temperature, with one cache. places: alpha of the first to the last token of a round; None where a place is reached too
    seldom for an interval. c: of weight bytes, and with what a pass reads of the cache; held: bytes beside the target."""

    draft: str
    cache: str
    temperature: float
    alpha: Interval
    places: list[Interval | None]
    tokens_per_pass: Interval
    speed_up: Interval
    c: float
    c_with_cache: float
    weights: int
    cache_kept: int


@dataclass(frozen=True)
class Change:
    """Shared less own, paired by prompt."""

    draft: str
    temperature: float
    alpha: Interval
    places: list[Interval | None]
    speed_up: Interval
    saved: int


def rates(record: dict) -> dict[str, np.ndarray]:
    """Values (resamples + 1, ...) of each rate; places (resamples + 1, gamma), NaN where nothing was judged."""
    result = record["result"]
    weights = resample_weights(len(result["prompts"]))
    judged, accepted, rounds, emitted, read = (
        weights @ np.array(result[name], dtype=float)
        for name in ("judged", "accepted", "rounds", "emitted", "draft_bytes")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "alpha": accepted.sum(1) / judged.sum(1),
            "places": accepted / judged,
            "tokens_per_pass": emitted / rounds,
            "speed_up": emitted / (rounds + read / result["bytes"]["target"]),
        }


def by_place(values: np.ndarray) -> list[Interval | None]:
    return [interval(column) if np.isfinite(column).all() else None for column in values.T]


def row(record: dict) -> Row:
    point, size, found = record["point"], record["result"]["bytes"], rates(record)
    return Row(
        point["draft"],
        point["cache"],
        point["temperature"],
        interval(found["alpha"]),
        by_place(found["places"]),
        interval(found["tokens_per_pass"]),
        interval(found["speed_up"]),
        size["draft"] / size["target"],
        (size["draft"] + size["cache_read"]) / (size["target"] + size["cache_read"]),
        size["draft"],
        size["cache_kept"],
    )


def pairs(records: list[dict]) -> list[tuple[dict, dict]]:
    """(own, shared) of each draft and temperature that has both."""
    found: dict[tuple, dict[str, dict]] = {}
    for record in records:
        point = record["point"]
        found.setdefault((point["temperature"], point["draft"]), {})[point["cache"]] = record
    return [tuple(both[c] for c in CACHES) for both in found.values() if len(both) == len(CACHES)]


def change(own: dict, shared: dict) -> Change:
    a, b, point = rates(own), rates(shared), own["point"]
    kept = [record["result"]["bytes"]["cache_kept"] for record in (own, shared)]
    return Change(
        point["draft"],
        point["temperature"],
        interval(b["alpha"] - a["alpha"]),
        by_place(b["places"] - a["places"]),
        interval(b["speed_up"] - a["speed_up"]),
        kept[0] - kept[1],
    )


def as_text(records: list[dict]) -> str:
    return "\n".join(lines(records))


def as_json(records: list[dict]) -> dict:
    return {
        "rows": [asdict(row(record)) for record in records],
        "changes": [asdict(change(*both)) for both in pairs(records)],
    }


def lines(records: list[dict]) -> list[str]:
    result = records[0]["result"]
    out = [
        f"The real loop, {len(result['prompts'])} prompts, gamma {result['gamma']}, [95% over prompts]. α at place i: of the rounds that came so far.",
        f"{'draft':6} {'T':>3} {'cache':7}{'α':22}{'tokens per pass':20}{'est. speed-up':20}" + "".join(f"{f'α at {i}':8}" for i in SHOWN),
    ]  # fmt: skip
    out += [_line(row(record)) for record in records]
    out += ["", f"Shared less own, paired by prompt:\n{'draft':6} {'T':>3} {'α':25}{'est. speed-up':24}"
            + "".join(f"{f'α at {i}':25}" for i in SHOWN)]  # fmt: skip
    out += [_change_line(change(*both)) for both in pairs(records)]
    return out + ["", *_bytes(records)]


def _line(one: Row) -> str:
    places = (one.places[i - 1] for i in SHOWN)
    return (
        f"{one.draft:6} {one.temperature:3g} {one.cache:7}{_alpha(one.alpha):22}{one.tokens_per_pass!s:20}{one.speed_up!s:20}"
        + "".join(f"{'-' if p is None else f'{p.value:.3f}':8}" for p in places)
    ).rstrip()


def _alpha(one: Interval) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _change_line(one: Change) -> str:
    cells = [one.alpha, *(one.places[i - 1] for i in SHOWN)]
    alpha, *places = (f"{'-' if p is None else _signed(p):25}" for p in cells)
    return f"{one.draft:6} {one.temperature:3g} {alpha}{_signed(one.speed_up):24}{''.join(places)}".rstrip()


def _signed(one: Interval) -> str:
    return f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"


def _bytes(records: list[dict]) -> list[str]:
    """A line for each draft: what a pass reads is the same with either cache, what is held is not."""
    context, out = records[0]["result"]["mean_context"], []
    for own, shared in {one["point"]["draft"]: (one, two) for one, two in pairs(records)}.values():
        a, b = row(own), row(shared)
        out.append(
            f"{a.draft}: a pass reads c = {a.c:.3f} in weights, {a.c_with_cache:.3f} with {context} cached tokens, its own or the target's. Held beside "
            f"the target: {a.weights:,} bytes of weights and {a.cache_kept:,} of cache; shared {b.cache_kept:,}, "
            f"{1 - (b.weights + b.cache_kept) / (a.weights + a.cache_kept):.0%} less in all"
        )
    return out
