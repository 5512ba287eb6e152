"""Does it pay to let micro draft for itself at 4 and 3 bits?

Two parts, never mixed: the plate's run ("The attention", 40 tokens, seed 1, the real loop) and the estimate (replay over
all prompts, every gamma at once, intervals by resampling prompts). Prints the answer first; writes records, figures and a
page. What is already recorded is not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from experiments.options import (
    add_model,
    add_prompts,
    add_rule,
    add_threads,
    add_window,
    check_rule,
    set_threads,
    whole,
)
from experiments.paths import REFERENCE, RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "plate", metavar="DIR",
                        help="folder of records, figures and page (default: %(default)s)")  # fmt: skip
    add_window(parser)
    parser.add_argument("--seeds", type=whole(1, 100), default=3, metavar="N",
                        help="texts drawn from each prompt at T > 0 (default: 3)")  # fmt: skip
    add_rule(parser)
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--all", action="store_true",
                        help="print the whole grid, and what rows that are not free change")  # fmt: skip
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the grid as CSV")
    parser.add_argument("--json", action="store_true", help="print the grid as JSON instead")
    parser.add_argument("--reference", action="store_true",
                        help="write the reference records and figures of the repository instead")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments import estimate
    from experiments.drawing.palette import draft_entries, legend, with_signs
    from experiments.plate import run as plate_run
    from experiments.plate.curves import curve
    from experiments.plate.table import (
        estimate_rows,
        first_screen,
        grid,
        run_rows,
        sensitivity,
        to_csv,
    )
    from experiments.prompts import load_prompts
    from experiments.rules import glance as rules_glance
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store
    from experiments.watch import rounds_run
    from experiments.watch.stream_text import colours_wanted
    from micro.files import write_atomically

    set_threads(args.threads)
    out = REFERENCE if args.reference else args.out
    setting = Setting(
        args.model,
        load_prompts(args.prompts),
        window=args.window,
        seeds=tuple(range(1, args.seeds + 1)),
        rule=check_rule(args.rule),
    )
    setting.check()
    store = open_store(out, "plate")
    runs, ran = measure(plate_run, setting, store, args.fresh)
    estimates, estimated = measure(estimate, setting, store, args.fresh)
    recorded, stepped = measure(rounds_run, setting, store, args.fresh)
    glances, glanced = measure(rules_glance, rules_glance.glance(setting), store, args.fresh)
    curves = [curve(record) for record in estimates]
    drafts, coloured = list(dict.fromkeys(c.draft for c in curves)), colours_wanted(sys.stdout)
    rows = run_rows(runs, curves) + estimate_rows(curves)
    if args.csv:
        write_atomically(args.csv, lambda file: file.write(to_csv(rows).encode()))
    if args.json:
        print(json.dumps([asdict(row) for row in rows], allow_nan=False))
    else:
        lines = first_screen(estimates, runs)
        if args.all:
            lines += [
                "",
                legend(draft_entries(drafts), coloured),
                *grid(rows),
                *sensitivity(curves),
            ]
        print("\n".join(with_signs(lines, drafts, coloured)))
    _draw(store, out)
    measured = ran + estimated + stepped + glanced
    points = sum(map(len, (runs, estimates, recorded, glances)))
    code = 0 if args.reference else _agreement(estimates, args.json)
    print(
        f"Measured {measured} points, {points - measured} were on record, beside their figures. "
        f"The page: {out / 'index.html'}",
        file=sys.stderr if args.json else sys.stdout,
    )
    return code


def _draw(store, out: Path) -> None:
    """Figures and page; what goes wrong with one is said, and loses neither the other nor what was measured."""
    from experiments import estimate
    from experiments.page.command import write_page
    from experiments.plot import draw

    parts = {
        "figures": lambda: draw(estimate.NAME, store.of(estimate.NAME), out),
        "page": lambda: write_page(store, out / "index.html"),
    }
    for what, make in parts.items():
        try:
            make()
        except Exception as error:
            print(
                f"selfdraft plate: the {what} failed ({type(error).__name__}: {error}); the records in {out} are "
                "complete, `selfdraft plot` and `selfdraft report` try again",
                file=sys.stderr,
            )


def _agreement(estimates: list[dict], as_json: bool) -> int:
    from experiments.plate.agreement import compare
    from experiments.store import Store

    agrees, sentence = compare(estimates, Store(REFERENCE))
    print(sentence, file=sys.stderr if as_json else sys.stdout)
    return 1 if agrees is False else 0
