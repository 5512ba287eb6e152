"""The zoo as text, Markdown and JSON: a row a draft and temperature, the best of each group, and a verdict in words."""

from __future__ import annotations

from dataclasses import asdict

from experiments.zoo.points import GROUPS, ZOO
from experiments.zoo.rates import KINDS, ROW_COST, Animal, animal, best_of_group

HEAD = ("draft", "T", "by", "budget", "α", "tokens per pass", "rows", "c", "draft cost", "extra kB", "parameters", "minutes",
        "speed-up", "rows charged", *KINDS)  # fmt: skip
COLUMNS = (
    "budget: γ, or nodes and window rows a round, chosen on the other half of the plates. rows: of a verifying pass. c: bytes a "
    "draft pass reads / the target's. draft cost: bytes of a round's draft passes / the target's. extra kB, parameters: kept beside "
    "the target. minutes: training. speed-up: estimated, by weight bytes, a verifying pass costing 1; rows charged: it costs "
    f"1 + {ROW_COST:g} a further row. lesson, copy, free: speed-up by kind of prompt. [95% over prompts]."
)
CARRIES_OVER = (
    "What does not carry over from four layers, 256 tokens and one course: counts of five letters and a sibling of a twentieth predict micro's "
    "text so well because micro has read no more than they have, and knows little beyond them; beside a large model neither does. A one-layer head "
    "is a quarter of micro where it is a thirtieth of a model of 32 layers, so EAGLE's cost here is not its cost there; a vocabulary of 256 makes "
    "Medusa's heads and every sibling's output nearly free, with 100,000 tokens they are not; micro's cache is a fifth of its weights at "
    "256 tokens, so that a shared one saves more here than beside a large model at short context. And every pass, a draft's too, is taken to cost its "
    "weight bytes whatever its rows, which holds where memory is the limit. What carries over: that drafts can be stacked, each paying for its own "
    "bytes only; the order of low-bit copies, pruned ones and skipped layers at equal bytes; and that the text stays the target's."
)


def groups(animals: list[Animal]) -> dict[str, str]:
    return {one.draft: ZOO[one.draft].group for one in animals if one.draft in ZOO}


def known(records: list[dict]) -> list[Animal]:
    """Those of the zoo as it stands."""
    return [animal(record) for record in records if record["point"]["draft"] in ZOO]


def as_text(records: list[dict]) -> str:
    animals = known(records)
    of = groups(animals)
    lines = []
    for group, words in GROUPS.items():
        mine = [one for one in animals if of[one.draft] == group]
        if mine:
            lines += [f"{group}: {words}", *aligned([HEAD, *map(_cells, mine)]), ""]
    return "\n".join([*lines, COLUMNS, "", *verdict(animals)])


def _cells(one: Animal) -> tuple[str, ...]:
    return (
        one.draft + ("" if one.exact else " LOSSY"),
        f"{one.temperature:g}",
        one.by,
        str(one.budget),
        "-" if one.alpha is None else f"{one.alpha.value:.3f}",
        str(one.tokens_per_pass),
        f"{one.rows_per_pass:.1f}",
        f"{one.c:.3f}",
        f"{one.draft_cost:.3f}",
        f"{one.extra_bytes / 1000:,.0f}",
        f"{one.extra_parameters:,}",
        "" if one.minutes is None else f"{one.minutes:.1f}",
        str(one.speed_up),
        f"{one.charged.value:.2f}",
        *(f"{one.by_kind[kind].value:.2f}" if kind in one.by_kind else "" for kind in KINDS),
    )


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in rows
    ]


def as_markdown(records: list[dict], temperature: float = 1.0) -> str:
    """The fastest draft of each group at one temperature."""
    animals = [one for one in known(records) if one.temperature == temperature]
    lines = [
        f"| group | draft | α | tokens per pass | rows | c | extra kB | speed-up, T = {temperature:g} | {' | '.join(KINDS)} |",
        "|---|---|---|---|---|---|---|---|" + "---|" * len(KINDS),
    ]
    best = best_of_group(animals, groups(animals))
    for group in sorted(best, key=lambda g: -best[g].speed_up.value):
        one = best[group]
        alpha = "" if one.alpha is None else f"{one.alpha.value:.3f}"
        kinds = " | ".join(str(one.by_kind.get(kind, "")) for kind in KINDS)
        lines.append(
            f"| {group} | {one.draft} | {alpha} | {one.tokens_per_pass.value:.2f} | {one.rows_per_pass:.1f} | {one.c:.3f} "
            f"| {one.extra_bytes / 1000:,.0f} | {one.speed_up} | {kinds} |"
        )
    return "\n".join(lines)


def verdict(animals: list[Animal]) -> list[str]:
    """What to use when, from the numbers, and what does not carry over."""
    lines = [
        "Verdict (exact drafts, estimated speed-ups by weight bytes; picked on the choosing prompts, measured on the others):"
    ]
    for temperature in sorted({one.temperature for one in animals}, reverse=True):
        mine = [one for one in animals if one.temperature == temperature and one.exact]
        top = max(mine, key=lambda one: one.chosen)
        free = [one for one in mine if not one.extra_bytes]
        lines.append(f"  T = {temperature:g}: {top.draft} {top.speed_up} is the fastest of all.")
        if free:
            best = max(free, key=lambda one: one.chosen)
            lines.append(f"    With nothing more in memory: {best.draft} {best.speed_up}.")
        for kind in KINDS:
            seen = [one for one in mine if kind in one.by_kind.keys() & one.chosen_by_kind.keys()]
            if seen:
                best = max(seen, key=lambda one: one.chosen_by_kind[kind])
                lines.append(f"    On {kind} prompts: {best.draft} {best.by_kind[kind]}.")
        lines += _contrast(mine)
        slower = sorted({one.draft for one in mine if one.speed_up.high < 1})
        if slower:
            lines.append(f"    Slower than none: {', '.join(slower)}.")
    return [*lines, "", CARRIES_OVER]


def paragraphs(lines: list[str]) -> list[str]:
    """A verdict's lines with what is indented below a temperature drawn to it."""
    found: list[str] = []
    for line in filter(None, lines):
        if line.startswith("    "):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def _contrast(animals: list[Animal]) -> list[str]:
    """Where copy and free prompts differ beyond both intervals, at one temperature."""
    both = [one for one in animals if {"copy", "free"} <= one.by_kind.keys()]
    copying = [o.draft for o in both if o.by_kind["copy"].low > o.by_kind["free"].high]
    freeing = [o.draft for o in both if o.by_kind["free"].low > o.by_kind["copy"].high]
    return [
        f"    Copy beats free, intervals apart, with {len(copying)} of {len(both)} drafts"
        + (f" ({', '.join(copying)})" if copying else "")
        + f"; free beats copy with {len(freeing)}"
        + (f" ({', '.join(freeing)})." if freeing else ".")
    ]


def as_json(records: list[dict]) -> dict:
    animals = known(records)
    return {"animals": [asdict(one) for one in animals], "verdict": verdict(animals)}
