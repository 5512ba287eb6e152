"""The page's sections on other experiments' records: the frontier of formats, the zoo of drafts, what exactness tests catch.

A section whose records are missing says which command makes them.
"""

from __future__ import annotations

from experiments.exact.tiers import TIERS
from experiments.page.parts import Marked, figure, missing, paragraph, section, table
from experiments.store import Store, canonical
from experiments.zoo.rates import KINDS, Animal
from experiments.zoo.table import COLUMNS, known

# of a record's inputs: those in which all records of a section agree
SAME = ("weights", "source", "version", "level", "torch")


def frontier(store: Store) -> str:
    """Formats by alpha and true c over curves of equal speed-up, and the table behind it."""
    title = "The frontier of formats"
    records = _newest(store.of("ladder"))
    if not records:
        return section(title, missing("No ladder of formats is on record. It is measured by", "selfdraft run ladder"))  # fmt: skip
    from experiments.drawing.style import to_svg
    from experiments.ladder.frontier import frontier as draw

    return section(
        title,
        figure(to_svg(draw(records), "frontier"), "frontier", "α against true c, with curves of equal speed-up"),
        _rungs(records),
    )  # fmt: skip


def _rungs(records: list[dict]) -> str:
    from experiments.ladder.rates import rung, winners

    rungs = sorted(map(rung, records), key=lambda one: (one.bits_per_weight, one.draft))
    best = [one.draft for one in winners(rungs).values()]
    rows = [
        (
            f"{one.draft} ◎" if one.draft in best else one.draft,
            f"{one.bits_per_weight:.2f}", f"{one.c['weights']:.3f}", f"{one.sqnr_db:.1f}", f"{one.kl[1]:.4f}",
            f"{one.rates[1.0].alpha.value:.3f}", one.rates[1.0].gamma,
            *(one.rates[t].speed_up for t in (1.0, 0.5, 0.0)), f"{one.rates[1.0].cached_speed_up:.2f}",
        )
        for one in rungs
    ]  # fmt: skip
    head = ("format", "bits per weight", "c, weights", "SQNR (dB)", "KL (nats a token)", "α, T = 1", "γ",
            "speed-up, T = 1", "T = 0.5", "T = 0", "with cache, T = 1")  # fmt: skip
    caption = "◎: the best of its byte class. It and γ are chosen on half of the plates, every number is the other half's."
    return table(caption, head, rows)


def zoo(store: Store) -> str:
    """Every other way to draft, on the same scale."""
    title = "The zoo: other ways to draft"
    records = _newest(store.of("zoo"))
    if not records:
        return section(title, missing("No other draft is on record. They are measured by", "selfdraft run zoo"))  # fmt: skip
    from experiments.drawing.style import to_svg
    from experiments.zoo.figures import by_kind
    from experiments.zoo.table import paragraphs, verdict

    animals = known(records)
    rows = [zoo_row(one) for one in sorted(animals, key=lambda one: -one.speed_up.value)]
    head = ("draft", "T", "budget", "α", "tokens per pass", "rows", "c, weights", "extra kB", "estimated speed-up", *KINDS,
            "distribution")  # fmt: skip
    return section(
        title,
        figure(to_svg(by_kind(records), "zoo"), "zoo", "Speed-up by kind of prompt"),
        *map(paragraph, paragraphs(verdict(animals))),
        table(COLUMNS, head, rows),
    )  # fmt: skip


def zoo_row(one: Animal) -> tuple:
    """A draft's line."""
    return (
        one.draft, f"{one.temperature:g}", one.budget, None if one.alpha is None else f"{one.alpha.value:.3f}",
        f"{one.tokens_per_pass.value:.2f}", f"{one.rows_per_pass:.1f}", f"{one.c:.3f}", f"{one.extra_bytes / 1000:,.0f}",
        one.speed_up, *(f"{one.by_kind[k].value:.2f}" if k in one.by_kind else None for k in KINDS),
        "the target's" if one.exact else "LOSSY",
    )  # fmt: skip


def exactness(store: Store) -> str:
    """Planted faults by the tier of tests that catches them."""
    title = "Exactness: would a fault be seen?"
    records = _newest(store.of("exact"))
    if not records:
        return section(title, missing("No planted fault is on record. They are tried by", "selfdraft exact"))  # fmt: skip
    faults: dict[str | None, list[dict]] = {}
    for record in records:
        faults.setdefault(record["point"]["fault"], []).append(record)
    tiers = [t for t in TIERS if any(r["point"]["tier"] == t for r in records)]
    clean = faults.pop(None, [])
    rows = [_fault_row(name, mine, tiers) for name, mine in faults.items()]
    seen = sum(any(r["result"]["caught"] for r in mine) for mine in faults.values())
    words = (
        f"{seen} of {len(faults)} planted faults are caught by at least one tier. "
        "near, far: with a draft close to the target and with one far from it; any: with several or none. A dot: the changed "
        "line ran and nothing was seen; a dash: it never ran; empty: not tried."
    )
    first = [("none: the program as it is", None, *_clean_cells(clean, tiers))] if clean else []
    head = ("fault", "planted in", *tiers)
    return section(title, paragraph(words), table("Fault by tier", head, first + rows))


def _clean_cells(clean: list[dict], tiers: list[str]) -> list:
    """Of the program as it is nothing may be caught."""
    cells = []
    for tier in tiers:
        checks = [c for r in clean if r["point"]["tier"] == tier for c in r["result"]["checks"]]
        caught = sum(check["caught"] for check in checks)
        kind = "alarm" if caught else "missed"
        cells.append(Marked(f"{caught} of {len(checks)} checks", kind) if checks else "")
    return cells


def _fault_row(name: str, records: list[dict], tiers: list[str]) -> tuple:
    about = records[0]["result"]
    return (Marked(name, "", about["what"]), about["object"], *(_tier(records, t) for t in tiers))


def _tier(records: list[dict], tier: str) -> Marked | str:
    """One cell, with the evidence as its hint."""
    mine = [r for r in records if r["point"]["tier"] == tier]
    caught = [r for r in mine if r["result"]["caught"]]
    if caught:
        hints = [f"{r['point']['draft']}: {_evidence(r['result'])}" for r in caught]
        return Marked(", ".join(r["point"]["draft"] for r in caught), "caught", "; ".join(hints))
    if not mine:
        return ""
    return Marked("·" if any(r["result"]["reached"] for r in mine) else "–", "missed")


def _evidence(result: dict) -> str:
    evidence, limit = result.get("evidence"), result.get("limit")
    if evidence is None:
        return str(result.get("error") or "no number")
    return f"{evidence:.3g}, where at most {limit:.3g} is allowed"


def _newest(records: list[dict]) -> list[dict]:
    """The last record of each point, of the setting that was measured last: settings are never mixed."""

    def setting(record: dict) -> list:
        return [record["inputs"].get(name) for name in SAME]

    in_time = sorted(records, key=lambda r: str(r["environment"].get("time", "")))
    mine = [r for r in in_time if setting(r) == setting(in_time[-1])]
    return list({canonical(r["point"]): r for r in mine}.values())
