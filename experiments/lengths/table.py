"""The lengths' records as rows and lines. Runs no model."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from experiments.lengths.run import MOST_GAMMA
from experiments.stats import Interval, interval, resample_weights

ENDS = ("fixed", "oracle")


@dataclass(frozen=True)
class Row:
    """One policy on the reporting prompts. share: of the gap between the best fixed gamma and the oracle, (x - fixed) / (oracle - fixed),
    resampled with all three on the same prompts; drafted: tokens a round."""

    draft: str
    temperature: float
    name: str
    chosen: str
    speed_up: Interval
    share: Interval
    tokens: float
    drafted: float


def rows_of(records: list[dict]) -> list[Row]:
    return [row for record in records for row in _rows(record)]


def as_json(records: list[dict]) -> list[dict]:
    return [asdict(row) for row in rows_of(records)]


def as_text(records: list[dict]) -> str:
    return "\n".join(lines(records))


def _rows(record: dict) -> list[Row]:
    result, out = record["result"], []
    fixed, oracle = (_speeds(result["policies"][name], result["c"]) for name in ENDS)
    for name in (*ENDS, *sorted(result["policies"].keys() - set(ENDS))):
        one = result["policies"][name]
        speeds = _speeds(one, result["c"])
        rounds, drafted, kept = (sum(one[n]) for n in ("rounds", "drafted", "kept"))
        out.append(
            Row(
                record["point"]["draft"], record["point"]["temperature"], name, one["chosen"],
                interval(speeds), interval((speeds - fixed) / (oracle - fixed)),
                1 + kept / rounds, drafted / rounds,
            )
        )  # fmt: skip
    return out


def _speeds(one: dict, c: float) -> np.ndarray:
    """(resamples + 1,)"""
    weights = resample_weights(len(one["rounds"]))
    rounds, drafted, kept = (weights @ np.array(one[n]) for n in ("rounds", "drafted", "kept"))
    return (rounds + kept) / (rounds + c * drafted)


def by_luck(alpha: float, c: float, most: int) -> tuple[float, float]:
    """Speed-ups of the best fixed gamma and of the oracle, up to `most`, if every token were accepted independently with the same chance:
    then nothing can be known beforehand, and the gap between the two is luck alone."""
    from specdec.theory import best_gamma, tokens_per_pass

    tokens = tokens_per_pass(alpha, most)
    return best_gamma(alpha, c, most)[1], tokens / (1 + c * (tokens - 1))


def lines(records: list[dict]) -> list[str]:
    """A block for each draft and temperature."""
    out = []
    for record in records:
        point, result = record["point"], record["result"]
        out += [
            "",
            f"{point['draft']} at T = {point['temperature']:g}, c = {result['c']:.3f} by weight bytes, {len(result['prompts'])} prompts",
            f"{'policy':18} {'tokens a pass':>13} {'drafted':>8} {'estimated speed-up':>20} {'share of the gap, %':>24}  chosen on other prompts",
        ]
        out += [_line(row) for row in _rows(record)]
        fit = result["fit"]
        out.append(
            f"     acceptance of a token x from q: sigmoid({fit['level']:g} {fit['by_entropy']:+g} H(q) {fit['by_log']:+g} ln q(x)), mean "
            f"{fit['usual']:.3f}; c S / a' = {result['formula_least']:.2f}"
        )
        luck = by_luck(fit["usual"], result["c"], MOST_GAMMA)
        out.append(
            f"     tokens accepted independently with that mean: best fixed {luck[0]:.2f}, oracle {luck[1]:.2f}"
        )
    return out


def _line(row: Row) -> str:
    share = row.share
    parts = (
        "" if row.name in ENDS else f"{100 * share.value:.0f} [{100 * share.low:.0f}, {100 * share.high:.0f}]"
    )  # fmt: skip
    return f"{row.name:18} {row.tokens:13.2f} {row.drafted:8.2f} {row.speed_up!s:>20} {parts:>24}  {row.chosen}"
