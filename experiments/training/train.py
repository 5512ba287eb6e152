"""Train micro, or with --size a smaller sibling, on the course, or on any files of your own, byte by byte.

The weights that predict the validation text best are written to --out as a model's folder
(config.json, model.safetensors, training.json); the run's log, loss curve and checkpoints go to
--run. The held-out text is read once, at the end. Ctrl-C saves and exits with 130; --resume goes on
from there, to the bit. Own files are read as bytes, whatever they hold; from ten files on every
tenth is held out, below that the last tenth of the text.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import fields, replace
from pathlib import Path

import torch

from experiments.folder_lock import held
from experiments.options import add_threads, real, set_threads, whole
from experiments.paths import DATA, RESULTS
from experiments.training.log import TrainingLog
from experiments.training.outcome import Run, finish
from experiments.training.run import add_run, check_begin, stopped, take_up, work
from micro.checkpoint import save_model
from micro.model import ModelConfig, Transformer
from micro.sizes import SIZES
from micro.text import as_tokens, read_course, read_texts
from micro.train import AUTOCASTS, OPTIMIZERS, Event, TrainConfig, Trainer
from micro.training_state import CheckpointFolder

DEFAULT = TrainConfig()

# option -> (field of TrainConfig, type, help)
TRAINING = {
    "--steps": ("steps", whole(1), "optimizer steps; the learning rate's course depends on it"),
    "--batch": ("batch", whole(1), "rows in a batch"),
    "--lr": ("lr", real(0, above=True), "highest learning rate"),
    "--min-lr": ("min_lr", real(0), "learning rate of the last step"),
    "--warmup": ("warmup", whole(0), "steps of linear rise"),
    "--weight-decay": ("weight_decay", real(0), "of the matrices"),
    "--beta2": ("beta2", real(0, 1), "AdamW's memory of squared gradients"),
    "--dropout": ("dropout", real(0, 1), "share of each branch's outputs dropped in training"),
    "--clip": ("clip", real(0), "largest gradient norm; 0 = no limit"),
    "--ema": ("ema", real(0, 1), "decay of the averaged weights that are kept; 0 = no averaging"),
    "--seed": ("seed", whole(0), "of weights, batches and dropout"),
    "--eval-every": ("eval_every", whole(1), "steps between evaluations"),
}
# option -> (field of ModelConfig, help)
SHAPE = {
    "--layers": ("num_hidden_layers", "blocks"),
    "--width": ("hidden_size", "numbers in the stream"),
    "--heads": ("num_attention_heads", "query heads"),
    "--inner": ("intermediate_size", "width inside the SwiGLU"),
    "--context": ("max_position_embeddings", "bytes the model can look back over"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE-or-FOLDER",
                        help="what to train on (default: the course)")  # fmt: skip
    parser.add_argument("--share", type=real(0, 1, above=True), default=1.0, metavar="S",
                        help="train on this share of the text's documents, taken evenly (default: 1, all)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "micro", metavar="DIR",
                        help="folder of the trained model (default: %(default)s)")  # fmt: skip
    parser.add_argument("--run", type=Path, metavar="DIR",
                        help="folder of log.jsonl, loss.png and checkpoints (default: OUT/run)")  # fmt: skip
    for option, (name, kind, what) in TRAINING.items():
        parser.add_argument(option, type=kind, default=getattr(DEFAULT, name), metavar="N",
                            help=f"{what} (default: %(default)s)")  # fmt: skip
    parser.add_argument("--block", type=whole(1), metavar="N",
                        help="bytes in a row of a batch (default: the context)")  # fmt: skip
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default=DEFAULT.optimizer,
                        help="muon: for the blocks' matrices, AdamW for the rest (default: %(default)s)")  # fmt: skip
    parser.add_argument("--size", choices=SIZES, default="micro",
                        help="model: micro, or a smaller sibling (default: %(default)s)")  # fmt: skip
    parser.add_argument("--kv-heads", type=whole(1), metavar="N",
                        help="model: key-value heads (default: as many as heads)")  # fmt: skip
    for option, (name, what) in SHAPE.items():
        parser.add_argument(option, type=whole(1), metavar="N",
                            help=f"model: {what} (default: the size's; micro's is {getattr(SIZES['micro'], name)})")  # fmt: skip
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto",
                        help="where to compute (default: auto, the fastest there is)")  # fmt: skip
    parser.add_argument("--autocast", choices=AUTOCASTS, default=DEFAULT.autocast,
                        help="bfloat16 halves the time where the processor multiplies it natively (default: %(default)s)")  # fmt: skip
    parser.add_argument("--keep-every", type=whole(1), metavar="N",
                        help="also keep the weights of every Nth step, as model folders RUN/step-N (default: none)")  # fmt: skip
    add_run(parser, save_every=100)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    asked = plan(args)
    with held(asked.out, asked.folder):
        return carry_out(asked, args)


def carry_out(asked: Run, args: argparse.Namespace) -> int:
    checkpoints = CheckpointFolder(asked.folder, asked.identity())
    trainer = begin(asked, checkpoints, args)
    log = TrainingLog(asked.folder / "log.jsonl")
    if not args.resume:
        log.write(
            "start", command=asked.command, text_bytes=len(trainer.tokens), **asked.identity()
        )
    if not work(trainer, checkpoints, log, args, lambda event: keep(asked, trainer, event, args)):
        return stopped(trainer, args)
    finish(asked, trainer, log)
    return 0


def plan(args: argparse.Namespace) -> Run:
    """Check everything that can be checked before time is spent. Raises ValueError, FileFault naming what is wrong."""
    fill_shape(args)
    block = args.block or args.context
    corpus = read_texts(args.text, block) if args.text else read_course(DATA)
    if not args.text:
        corpus = replace(corpus, where="the course")  # no path of this machine in the record
    corpus = corpus.thinned(args.share)
    names = {field.name for field in fields(TrainConfig)}
    values = {name: value for name, value in vars(args).items() if name in names}
    config = TrainConfig(**{**values, "block": block})
    sizes = {name: getattr(args, option[2:]) for option, (name, _) in SHAPE.items()}
    sizes["num_key_value_heads"] = args.kv_heads or args.heads
    folder = args.run or args.out / "run"
    device = find_device(args.device)
    return Run(config, ModelConfig(**sizes), corpus, device, args.out, folder, spelled(args, block))


def fill_shape(args: argparse.Namespace) -> None:
    """What was not asked for by itself is the --size's."""
    for option, (name, _) in SHAPE.items():
        if getattr(args, option[2:]) is None:
            setattr(args, option[2:], getattr(SIZES[args.size], name))


