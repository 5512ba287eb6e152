"""What a finished distillation leaves: the draft's folder with its record, the curve, checks and an account."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.training.log import TrainingLog
from experiments.training.teaching import Asked
from experiments.training.teaching_outcome import overlap_figure, settle
from micro.checkpoint import load_model, save_model
from micro.model import Transformer
from micro.score import score
from micro.sizes import SIZES
from quant.bytes import pass_bytes
from specdec.distilling import Distiller, OwnText
from specdec.drafts.exits import ExitNorm, exit_model, save_exit


class Distillation(Asked):
    """One distillation as asked for; a subclass says of what."""

    @abstractmethod
    def student(self) -> nn.Module: ...

    @abstractmethod
    def write(self, student: nn.Module, out: Path) -> Transformer:
        """Write the trained student; what the folder then holds, as a model."""

    @abstractmethod
    def kept(self, student: nn.Module) -> dict[str, Tensor]:
        """What was trained, by its name in that model."""

    def trainer(self, tokens: Tensor, own: OwnText | None, validation: list[OwnText]) -> Distiller:
        return Distiller(self.model, self.student(), tokens, own, validation, self.config)


@dataclass(frozen=True)
class Sibling(Distillation):
    """Of a smaller model of its own, from random weights."""

    size: str

    def about(self) -> dict[str, object]:
        return {"size": self.size}

    def student(self) -> Transformer:
        return Transformer(SIZES[self.size], seed=self.config.seed)

    def write(self, student: Transformer, out: Path) -> Transformer:
        save_model(out, student)
        return load_model(out)

    def kept(self, student: Transformer) -> dict[str, Tensor]:
        return dict(student.named_parameters())


@dataclass(frozen=True)
class Exit(Distillation):
    """Of the norm of an early exit behind `exit` layers."""

    exit: int

    def about(self) -> dict[str, object]:
        return {"exit": self.exit}

    def student(self) -> ExitNorm:
        return ExitNorm(self.model, self.exit)

    def write(self, student: ExitNorm, out: Path) -> Transformer:
        save_exit(out, student.norm())
        return exit_model(self.model, self.exit, out)

    def kept(self, student: ExitNorm) -> dict[str, Tensor]:
        return {"model.norm.weight": student.norm()}


def finish(
    asked: Distillation, trainer: Distiller, log: TrainingLog, out: Path, folder: Path
) -> int:
    """Write, check, draw, tell; 1 where a check failed. Raises FileFault where something cannot be written."""
    with trainer.weights(trainer.best) as student:
        draft = asked.write(student, out)
        kept = asked.kept(student).items()
        same = all(torch.equal(draft.get_parameter(n), p.bfloat16().float()) for n, p in kept)
    record = account(asked, trainer, log.steps(), draft)
    name = " ".join(str(word) for pair in asked.about().items() for word in pair)
    before = {"before": record["overlap"]["before"]} if "overlap" in record else {}
    figure = overlap_figure(record["curve"], f"Distillation of {name}", "distilled", before)
    checks = {"loaded back, it is what was trained, in bfloat16": same}
    return settle(asked, "distil", record, checks, spoken(name, record), figure, log, out, folder)


def account(asked: Distillation, trainer: Distiller, rows: list[dict], draft: Transformer) -> dict:
    """The record: what was done, overlap on validation before and after, and the loss of what was written on people's text."""
    record = asked.record(trainer, rows)
    record["parameters"] = sum(p.numel() for p in trainer.parameters.values())
    record["bytes_per_pass"] = pass_bytes(draft)
    if trainer.validation:
        with torch.no_grad():
            before = trainer.refused(asked.student())
        record["overlap"] = {"before": 1 - before, "after": 1 - trainer.refused(draft)}
    for split in ("validation", "held-out"):
        if documents := asked.corpus.split(split):
            found = score(draft, documents)
            record[split] = {"bits_per_byte": found.bits_per_byte, "bytes": found.bytes}
    return record


def spoken(name: str, record: dict) -> list[str]:
    """The record in a few lines. ASCII, so that any console can show it."""
    lines = [
        f"{name}: {record['steps']} steps in {record['minutes']:.1f} minutes; kept is step {record['best_step']}",
        f"{record['parameters']:,} parameters trained; a pass reads {record['bytes_per_pass']:,} bytes",
    ]
    if "overlap" in record:
        before, after = record["overlap"]["before"], record["overlap"]["after"]
        lines.append(
            f"overlap with the target on its own validation text: {before:.4f} before, {after:.4f} after"
        )
    else:
        lines.append("too little text to hold any out: nothing was evaluated")
    lines += [
        f"{split}: {record[split]['bits_per_byte']:.3f} bits per byte"
        for split in ("validation", "held-out")
        if split in record
    ]
    return lines
