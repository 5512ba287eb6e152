"""Trainings beside each other: held-out loss against time, and how long each takes to reach the best baseline.

Give the run folders that `selfdraft train --keep-every N` filled: of every kept step the held-out plates are scored here, after the
fact, so that no training saw them. Runs whose optimizer is plain AdamW are the baselines. Minutes are those of the steps and their
evaluations as the logs tell them, on the machine and beside the load they ran with.
"""

from __future__ import annotations

import argparse
import json
from math import log
from pathlib import Path

from experiments.course.recipe_rates import baseline, minutes_to
from experiments.options import add_threads, set_threads
from experiments.paths import DATA, REFERENCE, RESULTS
from micro.files import FileFault, reason

NAME = "recipe"
VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN",
                        help="run folders of finished trainings; none: only what is on record is shown")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "recipe", metavar="DIR",
                        help="folder of the records and the figure (default: %(default)s)")  # fmt: skip
    parser.add_argument("--reference", action="store_true",
                        help="write record and figure to the repository's reference instead")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.plot import draw
    from experiments.store import Store, key_of

    set_threads(args.threads)
    out = REFERENCE if args.reference else args.out
    store = Store(out)
    for folder in args.runs:
        inputs = {"version": VERSION, **started(folder)}
        if not store.done(NAME, key_of(NAME, inputs)):
            point = {"run": label(inputs), "optimizer": inputs["optimizer"]}
            store.append(NAME, inputs, point, "ok", measured(folder))
    records = store.of(NAME)
    if not records:
        raise FileFault(f"{out} holds no record of a training; give run folders")
    print("\n".join(table(records)))
    for path in draw("recipe", records, out):
        print(path)
    return 0


def _rows(folder: Path) -> list[dict]:
    """The log's rows. Raises FileFault where there is none or the run has not ended."""
    path = folder / "log.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise FileFault(f"{path} is no training's log: {why}") from error
    if not rows or rows[0].get("event") != "start" or rows[-1].get("event") != "end":
        raise FileFault(f"{path} is not the log of a finished training")
    return rows


def started(folder: Path) -> dict:
    """What the run was asked for: everything its result depends on."""
    asked = _rows(folder)[0]
    return {k: v for k, v in asked.items() if k not in ("event", "command", "text_bytes")}


def label(asked: dict) -> str:
    return (
        f"{asked['optimizer']}, {asked['batch']} x {asked['block']} x {asked['steps']}, "
        f"dropout {asked['dropout']:g}, seed {asked['seed']}"
    )


def measured(folder: Path) -> dict:
    """Minutes, validation and held-out nats at every kept step. Raises FileFault where no step was kept."""
    from micro.checkpoint import load_model
    from micro.score import score
    from micro.text import read_course

    held_out = read_course(DATA).split("held-out")
    rows = [row for row in _rows(folder) if row["event"] == "step"]
    seconds, result = 0.0, {"steps": [], "minutes": [], "validation": [], "held_out": []}
    for row in rows:
        seconds += row["seconds"]
        kept = folder / f"step-{row['step']}"
        if kept.is_dir():
            result["steps"].append(row["step"])
            result["minutes"].append(round(seconds / 60, 3))
            result["validation"].append(row.get("validation"))
            result["held_out"].append(score(load_model(kept), held_out).nats)
    if not result["steps"]:
        raise FileFault(f"{folder} keeps no weights of any step; train with --keep-every")
    end = _rows(folder)[-1]
    return {
        **result,
        "command": end["command"],
        "threads": end["training_threads"],
        "chosen_step": end["best_step"],
        "chosen_held_out": end.get("held-out", {}).get("nats"),
    }


def table(records: list[dict]) -> list[str]:
    """Each run's best and last held-out loss, and its time to the best baseline's best."""
    best = baseline(records)
    goal = min(best["result"]["held_out"]) if best else None
    lines = [
        f"{'run':52}{'minutes':>8}{'best':>8}{'last':>8}{'to goal':>9}   held-out bits per byte"
    ]
    for record in records:
        result = record["result"]
        reached = None if goal is None else minutes_to(record, goal)
        lines.append(
            f"{record['point']['run']:52}{result['minutes'][-1]:>8.1f}{min(result['held_out']) / log(2):>8.3f}"
            f"{result['held_out'][-1] / log(2):>8.3f}{'-' if reached is None else f'{reached:.1f}':>9}"
        )
    if best:
        lines.append(
            f"goal: {goal / log(2):.3f}, the best of {best['point']['run']}, after {minutes_to(best, goal):.1f} minutes"
        )
    return lines
