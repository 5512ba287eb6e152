"""Lanes: is speculative text that of plain decoding, to the bit, what happens without, and what do lanes cost?

In fixed lanes nothing may differ, in float32, float64 and bfloat16, at 1 and 2 threads, for gamma 1 to 16: no token, no logit, no
entry of a cache. Without lanes it is counted which rows of logits differ, which texts fork, where, and with which top-2 margins.
Broken engines are planted first and must be noticed. Prints tables, writes records and a figure; what is already recorded is not
measured again.

Exit code 1: something differed in lanes, or was no evidence.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.options import add_model, whole
from experiments.paths import DATA, RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--texts", type=whole(1, 1000), default=16, metavar="N",
                        help="texts that start all over the context; four more run into its end (default: 16)")  # fmt: skip
    parser.add_argument("--tokens", type=whole(1), default=128, metavar="N",
                        help="new tokens of each text (default: 128)")  # fmt: skip
    parser.add_argument("--repeats", type=whole(1), default=31, metavar="N",
                        help="turns that are timed (default: 31)")  # fmt: skip
    parser.add_argument("--prompts", type=Path, default=DATA / "prompts.jsonl", metavar="FILE",
                        help="what the texts start with (default: the course's prompts)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "lanes", metavar="DIR",
                        help="folder of records and figure (default: %(default)s)")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--json", action="store_true", help="write the report as one JSON object")


def run(args: argparse.Namespace) -> int:
    import torch

    threads = torch.get_num_threads()
    try:
        return _run(args)
    finally:
        torch.set_num_threads(threads)  # the points set their own


def _run(args: argparse.Namespace) -> int:
    from experiments.identity.controls import noticed
    from experiments.lanes import cost as lanes_cost
    from experiments.lanes import points as lanes_points
    from experiments.lanes import study as lanes_study
    from experiments.lanes.table import lines, report
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.store import open_store
    from specdec.drafts import make_draft

    prompts = load_prompts(args.prompts)
    setting = lanes_study.LaneSetting(args.model, prompts, new_tokens=args.tokens, repeats=args.repeats)  # fmt: skip
    model = setting.model
    setting.prompts = lanes_study.starts(prompts, args.texts, args.tokens, model.context)
    store = open_store(args.out, "run lanes")
    controls = noticed(model, make_draft(model, lanes_points.DRAFT), setting.prompts[0].tokens)
    records, ran = measure(lanes_study, setting, store, args.fresh)
    costs, timed = measure(lanes_cost, setting, store, args.fresh)
    found = report(records, costs, controls)
    print(json.dumps(found, allow_nan=False) if args.json else "\n".join(lines(found)))
    paths = draw("lanes", records, args.out)
    print(
        f"Measured {ran + timed} points, {len(records) + len(costs) - ran - timed} were on record. "
        f"Records: {args.out}/; figure: {paths[0]}",
        file=sys.stderr if args.json else sys.stdout,
    )
    return 0 if found["identical"] else 1
