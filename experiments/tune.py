"""Tune a low-bit draft for acceptance: train its codes, scales and norms towards the target's own law, at the same bytes.

--out gets a draft's folder as `selfdraft quantize` writes it, which `--draft DIR` uses, and training.json; the run's log, curve,
checkpoints and the texts that the target wrote go to --run. The step is kept whose overlap with the target (the share of
drafted bytes that would be accepted at T = 1) is largest on text that the target wrote behind validation plates. Held-out plates
are not read, and the target is not changed: both are checked at the end. Ctrl-C saves and exits with 130; --resume goes on from
there, to the bit. A few minutes for micro on two cores: a step takes 1 to 2 seconds on one.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import fields
from pathlib import Path

from experiments.folder_lock import held
from experiments.options import add_model, add_threads, real, set_threads, whole
from experiments.paths import DATA, WEIGHTS
from experiments.quantize import check_out
from experiments.training_log import TrainingLog
from experiments.training_run import add_run, check_begin, stopped, take_up, work
from experiments.tune_outcome import Asked, finish
from experiments.tune_text import TextPlan, own_texts
from micro.checkpoint import load_model
from micro.text import as_tokens, read_course, read_texts
from micro.train import AUTOCASTS
from micro.training_state import CheckpointFolder
from quant.formats import parse_format
from specdec.drafts.tuned import fingerprint
from specdec.tuning import TuneConfig, Tuner
from specdec.tuning_losses import parse_schedule

DEFAULT, TEXTS = TuneConfig(), TextPlan()

# option -> (type, help); a field of TuneConfig or TextPlan each
OPTIONS = {
    "--steps": (whole(1), "optimizer steps"),
    "--batch": (whole(1), "rows in a batch"),
    "--block": (whole(2), "bytes in a row"),
    "--lr": (real(0, 100, above=True), "highest learning rate, in steps of the weights' grid"),
    "--warmup": (whole(0), "steps of linear rise; then a cosine down to zero"),
    "--shrink": (real(0, 2, above=True), "factor on every scale at the start"),
    "--own-share": (real(0, 1), "of a batch's rows, those that the target wrote"),
    "--parts": (whole(1), "passes a batch is split into: the same step in less memory"),
    "--eval-every": (whole(1), "steps between evaluations"),
    "--own-texts": (whole(1), "texts that the target writes behind training text"),
    "--validation-texts": (whole(1), "texts that the target writes behind validation text"),
    "--opening": (whole(1), "bytes of a text that are given"),
    "--seed": (whole(0), "of batches and of the target's texts"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--format", default="rtn3", metavar="NAME",
                        help="format of the draft, as in rtn3 or mse2-g64 (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the draft"
    )
    parser.add_argument("--run", type=Path, metavar="DIR",
                        help="folder of log.jsonl, overlap.png, checkpoints and texts (default: OUT/run)")  # fmt: skip
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE-or-FOLDER",
                        help="what to tune on (default: the course)")  # fmt: skip
    parser.add_argument("--loss", default=str(DEFAULT.schedule), metavar="NAME[:SHARE],...",
                        help="kl, tv, log-overlap, one after the other, each for its share of the steps (default: %(default)s)")  # fmt: skip
    for option, (kind, what) in OPTIONS.items():
        name = option[2:].replace("-", "_")
        default = getattr(DEFAULT if hasattr(DEFAULT, name) else TEXTS, name)
        parser.add_argument(option, type=kind, default=default, metavar="N",
                            help=f"{what} (default: %(default)s)")  # fmt: skip
    parser.add_argument("--autocast", choices=AUTOCASTS, default=DEFAULT.autocast,
                        help="bfloat16 is faster where the processor multiplies it natively (default: %(default)s)")  # fmt: skip
    add_run(parser, save_every=50)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    check_out(args.out, args.model)
    args.run = args.run or args.out / "run"
    asked = plan(args)
    with held(args.out, args.run):
        return carry_out(asked, args)


def plan(args: argparse.Namespace) -> Asked:
    """Check everything that can be checked before time is spent. Raises ValueError, FileFault naming what is wrong."""
    format, schedule = parse_format(args.format), parse_schedule(args.loss)
    config = TuneConfig(**_chosen(TuneConfig, args), schedule=schedule)
    texts = TextPlan(**_chosen(TextPlan, args))
    model = load_model(args.model)
    if not args.opening < args.block <= model.context:
        raise ValueError(
            f"--opening {args.opening} must be below --block {args.block}, and that at most the model's context, "
            f"{model.context}"
        )
    corpus = read_texts(args.text, args.block) if args.text else read_course(DATA)
    return Asked(format, config, texts, corpus, model, fingerprint(model), spelled(args))


def _chosen(kind: type, args: argparse.Namespace) -> dict[str, object]:
    """The fields of a dataclass that are options."""
    return {f.name: getattr(args, f.name) for f in fields(kind) if hasattr(args, f.name)}


def spelled(args: argparse.Namespace) -> str:
    """The command with every number written out: it means the same whatever the defaults become."""
    words = ["selfdraft", "tune"]
    if args.model != WEIGHTS:
        words += ["--model", str(args.model)]
    if args.text:
        words += ["--text", *map(str, args.text)]
    for option in ["--format", "--loss", "--autocast", *OPTIONS]:
        words += [option, str(getattr(args, option[2:].replace("-", "_")))]
    return shlex.join([*words, "--out", str(args.out)])


def carry_out(asked: Asked, args: argparse.Namespace) -> int:
    checkpoints = CheckpointFolder(args.run, asked.identity())
    tuner = begin(asked, checkpoints, args)
    log = TrainingLog(args.run / "log.jsonl")
    if not args.resume:
        log.write("start", command=asked.command, **asked.identity())
    if not work(tuner, checkpoints, log, args):
        return stopped(tuner, args)
    return finish(asked, tuner, log, args.out, args.run)


def begin(asked: Asked, checkpoints: CheckpointFolder, args: argparse.Namespace) -> Tuner:
    """The tuning, at its start or where the last checkpoint left it."""
    check_begin(args.run, checkpoints, args)
    own, validation = own_texts(
        asked.model,
        asked.fingerprint,
        asked.corpus,
        asked.texts,
        args.run,
        lambda what: print(f"selfdraft tune: {what}", file=sys.stderr),
    )
    tokens = as_tokens(asked.corpus.joined("train"))
    tuner = Tuner(asked.model, asked.format, tokens, own, validation, asked.config)
    take_up("tune", tuner, checkpoints, args)
    return tuner
