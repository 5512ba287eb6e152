"""Distil a draft from the target: a smaller sibling, or the norm of an early exit, learns the target's own law.

--size pico, nano or mini begins at random weights and writes a model's folder, which draft nano:DIR names; --exit N trains
one norm behind the first N layers, all else frozen, and writes what draft exit:DIR names. The texts are those that the target
writes behind openings of training text; with --own-share below 1 a batch's other rows are training text. The step is kept whose
overlap with the target (the share of drafted bytes that would be accepted at T = 1) is largest on text that the target
wrote behind validation plates. The held-out text is read once, at the end. Ctrl-C saves and exits with 130; --resume goes on from
there, to the bit.
"""

from __future__ import annotations

import argparse

from experiments.folder_lock import held
from experiments.options import set_threads, whole
from experiments.quantize import check_place
from experiments.training.distil_outcome import Exit, Sibling, finish
from experiments.training.teaching import (
    OPTIONS,
    add_teaching,
    carry_out,
    chosen,
    read_corpus,
    spelled,
)
from experiments.training.tune_text import TextPlan
from micro.checkpoint import load_model
from micro.model import Transformer
from micro.sizes import SIZES
from specdec.distilling import DistilConfig
from specdec.drafts.shipped import fingerprint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    student = parser.add_mutually_exclusive_group(required=True)
    student.add_argument("--size", choices=[name for name in SIZES if name != "micro"],
                         help="a smaller sibling, from random weights")  # fmt: skip
    student.add_argument("--exit", type=whole(1), metavar="N",
                         help="the norm of an early exit behind the first N layers")  # fmt: skip
    add_teaching(parser, DistilConfig(), OPTIONS, save_every=200)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    check_place(args.out, args.model)
    args.run = args.run or args.out / "run"
    asked = plan(args)
    with held(args.out, args.run):
        return carry_out(asked, args, "distil", finish)


def plan(args: argparse.Namespace) -> Sibling | Exit:
    """Check everything that can be checked before time is spent. Raises ValueError, FileFault naming what is wrong."""
    optimizer = (
        "adamw" if args.exit else "muon"
    )  # muon is for matrices, of which an exit trains none
    remember = args.own_share == 1
    config = DistilConfig(**chosen(DistilConfig, args), optimizer=optimizer, remember=remember)
    texts = TextPlan(**chosen(TextPlan, args))
    model = load_model(args.model)
    student = "--exit" if args.exit else "--size"
    command = spelled(args, "distil", [student, "--loss", "--autocast", *OPTIONS])
    common = (config, texts, read_corpus(args, model), model, fingerprint(model), command)
    return Exit(*common, _exit(args, model)) if args.exit else Sibling(*common, _size(args, model))


def _exit(args: argparse.Namespace, model: Transformer) -> int:
    count = model.config.num_hidden_layers
    if args.exit >= count:
        raise ValueError(
            f"--exit {args.exit}: the model has exits behind 1 to {count - 1} of its {count} layers"
        )
    return args.exit


def _size(args: argparse.Namespace, model: Transformer) -> str:
    if (found := model.vocab) != (wanted := SIZES[args.size].vocab_size):
        raise ValueError(f"--size {args.size}: it has {wanted} tokens, {args.model} has {found}")
    if args.block > (context := SIZES[args.size].max_position_embeddings):
        raise ValueError(f"--block {args.block} is beyond the {context} of {args.size}'s context")
    return args.size
