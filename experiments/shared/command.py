"""A low-bit copy that reads the target's key-value cache instead of one of its own: what it gains, place by place of a round.

rtn4, rtn3 and rtn2 at temperatures 0 and 1, each both ways, in the real loop at gamma 8, on the plates that the ladder reports.
Printed: alpha, tokens per pass and the estimated speed-up (by weight bytes), alpha at the first to the last place of a
round, shared less own paired by prompt, and the bytes read and held. A figure of alpha by place. Some 6 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
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
    parser.add_argument("--out", type=Path, default=RESULTS / "shared", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    add_window(parser)
    add_every(parser, 1)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="print the table as JSON instead")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.ladder.run import halves, thinned
    from experiments.plot import quiet_matplotlib, write_figure
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.shared import run as shared_run
    from experiments.shared.table import as_json, lines
    from experiments.store import open_store

    set_threads(args.threads)
    prompts = thinned(load_prompts(args.prompts), args.every)
    setting = Setting(args.model, prompts, window=args.window, most_gamma=shared_run.GAMMA)
    setting.check()
    halves(setting)
    store = open_store(args.out, "run shared")
    records, ran = measure(shared_run, setting, store, args.fresh)
    if args.json:
        print(json.dumps(as_json(records), allow_nan=False))
    else:
        print("\n".join(lines(records)))
    with quiet_matplotlib():
        from experiments.shared.figure import shared

        paths = write_figure("shared", shared(records), args.out)
    print(
        f"Measured {ran} points, {len(records) - ran} were on record. Figure: {paths[0]}",
        file=sys.stderr if args.json else sys.stdout,
    )
    return 0
