"""Does replay agree with the real loop? Formats, temperatures and gamma 1 to 16, on the very same texts.

The loop decodes each text; replay then says what it expects of that text, and only coins are left between the two. Printed for
each point: tokens per pass both ways and z, their distance in standard errors. At temperature 0 no coin is thrown and they must be
equal. Records and a figure go to --out.

Exit code 1: a point at temperature 0 differs; or the others are off on average, or more of them beyond their 95% bars, than chance
explains (each happens by chance once in 1,000 runs).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.options import (
    add_model,
    add_prompts,
    add_rule,
    add_threads,
    add_window,
    check_rule,
    set_threads,
    whole,
)
from experiments.paths import RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_rule(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "loop", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    add_window(parser)
    parser.add_argument("--most-gamma", type=whole(1, 64), default=16, metavar="N",
                        help="gamma 1 to N (default: 16)")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="print the points as JSON instead")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    rule = check_rule(args.rule)
    from experiments.loop import run as loop_run
    from experiments.loop.table import faults, lines, points
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    setting = Setting(
        args.model,
        load_prompts(args.prompts),
        window=args.window,
        most_gamma=args.most_gamma,
        rule=rule,
    )
    setting.check()
    store = open_store(args.out, "run loop")
    records, _ = measure(loop_run, setting, store, args.fresh)
    found = points(records)
    print(json.dumps(found, allow_nan=False) if args.json else "\n".join(lines(found)))
    paths = draw("loop", records, args.out)
    print(f"Figure: {paths[0]}", file=sys.stderr if args.json else sys.stdout)
    wrong = faults(found)
    for line in wrong:
        print(f"selfdraft run loop: {line}", file=sys.stderr)
    return 1 if wrong else 0
