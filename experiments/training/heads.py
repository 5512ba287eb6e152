"""Train heads that draft on a model's own states, the model itself frozen: Medusa's extra heads, or EAGLE's one-layer head.

--out gets config.json, model.safetensors and training.json; `--draft medusa:DIR` or `eagle:DIR`, with a / in DIR, drafts with them (and
`medusa:DIR,tree`, `medusa:DIR,2+rtn4`). The run's log, curve, checkpoints and the texts that the model wrote go to --run. The step is
kept whose guesses overlap most with the model's own laws, averaged over the places ahead, on text that the model wrote behind
validation plates. Held-out plates are not read, and the model is not changed: both are checked at the end. Ctrl-C saves and exits with
130; --resume goes on from there, to the bit. Three to four minutes for micro on one quiet core: 2,000 steps for medusa, 800 for eagle.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from experiments.folder_lock import held
from experiments.options import real, set_threads, whole
from experiments.quantize import check_out
from experiments.training.heads_outcome import HeadRun, finish
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
from specdec.drafts.shipped import fingerprint
from specdec.head_training import STUDENTS, HeadConfig

# kind -> what is computed where an option of OWN says nothing else; steps take the minutes that tuning rtn3 takes
RECIPES = {
    "medusa": HeadConfig(kind="medusa", depth=4, steps=2000, lr=5e-2),
    "eagle": HeadConfig(kind="eagle", depth=2, steps=800, lr=2.5e-2),
}
# option -> (type, help); those whose default is the kind's own
OWN = {
    "--depth": (whole(1), "medusa: heads; eagle: how often the head reads a row, its own guesses for the model's states"),
    "--steps": OPTIONS["--steps"],
    "--lr": OPTIONS["--lr"],
}  # fmt: skip
SHARED = {name: entry for name, entry in OPTIONS.items() if name not in OWN} | {
    "--feature-share": (
        real(0, 100),
        "eagle: weight of the distance to the model's states beside the loss between laws",
    )
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=STUDENTS, required=True, help="what to train")
    for option, (kind, what) in OWN.items():
        values = ", ".join(f"{name} {getattr(r, option[2:]):g}" for name, r in RECIPES.items())
        parser.add_argument(option, type=kind, metavar="N", help=f"{what} (default: {values})")
    add_teaching(parser, HeadConfig(), SHARED, save_every=50)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    check_out(args.out, args.model, "heads")
    args.run = args.run or args.out / "run"
    asked = plan(args)
    with held(args.out, args.run):
        return carry_out(asked, args, "heads", finish)


def plan(args: argparse.Namespace) -> HeadRun:
    """Check everything that can be checked before time is spent. Raises ValueError, FileFault naming what is wrong."""
    for option in OWN:
        if getattr(args, option[2:]) is None:
            setattr(args, option[2:], getattr(RECIPES[args.kind], option[2:]))
    config = replace(RECIPES[args.kind], **chosen(HeadConfig, args))
    model = load_model(args.model)
    corpus = read_corpus(args, model)
    command = spelled(args, "heads", ["--kind", "--loss", "--autocast", *OWN, *SHARED])
    texts = TextPlan(**chosen(TextPlan, args))
    return HeadRun(config, texts, corpus, model, fingerprint(model), command)
