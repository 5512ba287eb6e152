"""Measure rules for how many tokens to draft: what adapting is worth over the best fixed number.

+2/-1, recent alpha, and stops on low probability, on high entropy and on predicted overlap, each with its numbers chosen on half of the
held-out plates. On the other half: estimated speed-up (c by weight bytes), and the share it closes of the gap between the best fixed gamma and an oracle
that drafts exactly what will be kept, paired, with 95% intervals over prompts. All rules are asked about the same rounds. Some two minutes a
point on one core.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from experiments.sweep import add_sweep, open_setting, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "lengths", every=2, window=128, least_window=8)


def run(args: argparse.Namespace) -> int:
    from experiments.lengths import run as lengths_run

    setting = open_setting(args, seeds=(1,), most_gamma=lengths_run.MOST_GAMMA)
    sweep(args, lengths_run, setting, table_as_json if args.json else table)
    return 0


def table(records: list[dict]) -> str:
    from experiments.lengths.table import lines

    return "\n".join(lines(records))


def table_as_json(records: list[dict]) -> str:
    from experiments.lengths.table import rows_of

    return json.dumps([asdict(row) for row in rows_of(records)], allow_nan=False)
