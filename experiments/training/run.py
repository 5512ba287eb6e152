"""What every resumable run on the command line shares: begin or go on, step by step with a log and progress, and stop in order.

A Ctrl-C finishes the step in hand and saves; a kill loses what came after the last checkpoint. Either way --resume goes on, to the bit.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from experiments.options import whole
from experiments.training.log import TrainingLog
from experiments.training.progress import TrainingProgress
from micro.files import FileFault
from micro.train import Diverged, Event, Trainer, train
from micro.training_state import CheckpointFolder


def add_run(parser: argparse.ArgumentParser, save_every: int) -> None:
    """Options of checkpoints, stopping and resuming."""
    parser.add_argument("--save-every", type=whole(1), default=save_every, metavar="N",
                        help="steps between checkpoints (default: %(default)s)")  # fmt: skip
    parser.add_argument("--stop-at", type=whole(1), metavar="STEP",
                        help="save and stop after this step, as Ctrl-C would; --resume goes on")  # fmt: skip
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    begin.add_argument(
        "--fresh", action="store_true", help="begin anew, deleting the run's checkpoints"
    )


def check_begin(folder: Path, checkpoints: CheckpointFolder, args: argparse.Namespace) -> None:
    """Raises FileFault where an earlier run would be written over unasked."""
    if checkpoints.paths() and not (args.resume or args.fresh):
        raise FileFault(
            f"{folder} holds checkpoints of an earlier run; --resume goes on with it, --fresh deletes it "
            f"and begins anew"
        )


def take_up(
    command: str, trainer: Trainer, checkpoints: CheckpointFolder, args: argparse.Namespace
) -> None:
    """Put `trainer` where the last checkpoint left it, or delete the checkpoints, as asked. Raises FileFault."""
    if args.fresh:
        for path in checkpoints.paths():
            path.unlink()
    if args.resume:
        state, notes = checkpoints.load()
        for note in notes:
            print(f"selfdraft {command}: warning: {note}", file=sys.stderr)
        try:
            trainer.restore(state)
        except ValueError as error:
            where = checkpoints.folder
            raise FileFault(f"{where}: the checkpoint does not fit: {error}") from error


def work(
    trainer: Trainer,
    checkpoints: CheckpointFolder,
    log: TrainingLog,
    args: argparse.Namespace,
    after: Callable[[Event], None] = lambda event: None,
) -> bool:
    """Run to the end or to a stop, with `after` behind each step; True at the end. Says on stderr where it stopped."""
    config = trainer.config
    progress = TrainingProgress(config.steps, trainer.step, config.batch * config.block)
    clock, busy = time.monotonic(), time.process_time()

    def report(event: Event) -> None:
        nonlocal clock, busy
        now, used = time.monotonic(), time.process_time()
        row = {k: v for k, v in asdict(event).items() if v is not None}
        log.write("step", **row, seconds=round(now - clock, 4), processor=round(used - busy, 4))
        clock, busy = now, used
        progress(event)
        after(event)

    try:
        with interruptible() as interrupted:
            ended = train(trainer, report, checkpoints.save, args.save_every,
                          lambda step: bool(interrupted) or step == args.stop_at)  # fmt: skip
    except Diverged as error:
        log.write("end", step=trainer.step, loss=None, reason=str(error))
        raise
    finally:
        progress.close()
    if not ended:
        print(f"stopped after step {trainer.step} of {config.steps}; the run is saved in "
              f"{checkpoints.folder}, the same command with --resume goes on", file=sys.stderr)  # fmt: skip
    return ended


def stopped(trainer: Trainer, args: argparse.Namespace) -> int:
    """Exit code of a run that did not end: 0 where it was asked to stop there, 130 where it was interrupted."""
    return 0 if trainer.step == args.stop_at else 130


@contextmanager
def interruptible():
    """A list that Ctrl-C fills: the step in hand is finished and saved. A second Ctrl-C does not wait."""
    asked: list[int] = []

    def note(number, frame) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
