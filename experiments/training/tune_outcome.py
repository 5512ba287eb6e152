"""What a finished tuning leaves: the draft's folder with its record, the curve, checks and an account."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from experiments.quantize import check
from experiments.training.log import TrainingLog
from experiments.training.teaching import Asked
from experiments.training.teaching_outcome import overlap_figure, settle
from quant.formats import Format
from quant.mix import Mix
from quant.model import QuantizedModel, quantize_model
from specdec.distilling import OwnText
from specdec.drafts.stored import save_quantized
from specdec.tuning import Tuner


@dataclass(frozen=True)
class Tuning(Asked):
    """One tuning as asked for."""

    format: Format | Mix

    def about(self) -> dict[str, object]:
        return {"format": self.format.name}

    def trainer(self, tokens: Tensor, own: OwnText | None, validation: list[OwnText]) -> Tuner:
        return Tuner(self.model, self.format, tokens, own, validation, self.config)


def finish(asked: Tuning, tuner: Tuner, log: TrainingLog, out: Path, folder: Path) -> int:
    """Write, check, draw, tell; 1 where a check failed. Raises FileFault where something cannot be written."""
    draft, untuned = tuner.kept(), quantize_model(asked.model, asked.format)
    save_quantized(out, draft)
    record = account(asked, tuner, log.steps(), draft, untuned)
    checks = {
        **check(out, asked.model, draft)["checks"],
        f"its bytes are those of {asked.format.name}": draft.stored_bytes == untuned.stored_bytes
        and draft.bytes_per_pass == untuned.bytes_per_pass,
    }
    before = {"untuned": record["overlap"]["untuned"]} if "overlap" in record else {}
    figure = overlap_figure(record["curve"], f"Tuning of {asked.format.name}", "tuned", before)
    return settle(asked, "tune", record, checks, spoken(record), figure, log, out, folder)


def account(
    asked: Tuning, tuner: Tuner, rows: list[dict], draft: QuantizedModel, untuned: QuantizedModel
) -> dict:
    """The record: what was done, and the overlap on validation before and after."""
    record = asked.record(tuner, rows)
    record |= {"stored_bytes": draft.stored_bytes, "bytes_per_pass": draft.bytes_per_pass}
    if tuner.validation:
        record["overlap"] = {
            "untuned": 1 - tuner.refused(untuned.module),
            "tuned": 1 - tuner.refused(draft.module),
        }
    return record


def spoken(record: dict) -> list[str]:
    """The record in a few lines. ASCII, so that any console can show it."""
    lines = [
        f"{record['format']}: {record['steps']} steps in {record['minutes']:.1f} minutes; kept is step {record['best_step']}",
        f"{record['stored_bytes']:,} bytes, as untuned",
    ]
    if "overlap" in record:
        before, after = record["overlap"]["untuned"], record["overlap"]["tuned"]
        lines.append(
            f"overlap with the target on its own validation text: {before:.4f} untuned, {after:.4f} tuned"
        )
    else:
        lines.append("too little text to hold any out: nothing was evaluated")
    return lines
