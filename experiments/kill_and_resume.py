"""Kill a run, go on, and compare with the run that nobody disturbed: training, plate and a sweep, many times each.

    python -m experiments.kill_and_resume --what train --times 100

Each time a process runs the command and gets SIGKILL at a moment drawn uniformly over what the undisturbed run computed; the same
command, for a training with --resume, then runs to its end. What it leaves must equal what the undisturbed run left: weights,
checkpoint and log of a training, records and figures of a plate, records of a sweep, all but times and the machine. Models and texts
are tiny: it is the moments that count. Exit code 1: something differed, or a run did not end well.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from experiments.__main__ import Parser, main
from experiments.options import whole
from experiments.store import Store
from experiments.training.log import TrainingLog
from micro.checkpoint import save_model
from micro.model import ModelConfig, Transformer
from micro.training_state import NAMES, CheckpointFolder, read_state

TEXT = bytes(range(256)) * 3


def make_inputs(folder: Path) -> None:
    """A model that is far from uniform, so that its copies differ from it; six prompts; a text."""
    config = ModelConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    model = Transformer(config, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    save_model(folder / "model", model)
    kinds = ("lesson", "copy", "free") * 2
    rows = [{"id": f"p{i}", "kind": kind, "text": f"prompt {i}"} for i, kind in enumerate(kinds)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "text.bin").write_bytes(TEXT)


def train_command(inputs: Path, out: Path) -> list[str]:
    """60 steps with dropout and averaging, saved at every second; --resume where there is something to resume."""
    words = [
        "--steps", "60", "--save-every", "2", "--eval-every", "7", "--batch", "2", "--layers", "1", "--width", "16",
        "--heads", "2", "--inner", "16", "--context", "16", "--warmup", "2", "--dropout", "0.1", "--ema", "0.5",
        "--device", "cpu", "--threads", "1",
    ]  # fmt: skip
    begun = CheckpointFolder(out / "run", {}).paths()
    resume = ["--resume"] if begun else []
    return ["train", "--text", str(inputs / "text.bin"), "--out", str(out), *words, *resume]


def train_leaves(out: Path) -> dict[str, object]:
    record = json.loads((out / "training.json").read_bytes())
    newest = max(
        (read_state(out / "run" / name) for name in NAMES), key=lambda state: state["step"]
    )
    tensors = newest.pop("tensors")
    return {
        "weights": digest((out / "model.safetensors").read_bytes()),
        "config.json": (out / "config.json").read_text(),
        "training.json": {
            k: v
            for k, v in record.items()
            if k not in ("minutes", "processor_minutes", "environment")
        },
        "log": [
            {**row, "seconds": None, "processor": None}
            for row in TrainingLog(out / "run" / "log.jsonl").steps()
        ],
        "checkpoint": newest,
        "checkpoint's tensors": {name: digest(t.numpy().tobytes()) for name, t in tensors.items()},
        "files": visible(out),
    }


def plate_command(inputs: Path, out: Path) -> list[str]:
    return [
        "plate", "--model", str(inputs / "model"), "--prompts", str(inputs / "prompts.jsonl"),
        "--window", "16", "--seeds", "1", "--threads", "1", "--out", str(out),
    ]  # fmt: skip


def plate_leaves(out: Path) -> dict[str, object]:
    figures = {path.name: digest(path.read_bytes()) for path in sorted(out.glob("*.png"))}
    return {**records(out, "plate-run", "estimate"), "figures": figures, "files": visible(out)}


def sweep_command(inputs: Path, out: Path) -> list[str]:
    return [
        "run", "rules", "--model", str(inputs / "model"), "--prompts", str(inputs / "prompts.jsonl"),
        "--first", "3", "--window", "16", "--seeds", "1", "--most-gamma", "4", "--threads", "1",
        "--out", str(out),
    ]  # fmt: skip


def sweep_leaves(out: Path) -> dict[str, object]:
    return {**records(out, "rules"), "files": visible(out)}


def records(out: Path, *names: str) -> dict[str, object]:
    """Every finished record but for its environment, by experiment and key."""
    return {
        f"{name} {record['key']}": {**record, "environment": None}
        for name in names
        for record in Store(out).of(name)
    }


def visible(out: Path) -> list[str]:
    """Names of the files; of records, each process has a file of its own."""
    found = (path.relative_to(out) for path in out.rglob("[!.]*") if path.is_file())
    return sorted({"records" if path.suffix == ".jsonl" else str(path) for path in found})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Target:
    """`command(inputs, out)`: what begins or goes on; `leaves(out)`: what must be equal at the end; `late`: modules that the
    command imports late. Forked processes find them there, so that the moments fall into the work."""

    command: Callable[[Path, Path], list[str]]
    leaves: Callable[[Path], dict[str, object]]
    late: tuple[str, ...]

    def prepare(self, folder: Path) -> None:
        """Imports and inputs; threads, as a process that forks may have one alone."""
        torch.set_num_threads(1)
        for name in self.late:
            importlib.import_module(f"experiments.{name}")
        make_inputs(folder)


TARGETS = {
    "train": Target(train_command, train_leaves, ("training.train",)),
    "plate": Target(plate_command, plate_leaves, ("plate.run", "estimate", "plate.table", "figures", "page.command")),
    "sweep": Target(sweep_command, sweep_leaves, ("rules.command", "rules.run")),
}  # fmt: skip


@dataclass
class Outcome:
    """Of all times: how many were killed before their end; what went wrong, one line each."""

    times: int
    killed: int = 0
    faults: list[str] = field(default_factory=list)


def kill_and_resume(
    target: Target, folder: Path, times: int, seed: int, say: Callable[[str], None]
) -> Outcome:
    """Raises RuntimeError where the undisturbed run itself does not end well."""
    target.prepare(folder)
    out, log = folder / "out", folder / "log.txt"
    undisturbed = run_child(target.command(folder, out), log)
    if undisturbed.code != 0:
        raise RuntimeError(
            f"undisturbed, it ended with {undisturbed.code}: {log.read_text()[-2000:]}"
        )
    wanted = target.leaves(out)
    say(f"undisturbed: {undisturbed.seconds:.2f} s of computing")
    outcome, chance = Outcome(times), random.Random(seed)
    for number in range(1, times + 1):
        shutil.rmtree(out)
        moment = chance.uniform(0, undisturbed.seconds)
        killed = run_child(target.command(folder, out), log, moment)
        outcome.killed += killed.code == -signal.SIGKILL
        code = run_child(target.command(folder, out), log).code
        outcome.faults += [f"time {number}, killed after {moment:.3f} s: {fault}"
                           for fault in faults(target, out, wanted, code, log)]  # fmt: skip
        say(f"{number} of {times}: killed after {moment:.2f} s, {len(outcome.faults)} faults")
    return outcome


def faults(target: Target, out: Path, wanted: dict, code: int, log: Path) -> list[str]:
    """What is wrong with a resumed run: how it ended, or what it left."""
    if code != 0:
        return [f"the resumed run ended with {code}: {log.read_text()[-500:]!r}"]
    found = target.leaves(out)
    return [
        f"{name} differs"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]


class Ended(NamedTuple):
    """How a process ended: its exit code, -9 where it was killed; the seconds it computed."""

    code: int
    seconds: float


def run_child(words: list[str], log: Path, kill_after: float | None = None) -> Ended:
    """The command in a forked process, its output in `log`; killed once it has computed for `kill_after` seconds."""
    child = os.fork()  # not a new interpreter: importing torch takes longer than these runs
    if not child:
        code = 1
        try:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(file, stream)
            code = main(words)
        except SystemExit as left:
            code = left.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        begun = time.monotonic()
        while not ended(child) and computed(child, begun) < kill_after:
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)  # until it is waited for, its number is nobody else's
    _, status, used = os.wait4(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)


def ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def computed(child: int, begun: float) -> float:
    """Seconds its one thread has computed: beside other work, the clock on the wall would say little. That clock, from `begun`
    on, where the system does not tell."""
    try:
        return int(Path(f"/proc/{child}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return time.monotonic() - begun


def run(args: argparse.Namespace) -> int:
    if not hasattr(os, "fork"):
        raise ValueError("this system has no fork; the check needs one")

    def say(text: str) -> None:
        print(f"{args.what}: {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_and_resume(TARGETS[args.what], Path(folder), args.times, args.seed, say)
    for fault in outcome.faults:
        print(fault)
    print(
        f"{args.what}: begun {outcome.times} times, killed {outcome.killed} times before the end, resumed; "
        f"{len(outcome.faults)} differences from the undisturbed run"
    )
    return 1 if outcome.faults else 0


def arguments() -> argparse.ArgumentParser:
    parser = Parser(
        "python -m experiments.kill_and_resume",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--what", choices=TARGETS, required=True, help="what is run and killed")
    parser.add_argument("--times", type=whole(1), default=10, metavar="N", help="(default: 10)")
    parser.add_argument("--seed", type=whole(0), default=1, metavar="N",
                        help="of the moments (default: 1)")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(run(arguments().parse_args()))
