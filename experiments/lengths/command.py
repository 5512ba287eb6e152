"""Measure rules for how many tokens to draft: what adapting is worth over the best fixed number.

+2/-1, recent alpha, and stops on low probability, on high entropy and on predicted overlap, each with its numbers chosen on half of the
held-out plates. On the other half: estimated speed-up (c by weight bytes), and the share it closes of the gap between the best fixed gamma and an oracle
that drafts exactly what will be kept, paired, with 95% intervals over prompts. All rules are asked about the same rounds. Some two minutes a
point on one core.
"""

from __future__ import annotations

import argparse

from experiments.sweep import Table, add_sweep, open_setting, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "lengths", every=2, window=128, least_window=8)


def run(args: argparse.Namespace) -> int:
    from experiments.lengths import run as lengths_run
    from experiments.lengths.table import as_json, as_text

    setting = open_setting(args, seeds=(1,), most_gamma=lengths_run.MOST_GAMMA)
    sweep(args, lengths_run, setting, Table(as_text, as_json))
    return 0
