"""The ladder as text and as JSON: a row a draft, and the winner of each byte class."""

from __future__ import annotations

from dataclasses import asdict

from experiments.ladder.error_laws import fits
from experiments.ladder.rates import Rung, winner, winners

HEAD = ("draft", "bits/weight", "c", "c, cache", "SQNR dB", "KL", "top-1", "T", "γ", "α", "β", "tokens per pass",
        "speed-up", "with cache")  # fmt: skip


def as_text(rungs: list[Rung]) -> str:
    """Every draft and temperature, the winners, the laws."""
    rows = [HEAD]
    for one in sorted(rungs, key=lambda r: (r.bits_per_weight, r.draft)):
        for place, (temperature, rates) in enumerate(sorted(one.rates.items(), reverse=True)):
            about = (
                one.draft,
                f"{one.bits_per_weight:.2f}",
                f"{one.c['weights']:.3f}",
                f"{one.c['with_cache']:.3f}",
                f"{one.sqnr_db:.1f}",
                f"{one.kl[1]:.4f}",
                f"{one.agreement:.3f}",
            )
            rows.append(
                (
                    *(about if place == 0 else ("",) * len(about)),
                    f"{temperature:g}",
                    str(rates.gamma),
                    _three(rates.alpha),
                    f"{rates.beta:.3f}",
                    f"{rates.tokens_per_pass.value:.2f}",
                    str(rates.speed_up),
                    f"{rates.cached_speed_up:.2f}",
                )
            )
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]  # fmt: skip
    return "\n".join([*lines, "", *winner_lines(rungs), "", *law_lines(rungs)])


def winner_lines(rungs: list[Rung]) -> list[str]:
    lines = [
        "Best in each byte class at T = 1 (chosen on the choosing prompts, measured on the others):"
    ]
    for most, one in winners(rungs).items():
        rates = one.rates[1.0]
        lines.append(
            f"  up to {most:g} bits per weight: {one.draft} ({one.bits_per_weight:.2f}), α {_three(rates.alpha)}, "
            f"γ {rates.gamma}, speed-up {rates.speed_up}"
        )
    best = winner(rungs)
    return [*lines, f"Best of all: {best.draft}, speed-up {best.rates[1.0].speed_up} at T = 1."]


def law_lines(rungs: list[Rung]) -> list[str]:
    return [str(fit) for fit in fits(rungs)] or ["Too few formats to fit a law."]


def winners_table(rungs: list[Rung]) -> str:
    """The winner of each byte class, in Markdown."""
    lines = [
        "| bits per weight, at most | best draft | c, weight bytes | α, T = 1 | best γ | speed-up, T = 1 | T = 0.5 | T = 0 | with cache, T = 1 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for most, one in winners(rungs).items():
        at = one.rates
        lines.append(
            f"| {most:g} | {one.draft} | {one.c['weights']:.3f} | {_three(at[1.0].alpha)} | {at[1.0].gamma} | {at[1.0].speed_up} "
            f"| {at[0.5].speed_up} | {at[0.0].speed_up} | {at[1.0].cached_speed_up:.2f} at {one.c['with_cache']:.3f} |"
        )
    return "\n".join(lines)


def as_json(rungs: list[Rung]) -> dict:
    return {
        "rungs": [
            {
                "draft": one.draft,
                "bits_per_weight": one.bits_per_weight,
                "c": one.c,
                "sqnr_db": one.sqnr_db,
                "kl": one.kl[1],
                "agreement": one.agreement,
                "temperatures": {f"{t:g}": asdict(rates) for t, rates in one.rates.items()},
            }
            for one in rungs
        ],
        "winners": {f"{most:g}": one.draft for most, one in winners(rungs).items()},
        "laws": [asdict(fit) for fit in fits(rungs)],
    }


def _three(value) -> str:
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"
