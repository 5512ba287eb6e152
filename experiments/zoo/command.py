"""Measure every way to draft on one scale: acceptance, tokens per pass, bytes, rows, and the estimated speed-up, by kind of prompt.

Half of the held-out plates choose each draft's budget (gamma, or a tree's nodes), every number shown is the other half's, with 95%
intervals over its prompts. Chains whose law depends on the text alone are replayed, all others run in the real loop. Speed-ups count
weight bytes: those of every draft pass, over the target's 16-bit weights. Writes records and figures (zoo-by-kind, zoo-bytes, zoo-curves);
what is on record is not measured again.
"""

from __future__ import annotations

import argparse

from experiments.sweep import Table, add_sweep, open_setting, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "zoo", every=3, markdown="the best of each group as a table")
    parser.add_argument("--only", metavar="SPEC", action="append", default=[],
                        help="measure this draft of the zoo alone; may be given more than once")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from experiments.zoo import run as zoo_run
    from experiments.zoo.table import as_json, as_markdown, as_text

    points = points_of(args.only)
    setting = open_setting(args, seeds=(zoo_run.SEED,), most_gamma=zoo_run.MOST_GAMMA)
    sweep(args, zoo_run, setting, Table(as_text, as_json, as_markdown), points)
    return 0


def points_of(specs: list[str]) -> list[dict]:
    """Raises ValueError naming a draft that is not in the zoo."""
    from experiments.zoo.points import ZOO
    from experiments.zoo.run import POINTS

    for spec in specs:
        if spec not in ZOO:
            raise ValueError(f"--only {spec}: not in the zoo, which holds {', '.join(ZOO)}")
    return [point for point in POINTS if not specs or point["draft"] in specs]
