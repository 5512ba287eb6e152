"""Measure token trees beside chains, for low-bit drafts at budgets of 4, 8 and 16 rows of a target pass.

Siblings drawn as the likeliest tokens, with and without replacement, on one shape; and the best tree, found by dynamic programming from
acceptance by rank and depth. Shapes are chosen on half of the held-out plates; tokens per pass and estimated speed-up (c by weight bytes,
w = 1, and w(rows) as measured for lanes) are the other half's, by replay, with 95% intervals over its prompts. Beside them the real loop on
a few prompts, and how often greedy text forks. Some 20 seconds a point on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from experiments.options import (
    add_every,
    add_model,
    add_prompts,
    add_threads,
    add_window,
    set_threads,
)
from experiments.paths import RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "trees", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    add_window(parser, 48, least=8)
    add_every(parser, 2)
    parser.add_argument("--write", action="store_true",
                        help="write the measured acceptance where tree:best reads it")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="print the table as JSON instead")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.ladder.run import halves, thinned
    from experiments.plot import quiet_matplotlib, write_figure
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store
    from experiments.trees import run as trees_run
    from experiments.trees.table import lines, rows_of

    set_threads(args.threads)
    setting = Setting(args.model, thinned(load_prompts(args.prompts), args.every), window=args.window,
                      seeds=(1,), most_gamma=max(trees_run.WIDTHS))  # fmt: skip
    setting.check()
    halves(setting)
    store = open_store(args.out, "run trees")
    records, ran = measure(trees_run, setting, store, args.fresh)
    if args.json:
        print(json.dumps([asdict(row) for row in rows_of(records)], allow_nan=False))
    else:
        print("\n".join(lines(records)))
    with quiet_matplotlib():
        from experiments.trees.figure import trees

        paths = write_figure("trees", trees(records), args.out)
    written = write(records, setting.model) if args.write else []
    print(
        f"Measured {ran} points, {len(records) - ran} were on record. Figure: {paths[0]}"
        + "".join(f"\nWrote {path}" for path in written),
        file=sys.stderr if args.json else sys.stdout,
    )
    return 0


def write(records: list[dict], model) -> list[Path]:
    """Each draft's table for tree:best, of the way to draw that its best tree used at the highest temperature."""
    from specdec.drafts.measured import write_measured

    paths = []
    for draft in dict.fromkeys(record["point"]["draft"] for record in records):
        own = {r["point"]["temperature"]: r["result"] for r in records if r["point"]["draft"] == draft}  # fmt: skip
        budgets = own[max(own)]["budgets"]
        how = budgets[max(budgets, key=int)]["best"]["how"]
        tables = {t: result["acceptance"][how] for t, result in own.items()}
        paths.append(write_measured(draft, model, how, tables))
    return paths
