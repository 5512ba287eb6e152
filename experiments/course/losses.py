"""Where is micro good, and where is it not? The held-out plates byte by byte: loss by volume, by kind of plate and by place
within a word, and beside it how far rtn4 and rtn3 agree with the target there.
"""

from __future__ import annotations

import argparse
from math import log
from pathlib import Path

from experiments.options import add_model, add_threads, set_threads
from experiments.paths import DATA, REFERENCE, RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "losses", metavar="DIR",
                        help="folder of the records and figures (default: %(default)s)")  # fmt: skip
    parser.add_argument("--reference", action="store_true",
                        help="write records and figures to the repository's reference instead")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.course import loss_profile
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import Store

    set_threads(args.threads)
    out = REFERENCE if args.reference else args.out
    setting = Setting(args.model, load_prompts(DATA / "prompts.jsonl"))
    records, _ = measure(loss_profile, setting, Store(out))
    print("\n".join(table(records)))
    for path in draw("loss-profile", records, out):
        print(path)
    return 0


def table(records: list[dict]) -> list[str]:
    """By kind of plate and by place within a word: share of the bytes, bits per byte, overlap of each draft."""
    drafts = [record["point"]["draft"] for record in records]
    lines = [f"{'held-out plates':18}{'bytes':>8}{'bits per byte':>15}"
             + "".join(f"{'overlap, ' + name:>16}" for name in drafts)]  # fmt: skip
    results = [record["result"] for record in records]
    first = results[0]
    groups = {kind: [k == kind for k in first["kinds"]] for kind in dict.fromkeys(first["kinds"])}
    groups["all"] = [True] * len(first["kinds"])
    for name, mine in groups.items():
        lines.append(_row(name, results, ("bytes", "nats", "overlap"), mine))
    for i, place in enumerate(first["places"]):
        mine = [j == i for j in range(len(first["places"]))]
        lines.append(_row(place, results, ("place_bytes", "place_nats", "place_overlap"), mine))
    return lines


def _row(name: str, results: list[dict], fields: tuple[str, str, str], mine: list[bool]) -> str:
    def total(result: dict, field: str) -> float:
        return sum(value for value, own in zip(result[field], mine) if own)

    n = total(results[0], fields[0])
    if not n:
        return f"{name:18}{0:>8}"
    overlaps = "".join(f"{total(r, fields[2]) / n:>16.3f}" for r in results)
    return f"{name:18}{n:>8,}{total(results[0], fields[1]) / n / log(2):>15.3f}{overlaps}"
