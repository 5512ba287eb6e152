"""A low-bit copy that reads the target's key-value cache instead of one of its own: what it gains, place by place of a round.

rtn4, rtn3 and rtn2 at temperatures 0 and 1, each both ways, in the real loop at gamma 8, on the plates that the ladder reports.
Printed: alpha, tokens per pass and the estimated speed-up (by weight bytes), alpha at the first to the last place of a
round, shared less own paired by prompt, and the bytes read and held. A figure of alpha by place. Some 6 minutes on one core.
"""

from __future__ import annotations

import argparse

from experiments.sweep import Table, add_sweep, open_setting, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sweep(parser, "shared")


def run(args: argparse.Namespace) -> int:
    from experiments.shared import run as shared_run
    from experiments.shared.table import as_json, as_text

    setting = open_setting(args, most_gamma=shared_run.GAMMA)
    sweep(args, shared_run, setting, Table(as_text, as_json))
    return 0
