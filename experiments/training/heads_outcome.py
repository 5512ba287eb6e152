"""What a finished training of heads leaves: their folder with its record, the curve, checks and an account."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.training.log import TrainingLog
from experiments.training.teaching import Asked
from experiments.training.teaching_outcome import overlap_figure, settle
from quant.bytes import pass_bytes
from specdec.distilling import OwnText
from specdec.drafts.eagle import head_for
from specdec.drafts.head_folder import STORED, read_heads, save_heads
from specdec.drafts.medusa import heads_for
from specdec.head_training import STUDENTS, HeadTrainer

MAKERS = {"medusa": heads_for, "eagle": head_for}


class HeadRun(Asked):
    """One training of heads as asked for."""

    def about(self) -> dict[str, object]:
        return {"heads": self.config.kind, "depth": self.config.depth}

    def trainer(
        self, tokens: Tensor, own: OwnText | None, validation: list[OwnText]
    ) -> HeadTrainer:
        return HeadTrainer(self.model, tokens, own, validation, self.config)


def finish(asked: HeadRun, trainer: HeadTrainer, log: TrainingLog, out: Path, folder: Path) -> int:
    """Write, check, draw, tell; 1 where a check failed. Raises FileFault where something cannot be written."""
    config, trained = asked.config, trainer.kept()
    save_heads(out, config.kind, trained, config.depth, asked.model)
    read = read_heads(out, config.kind, asked.model, MAKERS[config.kind])
    record = account(asked, trainer, log.steps(), read)
    checks = {"read back, the heads are those that were kept, in 16 bits": equal(trained, read)}
    figure = overlap_figure(record["curve"], f"Heads of {config.kind}", "mean over depths", {})
    return settle(asked, "heads", record, checks, spoken(record), figure, log, out, folder)


def equal(trained: nn.Module, read: nn.Module) -> bool:
    pairs = zip(trained.parameters(), read.parameters())
    return all(torch.equal(a.detach().to(STORED).float(), b) for a, b in pairs)


def account(asked: HeadRun, trainer: HeadTrainer, rows: list[dict], heads: nn.Module) -> dict:
    """The record: what was done, and the overlap of the heads as stored, place by place."""
    record = asked.record(trainer, rows)
    record["stored_bytes"] = pass_bytes(heads)
    record["parameters"] = sum(p.numel() for p in heads.parameters())
    if trainer.validation:
        student = STUDENTS[asked.config.kind](asked.model, asked.config)
        student.head = heads
        record["overlap"] = trainer.overlaps(student)
    return record


def spoken(record: dict) -> list[str]:
    """The record in a few lines. ASCII, so that any console can show it."""
    lines = [
        f"{record['heads']}: {record['steps']} steps in {record['minutes']:.1f} minutes; kept is step {record['best_step']}",
        f"{record['stored_bytes']:,} bytes of {record['parameters']:,} numbers",
    ]
    if "overlap" in record:
        places = ", ".join(f"{value:.4f}" for value in record["overlap"])
        lines.append(
            f"overlap with the target on its own validation text, 1, 2, ... places ahead: {places}"
        )
    else:
        lines.append("too little text to hold any out: nothing was evaluated")
    return lines
