"""The lane study's records as a report of plain values, and the report as lines for people. Measures nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from statistics import median

from experiments.identity.counts import Counts, controls_line, dead_line
from experiments.lanes.points import DRAFT


def report(records: list[dict], costs: list[dict], controls: dict[str, bool]) -> dict:
    """In lanes and without, a row for each record; totals; what lanes cost; whether bit identity may be claimed (None: no claim)."""
    padded = [r for r in records if r["point"]["lanes"]]
    total = sum((counts_of(record) for record in padded), Counts())
    unsafe = any(record["result"]["unsafe"] for record in padded)
    return {
        "identical": total.identical if all(controls.values()) and not unsafe else None,
        "draft": DRAFT,
        "texts": len(padded[0]["result"]["lengths"]),
        "torch": padded[0]["inputs"]["torch"],
        "total": asdict(total),
        "dead": total.dead,
        "controls": controls,
        "in_lanes": [_in_lanes(record) for record in padded],
        "without_lanes": [without(r) for r in records if not r["point"]["lanes"]],
        "cost": [{**r["point"], **r["result"], "machine": r["environment"]["machine"]} for r in costs],
    }  # fmt: skip


def counts_of(record: dict) -> Counts:
    return sum((Counts(**one) for one in record["result"]["counts"].values()), Counts())


def _in_lanes(record: dict) -> dict:
    return {**record["point"], **asdict(counts_of(record)), "unsafe": record["result"]["unsafe"]}


def without(record: dict) -> dict:
    """What rounding does where passes are as wide as they are: rows that differ and by how much, forks, where and how close."""
    result, total = record["result"], counts_of(record)
    forks, gap = result["forks"], quantile(result["gaps"], 0.5)
    places = [place for _, _, place, _ in forks]
    margins = [margin for *_, margin in forks if margin is not None]
    rows = sum(result["margins"].values())
    return {
        **record["point"],
        **asdict(total),
        "rows_share": total.rows_differing / total.rows,
        "texts_share": total.texts_differing / total.texts,
        "median_gap": gap,
        "largest_gap": quantile(result["gaps"], 1),
        "median_place": median(places) if places else None,
        "earliest_place": min(places, default=None),
        "median_margin": median(margins) if margins else None,
        "largest_margin": max(margins, default=None),
        "close_rows_share": below(result["margins"], gap) / rows if gap is not None else 0.0,
    }


def edges(bins: dict[str, int]) -> list[tuple[float, int]]:
    """(middle of the quarter of a power of ten, count), ascending; 0 for the bin of zeros."""
    values = ((0.0 if b == "zero" else 10 ** (float(b) + 0.125), n) for b, n in bins.items() if b != "none")  # fmt: skip
    return sorted(values)


def quantile(bins: dict[str, int], share: float) -> float | None:
    """The value that `share` of the binned numbers do not exceed, within a factor of 1.4; None of nothing."""
    found, seen = edges(bins), 0
    for value, count in found:
        seen += count
        if seen >= share * sum(n for _, n in found):
            return value
    return None


def below(bins: dict[str, int], value: float) -> int:
    """How many binned numbers lie in bins up to that of `value`."""
    return sum(count for middle, count in edges(bins) if middle <= value)


def lines(report: dict) -> list[str]:
    """The tables, the controls, the verdict."""
    total = report["total"]
    verdict = {True: "identical: yes", False: "identical: NO", None: "no claim"}
    return [
        f"Speculation ({report['draft']} drafting) beside plain decoding at T = 0, {report['texts']} texts each; how many differ",
        *_in_lanes_lines(report["in_lanes"]),
        "",
        "Without lanes, every pass as wide as it is",
        *_without_lines(report["without_lanes"]),
        "",
        "What lanes cost: times the unpadded path, median of pairs [95%], one thread, processor time",
        *_cost_lines(report["cost"]),
        "",
        controls_line(report["controls"]),
        *([dead_line(report["dead"])] if report["dead"] else []),
        *(_unsafe_line(row) for row in report["in_lanes"] if row["unsafe"]),
        f"{verdict[report['identical']]}. In lanes: {total['texts_differing']:,} of {total['texts']:,} texts, "
        f"{total['rows_differing']:,} of {total['rows']:,} rows of logits, {total['entries_differing']:,} of "
        f"{total['entries']:,} cache entries differ over {total['tokens']:,} tokens (torch {report['torch']})",
    ]  # fmt: skip


def _in_lanes_lines(rows: list[dict]) -> list[str]:
    out = [f"{'type':9}{'threads':>8}{'lanes':>6}  {'gamma':6}{'tokens':>9}{'texts':>12}{'rows of logits':>18}{'cache entries':>20}"]  # fmt: skip
    for row in rows:
        cells = [f"{row[what + '_differing']:,} of {row[what]:,}" for what in ("texts", "rows", "entries")]  # fmt: skip
        out.append(
            f"{row['dtype']:9}{row['threads']:8}{row['lanes']:6}  {_span(row['gammas']):6}{row['tokens']:9,}"
            f"{cells[0]:>12}{cells[1]:>18}{cells[2]:>20}"
        )
    return out


def _without_lines(rows: list[dict]) -> list[str]:
    out = [
        f"{'type':9}{'threads':>8}{'rows differ':>13}{'by (median)':>13}{'rows as close':>15}{'texts fork':>15}"
        f"{'new token':>11}{'margin there':>22}"
    ]
    for row in rows:
        forked = f"{row['texts_differing']:,} of {row['texts']:,}"
        where, margins = "-", "-"
        if row["texts_differing"]:
            where = f"{row['median_place'] + 1:g}"
        if row["median_margin"] is not None:
            margins = f"{row['median_margin']:.1g}, most {row['largest_margin']:.1g}"
        gap = "-" if row["median_gap"] is None else f"{row['median_gap']:.0e}"
        out.append(
            f"{row['dtype']:9}{row['threads']:8}{row['rows_share']:13.1%}{gap:>13}{row['close_rows_share']:15.2%}"
            f"{forked:>15}{where:>11}{margins:>22}"
        )
    out.append(
        "by: a row's largest difference of two logits; rows as close: whose two largest logits lie no further apart than that; "
        "new token, margin there: medians over the forks"
    )
    return out


def _cost_lines(rows: list[dict]) -> list[str]:
    if not rows:
        return ["not measured"]
    widths = list(next(iter(rows[0]["ratios"].values())))
    out = [
        f"{'type':9} {'':24}{'off, ms':>9}" + "".join(f"{width + ' lanes':>20}" for width in widths)
    ]
    for row in rows:
        offs = [t["median"] for name, t in row["times_ms"].items() if name.endswith("off")]
        for (what, ratios), off in zip(row["ratios"].items(), offs):
            cells = [f"{r['value']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" for r in ratios.values()]
            out.append(f"{row['dtype']:9} {what:24}{off:9.3f}" + "".join(f"{c:>20}" for c in cells))
    return out


def _unsafe_line(row: dict) -> str:
    return (
        f"{row['dtype']}, {row['threads']} threads: a token has other bits in lanes {row['unsafe']} of {row['lanes']} "
        "than in lane 0"
    )


def _span(gammas: list[int]) -> str:
    return f"{gammas[0]}-{gammas[-1]}" if len(gammas) > 1 else str(gammas[0])


def merged(records: list[dict], name: str) -> dict[str, int]:
    """The bins `name` ("gaps", "margins") of several records added up."""
    return dict(sum((Counter(record["result"][name]) for record in records), Counter()))
