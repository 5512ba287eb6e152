"""Measure the ladder of formats: what each low-bit copy of the model is worth as its draft.

For every format: acceptance, overlap, KL, first-choice agreement and error of the weights; c by its three definitions; the best gamma
and the estimated speed-up at temperatures 0, 0.5 and 1, by replay. Gamma and the winner of each byte class are chosen on half of
the held-out plates, every number shown is the other half's, with 95% intervals over its prompts. Writes records and figures
(frontier, error-laws); what is on record is not measured again. Some 15 seconds a format on one core.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from experiments.sweep import Table, add_sweep, open_setting, sweep

if TYPE_CHECKING:
    from experiments.setting import Setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "ladder", markdown="the winners of the byte classes as a table")
    parser.add_argument("--only", metavar="NAME,...", action="append",
                        help="measure these drafts alone, of the ladder or not; may be given more than once")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from experiments.ladder import run as ladder_run
    from experiments.ladder.rates import rung
    from experiments.ladder.table import as_json, as_text, winners_table

    temperatures = len(ladder_run.TEMPERATURES)
    setting = open_setting(args, seeds=(1,), most_gamma=ladder_run.MOST_GAMMA, texts_kept=temperatures)  # fmt: skip
    points = (
        points_of(",".join(args.only), setting) if args.only is not None else found_points(setting)
    )

    def of(shape):
        return lambda records: shape([rung(record) for record in records])

    table = Table(of(as_text), of(as_json), of(winners_table))
    sweep(args, ladder_run, setting, table, points)
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
