"""How much text is enough: micro trained on a quarter, a half and all of the course, and what its low-bit copies are worth.

The shipped micro is the whole; the others are trained here by the command in its training record, on a part of the plates
(`selfdraft train --share`) and in that part of its steps, so that each reads its text equally often, unless their folders hold
a finished model already. An interrupted training is resumed. Then the held-out loss and the acceptance of rtn4 and rtn3 at T = 1 are measured as `selfdraft plate` does, and drawn.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import estimate
from experiments.options import add_model, add_threads, set_threads
from experiments.paths import DATA, REFERENCE, RESULTS
from micro.files import FileFault, read_json

if TYPE_CHECKING:
    from experiments.setting import Setting

SHARES = (0.25, 0.5, 1.0)
DRAFTS = ("rtn4", "rtn3")
TEMPERATURE = 1.0


@dataclass(frozen=True)
class TextAmount:
    """The measurement of one share: an Experiment whose points are the drafts."""

    share: float
    NAME: ClassVar[str] = "text-amount"
    VERSION: ClassVar[int] = 1

    @property
    def POINTS(self) -> list[dict]:  # noqa: N802 - the name that every experiment's table has
        return [{"share": self.share, "draft": name, "temperature": TEMPERATURE} for name in DRAFTS]

    def identity(self, point: dict, setting: Setting) -> dict:
        from micro.text import read_course

        return {**estimate.identity(point, setting), "course": read_course(DATA).sha256()}

    def run(self, point: dict, setting: Setting) -> dict:
        """The estimate's counts, the training text's size and the losses."""
        from micro.score import score
        from micro.text import read_course

        course = read_course(DATA)
        losses = {
            split: score(setting.model, course.split(split)).nats
            for split in ("validation", "held-out")
        }
        text = len(course.thinned(self.share).joined("train"))
        return {**estimate.run(point, setting), "train_bytes": text, "nats": losses}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "text-amount", metavar="DIR",
                        help="folder of the trained parts and the records (default: %(default)s)")  # fmt: skip
    parser.add_argument("--reference", action="store_true",
                        help="write records and figure to the repository's reference instead")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import Store

    set_threads(args.threads)
    folders = {share: trained(share, args) for share in SHARES}
    prompts = load_prompts(DATA / "prompts.jsonl")
    out = REFERENCE if args.reference else args.out
    store, records = Store(out), []
    for share, folder in folders.items():
        records += measure(TextAmount(share), Setting(folder, prompts), store)[0]
    print("\n".join(table(records)))
    for path in draw("text-amount", records, out):
        print(path)
    return 0


def trained(share: float, args: argparse.Namespace) -> Path:
    """The folder of the model that has read `share` of the course; trains it where there is none.

    Raises FileFault where the shipped model has no training record to follow.
    """
    if share == 1:
        return args.model
    folder = args.out / f"share-{share:g}"
    if not (folder / "training.json").exists():
        print(f"training on {share:g} of the course: {folder}", file=sys.stderr)
        _train(share, folder, args)
    return folder


def _train(share: float, folder: Path, args: argparse.Namespace) -> None:
    from experiments.__main__ import run_command
    from micro.training_state import CheckpointFolder

    record = read_json(args.model / "training.json")
    if "command" not in record:
        raise FileFault(f"{args.model / 'training.json'} names no command to train a part with")
    words = shlex.split(record["command"])[2:]  # behind `selfdraft train`
    words += ["--share", str(share), "--out", str(folder)]  # the last of an option counts
    for option in ("--steps", "--warmup"):
        words += [option, str(max(1, round(int(words[words.index(option) + 1]) * share)))]
    words += ["--threads", str(args.threads)] if args.threads else []
    words += ["--resume"] if CheckpointFolder(folder / "run", {}).paths() else []
    if code := run_command("train", "training.train", words):
        raise SystemExit(code)


def table(records: list[dict]) -> list[str]:
    """One line for each share and draft."""
    from math import log

    from experiments.plate.curves import HEADLINE_C, curve

    lines = [f"{'share':>6}{'bytes read':>12}{'held out, bits per byte':>25}  draft  "
             f"{'alpha at gamma 4':24}best estimated speed-up (c, weight bytes)"]  # fmt: skip
    for record in records:
        one, result = curve(record), record["result"]
        gamma, best = one.best(one.c[HEADLINE_C])
        alpha = one.at(one.alpha, 4)
        lines.append(
            f"{record['point']['share']:>6g}{result['train_bytes']:>12,}{result['nats']['held-out'] / log(2):>25.3f}  "
            f"{one.draft:7}{alpha.value:.3f} [{alpha.low:.3f}, {alpha.high:.3f}]    {best} at gamma {gamma} "
            f"({one.c[HEADLINE_C]:.3f})"
        )
    return lines
