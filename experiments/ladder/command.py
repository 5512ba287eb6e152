"""Measure the ladder of formats: what each low-bit copy of the model is worth as its draft.

For every format: acceptance, overlap, KL, first-choice agreement and error of the weights; c by its three definitions; the best gamma
and the estimated speed-up at temperatures 0, 0.5 and 1, by replay. Gamma and the winner of each byte class are chosen on half of
the held-out plates, every number shown is the other half's, with 95% intervals over its prompts. Writes records and figures
(frontier, error-laws); what is on record is not measured again. Some 15 seconds a format on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.options import (
    add_every,
    add_model,
    add_prompts,
    add_threads,
    add_window,
    set_threads,
)
from experiments.paths import RESULTS

if TYPE_CHECKING:
    from experiments.setting import Setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "ladder", metavar="DIR",
                        help="folder of records and figures (default: %(default)s)")  # fmt: skip
    parser.add_argument("--only", metavar="NAME,...",
                        help="measure these formats alone, of the ladder or not")  # fmt: skip
    add_window(parser)
    add_every(parser, 1)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the table as one JSON object")
    shape.add_argument("--markdown", action="store_true",
                       help="print the winners of the byte classes as a table in Markdown")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.ladder import run as ladder_run
    from experiments.ladder.rates import rung
    from experiments.ladder.table import as_json, as_text, winners_table
    from experiments.plot import quiet_matplotlib, write_figures
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    setting = Setting(
        args.model,
        ladder_run.thinned(load_prompts(args.prompts), args.every),
        window=args.window,
        seeds=(1,),
        most_gamma=ladder_run.MOST_GAMMA,
        texts_kept=len(ladder_run.TEMPERATURES),
    )
    setting.check()
    ladder_run.halves(setting)
    points = points_of(args.only, setting) if args.only else found_points(setting)
    store = open_store(args.out, "run ladder")
    records, measured = measure(ladder_run, setting, store, args.fresh, points)
    rungs = [rung(record) for record in records]
    if args.json:
        print(json.dumps(as_json(rungs), allow_nan=False))
    else:
        print(winners_table(rungs) if args.markdown else as_text(rungs))
    with quiet_matplotlib():
        from experiments.ladder.error_laws import error_laws
        from experiments.ladder.frontier import frontier

        figures = {"frontier": frontier, "error-laws": error_laws}
        write_figures(figures, records, args.out, "selfdraft run ladder")
    print(
        f"Measured {measured} formats, {len(records) - measured} were on record. Records and figures: {args.out}/",
        file=sys.stderr if args.json or args.markdown else sys.stdout,
    )
    return 0


def found_points(setting: Setting) -> list[dict]:
    """The whole ladder but for what there is not, which is told of: mixes not searched for yet, tuned copies of another model."""
    from experiments.draft_formats import decided_by
    from experiments.ladder.points import spec_of
    from experiments.ladder.run import POINTS
    from micro.files import FileFault

    found = []
    for point in POINTS:
        try:
            decided_by(setting.model, spec_of(point["draft"]))
        except FileFault as fault:
            print(f"selfdraft run ladder: {point['draft']} is left out: {fault}", file=sys.stderr)
        else:
            found.append(point)
    return found


def points_of(names: str, setting: Setting) -> list[dict]:
    """Raises ValueError or FileFault naming a draft that does not exist."""
    from experiments.draft_formats import decided_by
    from experiments.ladder.points import spec_of

    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        decided_by(setting.model, spec_of(name))
    if not chosen:
        raise ValueError("--only names no format; give some, as in --only rtn4,rtn3")
    return [{"draft": name} for name in dict.fromkeys(chosen)]