def spelled(args: argparse.Namespace, block: int) -> str:
    """The command with every number written out: it means the same whatever the defaults become."""
    words = ["selfdraft", "train"]
    if args.text:
        words += ["--text", *map(str, args.text)]
    options = ["--share", *TRAINING, *SHAPE, "--optimizer", "--autocast", "--device"]
    for option in options:
        words += [option, str(getattr(args, option[2:].replace("-", "_")))]
    words += ["--kv-heads", str(args.kv_heads or args.heads), "--block", str(block)]
    return shlex.join([*words, "--out", str(args.out)])


def find_device(name: str) -> torch.device:
    """Raises ValueError where the device is not there."""
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        name = next(n for n in ("cuda", "mps", "cpu") if there[n])
    if not there[name]:
        raise ValueError(f"--device {name}: torch finds no such device here; there is "
                         f"{', '.join(n for n, found in there.items() if found)}")  # fmt: skip
    return torch.device(name)


def begin(asked: Run, checkpoints: CheckpointFolder, args: argparse.Namespace) -> Trainer:
    """The trainer, at its start or where the last checkpoint left it."""
    check_begin(asked.folder, checkpoints, args)
    model = Transformer(asked.model_config, asked.config.dropout, asked.config.seed).to(
        asked.device
    )
    chosen = asked.corpus.split(asked.selected_on) if asked.selected_on else []
    trainer = Trainer(model, as_tokens(asked.corpus.joined("train")), chosen, asked.config)
    take_up("train", trainer, checkpoints, args)
    return trainer


def keep(asked: Run, trainer: Trainer, event: Event, args: argparse.Namespace) -> None:
    """The weights of every --keep-every-th step, as a model's folder."""
    if args.keep_every and event.step % args.keep_every == 0:
        with trainer.weights(trainer.average) as model:
            save_model(asked.folder / f"step-{event.step}", model)
