"""Findings of `selfdraft exact` as records, as one summary, and as the table that is printed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import torch

from experiments.exact.faults import FAULTS
from experiments.exact.matrix import CLEAN, Found
from experiments.exact.statistics import FALSE_ALARM
from experiments.paths import ROOT

LETTER = {"near": "n", "far": "f", "any": "a"}


def source_hash() -> str:
    """SHA-256 over the packages that are checked: what a finding is about."""
    digest = hashlib.sha256()
    for package in ("micro", "quant", "specdec", "experiments"):
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def records(found: Sequence[Found], level: str, version: int) -> Iterator[tuple[dict, dict, dict]]:
    """(inputs, point, result) of each: one a fault, tier and draft; of the clean run one a tier, with all its checks."""
    own = {"version": version, "level": level, "source": source_hash(), "torch": torch.__version__}
    for tier in dict.fromkeys(one.tier for one in found if one.fault == CLEAN):
        mine = [one for one in found if one.fault == CLEAN and one.tier == tier]
        point = {"fault": None, "tier": tier, "draft": None}
        checks = [asdict(one.outcome) | {"draft": one.draft} for one in mine]
        result = {"caught": any(c["caught"] for c in checks), "checks": _plain(checks)}
        yield own | point, point, result
    for one in found:
        if one.fault == CLEAN:
            continue
        fault = FAULTS[one.fault]
        point = {"fault": one.fault, "tier": one.tier, "draft": one.draft}
        about = {"object": fault.object, "where": list(fault.where), "what": fault.what}
        (outcome,) = _plain([asdict(one.outcome)])
        more = {"caught": one.caught, "reached": one.reached, "seconds": round(one.seconds, 3)}
        yield own | point, point, about | outcome | more


def _plain(rows: list[dict]) -> list[dict]:
    """Evidence that is no number as None, which strict JSON can hold."""
    return [row | {"evidence": _finite(row["evidence"])} for row in rows]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def summary(
    found: Sequence[Found], tiers: Sequence[str], names: Sequence[str], level: str, seconds: float
) -> dict:
    """Plain values: the clean run by tier, a row of states for each fault, and whether all is as it must be."""
    clean = {tier: [o for o in found if o.fault == CLEAN and o.tier == tier] for tier in tiers}
    rows = {name: [o for o in found if o.fault == name] for name in names}
    caught = [o for ones in clean.values() for o in ones if o.outcome.caught]
    missed = [name for name, ones in rows.items() if not any(o.caught for o in ones)]
    statistics = sum("variation" in o.outcome.sees for o in found if o.fault == CLEAN)
    return {
        "exact": not caught and not missed,
        "level": level,
        "clean": {
            tier: {"checks": len(ones), "caught": sum(o.outcome.caught for o in ones)}
            for tier, ones in clean.items()
        },
        "caught_in_the_clean_run": [_told(one) for one in caught],
        "comparisons": statistics,
        "false_alarm": FALSE_ALARM * statistics,
        "faults": {
            name: {"object": FAULTS[name].object, "what": FAULTS[name].what,
                   "tiers": {tier: _cell(ones, tier) for tier in tiers}}
            for name, ones in rows.items()
        },
        "missed": missed,
        "seconds": round(seconds, 1),
    }  # fmt: skip


def _told(one: Found) -> dict:
    row = _plain([asdict(one.outcome)])[0]
    return {"tier": one.tier, "draft": one.draft} | row


def _cell(ones: Sequence[Found], tier: str) -> dict[str, str]:
    """draft -> state"""
    return {one.draft: one.state for one in ones if one.tier == tier}


def lines(report: dict) -> list[str]:
    """The clean run, the table, the verdict."""
    out = ["The program as it is"]
    for tier, counts in report["clean"].items():
        verdict = f"{counts['caught']} CAUGHT" if counts["caught"] else "nothing caught"
        out.append(f"  {tier:12}{counts['checks']:5} checks   {verdict}")
    for one in report["caught_in_the_clean_run"]:
        found = one["error"] or f"{_number(one['evidence'])}, at most {_number(one['limit'])}"
        draft = "" if one["draft"] == "any" else f" ({one['draft']} draft)"
        out.append(f"  CAUGHT by {one['tier']}: {one['check']}{draft}: {found}")
    out.append(
        f"  {report['comparisons']} statistical comparisons: a clean program fails one of them with a chance of at most "
        f"{report['false_alarm']:.1g}"
    )
    if report["faults"]:
        out += ["", *_table(report)]
    return out + ["", _verdict(report)]


def _table(report: dict) -> list[str]:
    tiers = list(report["clean"])
    width = max(map(len, report["faults"]))
    out = [f"{'Planted fault':{width}}  {'in':9}" + "".join(f"{tier:>13}" for tier in tiers)]
    for name, row in report["faults"].items():
        cells = "".join(f"{_symbols(row['tiers'][tier]):>13}" for tier in tiers)
        missed = "   MISSED" if name in report["missed"] else ""
        out.append(f"{name:{width}}  {row['object']:9}{cells}{missed}")
    out.append("n, f, a: caught with a near draft, with a far one, with none or several; "
               ".: ran and was not seen; -: never ran; blank: not tried")  # fmt: skip
    return out


def _symbols(cell: dict[str, str]) -> str:
    if not cell:
        return ""
    letters = "".join(mark for draft, mark in LETTER.items() if cell.get(draft) == "caught")
    return letters or ("." if "missed" in cell.values() else "-")


def _verdict(report: dict) -> str:
    faults = len(report["faults"])
    clean = sum(counts["caught"] for counts in report["clean"].values())
    missed = len(report["missed"])
    word = "yes" if report["exact"] else "NO"
    return (
        f"exact: {word}. {clean} checks caught something in the program as it is; "
        f"{faults - missed} of {faults} planted faults were caught ({report['seconds']:.0f} s)"
    )


def _number(value: float | None) -> str:
    return "more than any number" if value is None else f"{value:.3g}"
