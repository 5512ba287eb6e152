"""What the experiments over many drafts share on the command line: options, a setting on parted prompts, and how they end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
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

if TYPE_CHECKING:  # these import torch, which --help need not wait for
    from experiments.runner import Experiment
    from experiments.setting import Setting


def add_sweep(
    parser: argparse.ArgumentParser,
    name: str,
    every: int = 1,
    window: int = 64,
    least_window: int = 16,
    markdown: str = "",
) -> None:
    """markdown: what --markdown prints; without it there is no such option."""
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / name, metavar="DIR",
                        help="folder of records and figures (default: %(default)s)")  # fmt: skip
    add_window(parser, window, least_window)
    add_every(parser, every)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the table as JSON instead")
    parser.set_defaults(markdown=False)
    if markdown:
        shape.add_argument("--markdown", action="store_true", help=f"print {markdown} in Markdown")
    add_threads(parser)


@dataclass(frozen=True)
class Table:
    """How an experiment's records are shown: as text, as a value that JSON takes, and in Markdown where there is --markdown."""

    text: Callable[[list[dict]], str]
    value: Callable[[list[dict]], object]
    markdown: Callable[[list[dict]], str] | None = None

    def shown(self, records: list[dict], args: argparse.Namespace) -> str:
        """In the shape that was asked for."""
        if args.json:
            return json.dumps(self.value(records), allow_nan=False)
        return self.markdown(records) if args.markdown else self.text(records)


def open_setting(args: argparse.Namespace, **more: object) -> Setting:
    """On every so many-th prompt of each plate. Raises ValueError where a prompt does not fit or no half could report."""
    from experiments.halves import halves, thinned
    from experiments.prompts import load_prompts
    from experiments.setting import Setting

    set_threads(args.threads)
    prompts = thinned(load_prompts(args.prompts), args.every)
    setting = Setting(args.model, prompts, window=args.window, **more)
    setting.check()
    halves(setting.prompts)
    return setting


def sweep(
    args: argparse.Namespace,
    experiment: Experiment,
    setting: Setting,
    table: Table,
    points: list[dict] | None = None,
) -> list[dict]:
    """Measure what is not on record, print these points' records as a table, draw the figures. Returns the records."""
    from experiments.plot import draw_safely
    from experiments.runner import measure
    from experiments.store import open_store

    store = open_store(args.out, f"run {experiment.NAME}")
    records, measured = measure(experiment, setting, store, args.fresh, points)
    print(table.shown(records, args))
    draw_safely(experiment.NAME, records, args.out)
    print(
        f"Measured {measured} points, {len(records) - measured} were on record. Records and figures: {args.out}/",
        file=sys.stderr if args.json or args.markdown else sys.stdout,
    )
    return records
