"""What `tune` and `distil` share: their options, and a resumable run in which a student learns the target's law.

The command says what its student is (a subclass of Asked) and what is left at the end; the texts, the run's folder, going on after a
stop and the record's common part are here.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from experiments.options import add_model, add_threads, real, whole
from experiments.paths import DATA, WEIGHTS
from experiments.training.log import TrainingLog, minutes
from experiments.training.run import add_run, check_begin, stopped, take_up, work
from experiments.training.tune_text import TextPlan, chosen_by, own_texts
from micro.model import Transformer
from micro.text import Corpus, as_tokens, read_course, read_texts
from micro.train import AUTOCASTS
from micro.training_state import CheckpointFolder
from specdec.distilling import DistilConfig, Distiller, OwnText
from specdec.tuning_losses import parse_schedule

# option -> (type, help); a field of the configuration or of TextPlan each
OPTIONS = {
    "--steps": (whole(1), "optimizer steps"),
    "--batch": (whole(1), "rows in a batch"),
    "--block": (whole(2), "bytes in a row"),
    "--lr": (real(0, 100, above=True), "highest learning rate"),
    "--warmup": (whole(0), "steps of linear rise; then a cosine down to zero"),
    "--own-share": (real(0, 1), "of a batch's rows, those that the target wrote"),
    "--parts": (whole(1), "passes a batch is split into: the same step in less memory"),
    "--eval-every": (whole(1), "steps between evaluations"),
    "--own-texts": (whole(1), "texts that the target writes behind training text"),
    "--validation-texts": (whole(1), "texts that the target writes behind validation text"),
    "--opening": (whole(1), "bytes of a text that are given"),
    "--seed": (whole(0), "of batches and of the target's texts"),
}


def add_teaching(
    parser: argparse.ArgumentParser,
    default: DistilConfig,
    options: Mapping[str, tuple[Callable, str]],
    save_every: int,
) -> None:
    """The model, the texts, the `options` with the defaults of `default` and of TextPlan, the run."""
    add_model(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the draft"
    )
    parser.add_argument("--run", type=Path, metavar="DIR",
                        help="folder of log.jsonl, overlap.png, checkpoints and texts (default: OUT/run)")  # fmt: skip
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE-or-FOLDER",
                        help="what to learn on (default: the course)")  # fmt: skip
    parser.add_argument("--loss", default=str(default.schedule), metavar="NAME[:SHARE],...",
                        help="kl, tv, log-overlap, one after the other, each for its share of the steps (default: %(default)s)")  # fmt: skip
    texts = TextPlan()
    for option, (kind, what) in options.items():
        name = option[2:].replace("-", "_")
        value = getattr(default if hasattr(default, name) else texts, name)
        parser.add_argument(option, type=kind, default=value, metavar="N",
                            help=f"{what} (default: %(default)s)")  # fmt: skip
    parser.add_argument("--autocast", choices=AUTOCASTS, default=default.autocast,
                        help="bfloat16 is faster where the processor multiplies it natively (default: %(default)s)")  # fmt: skip
    add_run(parser, save_every)
    add_threads(parser)


@dataclass(frozen=True)
class Asked(ABC):
    """One training towards the target's law, as asked for."""

    config: DistilConfig
    texts: TextPlan
    corpus: Corpus
    model: Transformer
    fingerprint: str
    command: str

    @abstractmethod
    def about(self) -> dict[str, object]:
        """What the student is: part of the run's identity and of its record."""

    @abstractmethod
    def trainer(
        self, tokens: Tensor, own: OwnText | None, validation: list[OwnText]
    ) -> Distiller: ...

    def identity(self) -> dict[str, object]:
        """All that must agree for a resume to continue the same computation."""
        config = {**asdict(self.config), "schedule": str(self.config.schedule)}
        about = {"target": self.fingerprint, "text (sha256)": self.corpus.sha256()}
        return {**about, **self.about(), **config, **asdict(self.texts)}

    def record(self, trainer: Distiller, rows: list[dict]) -> dict:
        """What was done, for training.json. `rows`: the log's steps."""
        return {
            "command": self.command,
            **self.about(),
            "target": self.fingerprint,
            "seed": self.config.seed,
            "text_sha256": self.corpus.sha256(),
            "selected_on": chosen_by(self.corpus),
            "steps": trainer.step,
            "best_step": trainer.best_step,
            **minutes(rows),
            "threads": torch.get_num_threads(),
            "curve": [
                [r["step"], 1 - r["validation"]] for r in rows if r.get("validation") is not None
            ],
        }


def chosen(kind: type, args: argparse.Namespace) -> dict[str, object]:
    """The fields of the dataclass `kind` that are options, and the schedule that --loss means."""
    found = {f.name: getattr(args, f.name) for f in fields(kind) if hasattr(args, f.name)}
    if issubclass(kind, DistilConfig):
        found["schedule"] = parse_schedule(args.loss)
    return found


def read_corpus(args: argparse.Namespace, model: Transformer) -> Corpus:
    """The text to learn on. Raises ValueError where openings, rows and the model's context do not fit each other, FileFault."""
    if not args.opening < args.block <= model.context:
        raise ValueError(
            f"--opening {args.opening} must be below --block {args.block}, and that at most the model's context, "
            f"{model.context}"
        )
    return read_texts(args.text, args.block) if args.text else read_course(DATA)


def spelled(args: argparse.Namespace, command: str, options: Iterable[str]) -> str:
    """The command with every number written out: it means the same whatever the defaults become."""
    words = ["selfdraft", command]
    if args.model != WEIGHTS:
        words += ["--model", str(args.model)]
    if args.text:
        words += ["--text", *map(str, args.text)]
    for option in options:
        words += [option, str(getattr(args, option[2:].replace("-", "_")))]
    return shlex.join([*words, "--out", str(args.out)])


def carry_out(
    asked: Asked,
    args: argparse.Namespace,
    command: str,
    finish: Callable[[Asked, Distiller, TrainingLog, Path, Path], int],
) -> int:
    """Begin or go on, to the end or a stop; `finish` writes what is left and says whether it is right."""
    checkpoints = CheckpointFolder(args.run, asked.identity())
    trainer = _begin(asked, checkpoints, args, command)
    log = TrainingLog(args.run / "log.jsonl")
    if not args.resume:
        log.write("start", command=asked.command, **asked.identity())
    if not work(trainer, checkpoints, log, args):
        return stopped(trainer, args)
    return finish(asked, trainer, log, args.out, args.run)


def _begin(
    asked: Asked, checkpoints: CheckpointFolder, args: argparse.Namespace, command: str
) -> Distiller:
    """The training, at its start or where the last checkpoint left it."""
    check_begin(args.run, checkpoints, args)
    own, validation = own_texts(
        asked.model,
        asked.fingerprint,
        asked.corpus,
        asked.texts,
        args.run,
        lambda what: print(f"selfdraft {command}: {what}", file=sys.stderr),
    )
    trainer = asked.trainer(as_tokens(asked.corpus.joined("train")), own, validation)
    take_up(command, trainer, checkpoints, args)
    return trainer
