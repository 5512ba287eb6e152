"""Measure rules for how many tokens to draft: what adapting is worth over the best fixed number.

+2/-1, recent alpha, and stops on low probability, on high entropy and on predicted overlap, each with its numbers chosen on half of the
held-out plates. On the other half: estimated speed-up (c by weight bytes), and the share it closes of the gap between the best fixed gamma and an oracle
that drafts exactly what will be kept, paired, with 95% intervals over prompts. All rules are asked about the same rounds. Some two minutes a
point on one core.
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
    parser.add_argument("--out", type=Path, default=RESULTS / "lengths", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    add_window(parser, 128, least=8)
    add_every(parser, 2)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="print the table as JSON instead")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.ladder.run import halves, thinned
    from experiments.lengths import run as lengths_run
    from experiments.lengths.table import lines, rows_of
    from experiments.plot import quiet_matplotlib, write_figure
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    setting = Setting(args.model, thinned(load_prompts(args.prompts), args.every), window=args.window,
                      seeds=(1,), most_gamma=lengths_run.MOST_GAMMA)  # fmt: skip
    setting.check()
    halves(setting)
    store = open_store(args.out, "run lengths")
    records, ran = measure(lengths_run, setting, store, args.fresh)
    if args.json:
        print(json.dumps([asdict(row) for row in rows_of(records)], allow_nan=False))
    else:
        print("\n".join(lines(records)))
    with quiet_matplotlib():
        from experiments.lengths.figure import lengths

        paths = write_figure("lengths", lengths(records), args.out)
    print(
        f"Measured {ran} points, {len(records) - ran} were on record. Figure: {paths[0]}",
        file=sys.stderr if args.json else sys.stdout,
    )
    return 0
