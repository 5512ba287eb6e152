"""The rules' records as rows and lines. Runs no model."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from experiments.loop import beside
from experiments.loop.beside import Difference
from experiments.plate.curves import HEADLINE_C, Curve, curve, paired_difference
from experiments.rules.run import RULES, of_rule
from experiments.stats import Interval, interval, resample_weights


@dataclass(frozen=True)
class Row:
    """One rule with one draft at one temperature. closed_form: mean over positions; alpha, tokens at the loop's gamma; speed_up at
    the best gamma, over_token its paired difference from the token rule's."""

    draft: str
    temperature: float
    rule: str
    gamma: int
    closed_form: Interval
    alpha: Interval
    loop_alpha: Difference
    loop_tokens: Difference
    loop_texts: int
    tokens_per_pass: Interval
    best_gamma: int
    speed_up: Interval
    over_token: Interval


def curves(record: dict) -> dict[str, Curve]:
    return {rule: curve(of_rule(record, rule)) for rule in RULES}


def rows(records: list[dict]) -> list[Row]:
    return [row for record in records for row in _rows(record)]


def _rows(record: dict) -> list[Row]:
    result, found = record["result"], curves(record)
    gamma = result["loop_gamma"]
    out = []
    for rule, one in found.items():
        own = result["rules"][rule]
        best, speed = one.best(one.c[HEADLINE_C])
        out.append(
            Row(
                one.draft, one.temperature, rule, gamma,
                closed_form(own, result), one.at(one.alpha, gamma),
                beside.alpha(own["beside"]), beside.tokens_per_pass(own["beside"]),
                len(own["beside"]["loop"]["rounds"]),
                one.at(one.tokens_per_pass, gamma), best, speed,
                paired_difference(one, found["token"]),
            )
        )  # fmt: skip
    return out


def closed_form(own: dict, result: dict) -> Interval:
    weights = resample_weights(len(result["prompts"]))
    sums, positions = (np.array(values)[:, 0] for values in (own["closed_form"], result["positions"]))  # fmt: skip
    return interval(weights @ sums / (weights @ positions))


def faults(records: list[dict]) -> list[str]:
    """Where block keeps fewer tokens than token in all, or other than token at T = 0. Sums of nine digits: to 1e-7 of a count."""
    out = []
    for record in records:
        point, found = record["point"], curves(record)
        gain = found["block"].tokens_per_pass[0] - found["token"].tokens_per_pass[0]
        where = f"{point['draft']} at T = {point['temperature']:g}"
        if gain.min() < -1e-7:
            out.append(f"block falls below token by {-gain.min():.2g} tokens per pass: {where}")
        if point["temperature"] == 0 and np.abs(gain).max() > 1e-7:
            out.append(f"block and token differ by {np.abs(gain).max():.2g} tokens per pass: {where}")  # fmt: skip
    return out


def as_json(found: list[Row]) -> list[dict]:
    return [asdict(row) for row in found]


def lines(found: list[Row]) -> list[str]:
    first = found[0]
    out = [
        f"By replay, [95% over prompts]; α, closed form and tokens per pass at γ = {first.gamma}; the loop on {first.loop_texts} "
        "texts, z against replay on the same ones",
        "draft    T   rule     closed form  α                     loop α (z)     tokens/pass          (z)     best γ  est. speed-up"
        "        over token's",
    ]
    for row in found:
        if row.rule == RULES[0]:
            out.append("")
        out.append(_line(row))
    return out + ["", *conclusion(found)]


def _line(row: Row) -> str:
    a = row.alpha
    alpha = f"{a.value:.4f} [{a.low:.3f}, {a.high:.3f}]"
    gain = row.over_token
    over = "" if row.rule == "token" else f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
    return (
        f"{row.draft:7}{row.temperature:4g}   {row.rule:8} {row.closed_form.value:.4f}       {alpha}  "
        f"{row.loop_alpha.loop:.3f} ({_z(row.loop_alpha)})  {row.tokens_per_pass!s:20} ({_z(row.loop_tokens)})  "
        f"{row.best_gamma:5}   {row.speed_up!s:18}   {over}"
    )


def _z(one: Difference) -> str:
    return "    -" if one.z is None else f"{one.z:+5.2f}"


def conclusion(found: list[Row]) -> list[str]:
    """What block gains and what coupled and match cost, over the points above temperature 0."""
    warm = [row for row in found if row.temperature > 0]
    token = {(row.draft, row.temperature): row for row in found if row.rule == "token"}
    out = []
    for rule in RULES[1:]:
        own = [row for row in warm if row.rule == rule]
        if not own:
            continue
        gains = [row.over_token.value for row in own]
        prices = [token[row.draft, row.temperature].alpha.value - row.alpha.value for row in own]
        out.append(
            f"{rule:8} at T > 0: best speed-up {min(gains):+.3f} to {max(gains):+.3f} over token's; α at γ = {own[0].gamma} "
            f"{-max(prices):+.4f} to {-min(prices):+.4f}"
        )
    return out
