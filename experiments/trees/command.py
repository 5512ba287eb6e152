"""Measure token trees beside chains, for low-bit drafts at budgets of 4, 8 and 16 rows of a target pass.

Siblings drawn as the likeliest tokens, with and without replacement, on one shape; and the best tree, found by dynamic programming from
acceptance by rank and depth. Shapes are chosen on half of the held-out plates; tokens per pass and estimated speed-up (c by weight bytes,
w = 1, and w(rows) as measured for lanes) are the other half's, by replay, with 95% intervals over its prompts. Beside them the real loop on
a few prompts, and how often greedy text forks. Some 20 seconds a point on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.sweep import Table, add_sweep, open_setting, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "trees", every=2, window=48, least_window=8)
    parser.add_argument("--write", action="store_true",
                        help="write the measured acceptance where tree:best reads it")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from experiments.trees import run as trees_run
    from experiments.trees.table import as_json, as_text

    setting = open_setting(args, seeds=(1,), most_gamma=max(trees_run.WIDTHS))
    records = sweep(args, trees_run, setting, Table(as_text, as_json))
    for path in write(records, setting.model) if args.write else []:
        print(f"Wrote {path}", file=sys.stderr if args.json else sys.stdout)
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
