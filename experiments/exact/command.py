"""Check that speculation is exact, and that a fault in it would be noticed.

First the program as it is goes through seven tiers, and nothing may be caught: algebra (one position, to 1e-12), enumeration (the
real loop, every way it can go), statistics (real texts with real caches), counts (rounds and tokens against replay and
accounts), caches (what is held after each round and between calls), identity (bits against plain decoding), drafts (every
family that --draft knows, walked). If you have changed the loop, a rule, a cache or a draft, this is where it shows.

Then known faults are planted one by one in the functions that generate() calls, and each must be caught by some tier of the
first six. The table says which: n with a near draft, f with a far one, a with none or several; a dot where the changed line
ran and nothing was seen; a dash where it never ran.

Exit code 1 where anything is caught in the clean run, or a fault by no tier. --quick takes fewer draws and texts, and
each fault to the cheapest tier that is known to see it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from experiments.exact.tiers import TIERS
from experiments.options import whole
from experiments.paths import RESULTS

NAME = "exact"
VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer draws, each fault in one tier")
    parser.add_argument("--tier", action="append", choices=TIERS, metavar="NAME",
                        help=f"only this tier, may be given more than once ({', '.join(TIERS)})")  # fmt: skip
    parser.add_argument("--fault", action="append", metavar="NAME",
                        help="only this fault, may be given more than once; `none`: only the clean run")  # fmt: skip
    parser.add_argument("--workers", type=whole(1, 64), metavar="N",
                        help="processes (default: one a core, at most 4)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "exact", metavar="DIR",
                        help="folder of records (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")


def run(args: argparse.Namespace) -> int:
    from experiments.exact.matrix import clean_jobs, cores, fault_jobs
    from experiments.exact.report import lines, summary
    from experiments.store import open_store

    tiers = tuple(tier for tier in TIERS if tier in (args.tier or TIERS))
    names = chosen_faults(args.fault)
    level, workers = "quick" if args.quick else "whole", args.workers or cores()
    store, start = open_store(args.out, "exact"), time.monotonic()
    jobs = clean_jobs(tiers, level) + fault_jobs(tiers, names, args.quick and not args.tier)
    found = list(_progress(jobs, workers))
    report = summary(found, tiers, names, level, time.monotonic() - start)
    print(
        json.dumps(report, allow_nan=False) if args.json else "\n".join(lines(report)), flush=True
    )
    _record(store, found, level)
    print(f"Records: {args.out}/", file=sys.stderr)
    return 0 if report["exact"] else 1


def chosen_faults(given: list[str] | None) -> list[str]:
    """Names in FAULTS. Raises ValueError on another, naming those that are near."""
    from difflib import get_close_matches

    from experiments.exact.faults import FAULTS

    if given == ["none"]:
        return []
    for name in given or ():
        if name not in FAULTS:
            close = get_close_matches(name, FAULTS, 3, 0.3) or list(FAULTS)
            raise ValueError(f"--fault {name!r} is unknown; did you mean {', '.join(close)}?")
    return [name for name in FAULTS if not given or name in given]


def _progress(jobs: list, workers: int):
    """Findings one by one; a line on stderr for each tier and fault that begins, a bar on a terminal."""
    import torch

    from experiments.exact.matrix import run_jobs
    from experiments.runner import progress_bar

    torch.set_num_threads(1)
    with progress_bar(len(jobs), NAME) as bar:
        for job, found in zip(jobs, run_jobs(jobs, workers)):
            bar.say(f"{job.fault or 'the program as it is'}, {job.tier}")
            yield from found
            bar.step()


def _record(store, found: list, level: str) -> None:
    """One record a fault, tier and draft; of the clean run one a tier, with all its checks."""
    from experiments.exact.report import records

    for inputs, point, result in records(found, level, VERSION):
        store.append(NAME, inputs, point, "ok", result)
