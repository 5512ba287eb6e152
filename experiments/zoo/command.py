"""Measure every way to draft on one scale: acceptance, tokens per pass, bytes, rows, and the estimated speed-up, by kind of prompt.

Half of the held-out plates choose each draft's budget (gamma, or a tree's nodes), every number shown is the other half's, with 95%
intervals over its prompts. Chains whose law depends on the text alone are replayed, all others run in the real loop. Speed-ups count
weight bytes: those of every draft pass, over the target's 16-bit weights. Writes records and figures (zoo-by-kind, zoo-bytes, zoo-curves);
what is on record is not measured again.
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
    parser.add_argument("--out", type=Path, default=RESULTS / "zoo", metavar="DIR",
                        help="folder of records and figures (default: %(default)s)")  # fmt: skip
    parser.add_argument("--only", metavar="SPEC", action="append", default=[],
                        help="measure this draft of the zoo alone; may be given more than once")  # fmt: skip
    add_window(parser)
    add_every(parser, 3)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the table as one JSON object")
    shape.add_argument("--markdown", action="store_true",
                       help="print the best of each group as a table in Markdown")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.ladder.run import halves, thinned
    from experiments.plot import quiet_matplotlib, write_figures
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store
    from experiments.zoo import run as zoo_run
    from experiments.zoo.table import as_json, as_markdown, as_text

    set_threads(args.threads)
    setting = Setting(
        args.model,
        thinned(load_prompts(args.prompts), args.every),
        window=args.window,
        seeds=(zoo_run.SEED,),
        most_gamma=zoo_run.MOST_GAMMA,
    )
    setting.check()
    halves(setting)
    store = open_store(args.out, "run zoo")
    records, measured = measure(zoo_run, setting, store, args.fresh, points_of(args.only))
    if args.json:
        print(json.dumps(as_json(records), allow_nan=False))
    else:
        print(as_markdown(records) if args.markdown else as_text(records))
    with quiet_matplotlib():
        from experiments.zoo.figures import FIGURES

        write_figures(FIGURES, records, args.out, "selfdraft run zoo")
    print(
        f"Measured {measured} points, {len(records) - measured} were on record. Records and figures: {args.out}/",
        file=sys.stderr if args.json or args.markdown else sys.stdout,
    )
    return 0


def points_of(specs: list[str]) -> list[dict]:
    """Raises ValueError naming a draft that is not in the zoo."""
    from experiments.zoo.points import ZOO
    from experiments.zoo.run import POINTS

    for spec in specs:
        if spec not in ZOO:
            raise ValueError(f"--only {spec}: not in the zoo, which holds {', '.join(ZOO)}")
    return [point for point in POINTS if not specs or point["draft"] in specs]
