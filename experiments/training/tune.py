"""Tune a low-bit draft for acceptance: train its codes, scales and norms towards the target's own law, at the same bytes.

--out gets a draft's folder as `selfdraft quantize` writes it, which `--draft DIR` uses, and training.json; the run's log, curve,
checkpoints and the texts that the target wrote go to --run. The step is kept whose overlap with the target (the share of
drafted bytes that would be accepted at T = 1) is largest on text that the target wrote behind validation plates. Held-out plates
are not read, and the target is not changed: both are checked at the end. Ctrl-C saves and exits with 130; --resume goes on from
there, to the bit. For micro 3 to 9 minutes on two cores, the less where the processor multiplies bfloat16 natively (--autocast bfloat16).
"""

from __future__ import annotations

import argparse

from experiments.draft_formats import read_format
from experiments.folder_lock import held
from experiments.options import real, set_threads
from experiments.quantize import check_out
from experiments.training.teaching import (
    OPTIONS,
    add_teaching,
    carry_out,
    chosen,
    read_corpus,
    spelled,
)
from experiments.training.tune_outcome import Tuning, finish
from experiments.training.tune_text import TextPlan
from micro.checkpoint import load_model
from specdec.drafts.shipped import fingerprint
from specdec.tuning import TuneConfig

TUNING = {
    **OPTIONS,
    "--lr": (real(0, 100, above=True), "highest learning rate, in steps of the weights' grid"),
    "--shrink": (real(0, 2, above=True), "factor on every scale at the start"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", default="rtn3", metavar="NAME",
                        help="format of the draft, as in rtn3 or mse2-g64, or mix:FILE.json with {matrix: format} (default: %(default)s)")  # fmt: skip
    add_teaching(parser, TuneConfig(), TUNING, save_every=50)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    check_out(args.out, args.model)
    args.run = args.run or args.out / "run"
    asked = plan(args)
    with held(args.out, args.run):
        return carry_out(asked, args, "tune", finish)


def plan(args: argparse.Namespace) -> Tuning:
    """Check everything that can be checked before time is spent. Raises ValueError, FileFault naming what is wrong."""
    format = read_format(args.format)
    config, texts = TuneConfig(**chosen(TuneConfig, args)), TextPlan(**chosen(TextPlan, args))
    model = load_model(args.model)
    corpus = read_corpus(args, model)
    command = spelled(args, "tune", ["--format", "--loss", "--autocast", *TUNING])
    return Tuning(config, texts, corpus, model, fingerprint(model), command, format)
