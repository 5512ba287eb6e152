"""Record the runs that the page's viewer steps through, token by token.

Eight short texts from the real loop: lessons, copies and free text; 4 and 3 bits; greedy and not; small and large gamma; one
where speculation loses. `selfdraft plate` records them too; `selfdraft report` shows them. What is on record is not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.options import add_model, add_threads, set_threads
from experiments.paths import DATA, RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--prompts", type=Path, default=DATA / "prompts.jsonl", metavar="FILE",
                        help="JSONL with id, kind and text; the first of each kind is taken (default: the course's)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "plate", metavar="DIR",
                        help="folder of records (default: %(default)s)")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="run again what is recorded")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store
    from experiments.watch import rounds_run

    set_threads(args.threads)
    setting = Setting(args.model, load_prompts(args.prompts))
    store = open_store(args.out, "run rounds")
    records, ran = measure(rounds_run, setting, store, args.fresh)
    for record in records:
        print(summary(record))
    print(f"Recorded {ran} runs, {len(records) - ran} were on record. Records: {args.out}/")
    return 0 if all(r["result"]["same_text"] is not False for r in records) else 1


def summary(record: dict) -> str:
    """One line: what was run, its counts, and the check of its text."""
    from experiments.watch.rounds_text import check_text, title, totals

    counts = totals(record)
    return (
        f"{title(record)}: {counts.emitted} tokens in {counts.rounds} rounds. {check_text(record)}"
    )
