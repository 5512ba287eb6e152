"""Compare the acceptance rules: token, block, match, coupled, on the same texts.

For each draft and temperature, by replay: alpha beside the rule's closed form, tokens per pass at gamma 4, the best gamma and its
estimated speed-up (c by weight bytes), and how that differs from the token rule's, paired by prompt; [95% over prompts]. Beside
them the real loop's alpha on a few texts, with z: its distance from replay on the same texts in standard errors.

All four keep the target's distribution. Coupled also keeps the text: for one seed it is the same with any draft and with none
(`selfdraft identity --rule coupled -T 1` checks it). Exit code 1 where block falls below token, or differs from it at T = 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.options import add_model, add_prompts, add_threads, add_window, set_threads, whole
from experiments.paths import RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--first", type=whole(1), metavar="N",
                        help="only the first N prompts (default: all)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "rules", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    add_window(parser)
    parser.add_argument("--seeds", type=whole(1, 100), default=3, metavar="N",
                        help="texts drawn from each prompt at T > 0 (default: 3)")  # fmt: skip
    parser.add_argument("--most-gamma", type=whole(4, 64), default=16, metavar="N",
                        help="gamma 1 to N (default: 16)")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="print the table as JSON instead")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.rules import run as rules_run
    from experiments.rules.table import as_json, faults, lines, rows
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    setting = Setting(
        args.model,
        load_prompts(args.prompts)[: args.first],
        window=args.window,
        seeds=tuple(range(1, args.seeds + 1)),
        most_gamma=args.most_gamma,
    )
    setting.check()
    store = open_store(args.out, "run rules")
    records, ran = measure(rules_run, setting, store, args.fresh)
    found = rows(records)
    print(json.dumps(as_json(found), allow_nan=False) if args.json else "\n".join(lines(found)))
    paths = draw("rules", records, args.out)
    print(
        f"Measured {ran} points, {len(records) - ran} were on record. Figure: {paths[0]}",
        file=sys.stderr if args.json else sys.stdout,
    )
    wrong = faults(records)
    for line in wrong:
        print(f"selfdraft run rules: {line}", file=sys.stderr)
    return 1 if wrong else 0
