"""What a finished tuning leaves: the draft's folder with its record, the curve, checks and an account."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure

from experiments.figure_style import INK, MUTED, new_figure, settled, styled
from experiments.quantize import check
from experiments.store import environment
from experiments.training_log import TrainingLog, save_figure
from experiments.tune_text import TextPlan, chosen_by
from micro.files import write_json
from micro.model import Transformer
from micro.text import Corpus
from quant.formats import Format
from quant.model import QuantizedModel, quantize_model
from specdec.drafts.stored import save_quantized
from specdec.drafts.tuned import fingerprint
from specdec.tuning import TuneConfig, Tuner


@dataclass(frozen=True)
class Asked:
    """One tuning as asked for."""

    format: Format
    config: TuneConfig
    texts: TextPlan
    corpus: Corpus
    model: Transformer
    fingerprint: str
    command: str

    def identity(self) -> dict[str, object]:
        """All that must agree for a resume to continue the same computation."""
        config = {**asdict(self.config), "schedule": str(self.config.schedule)}
        about = {"target": self.fingerprint, "text (sha256)": self.corpus.sha256()}
        return {**about, "format": self.format.name, **config, **asdict(self.texts)}


def finish(asked: Asked, tuner: Tuner, log: TrainingLog, out: Path, folder: Path) -> int:
    """Write, check, draw, tell; 1 where a check failed. Raises FileFault where something cannot be written."""
    draft, untuned = tuner.kept(), quantize_model(asked.model, asked.format)
    save_quantized(out, draft)
    rows = log.steps()
    record = account(asked, tuner, rows, draft, untuned)
    checks = {
        **check(out, asked.model, draft)["checks"],
        f"its bytes are those of {asked.format.name}": draft.stored_bytes == untuned.stored_bytes
        and draft.bytes_per_pass == untuned.bytes_per_pass,
        "the target is as it was": fingerprint(asked.model) == asked.fingerprint,
    }
    write_json(out / "training.json", {**record, "environment": environment()})
    log.write("end", **record)
    save_figure(overlap_figure(rows, record), folder / "overlap.png")
    for line in spoken(record):
        print(line)
    for what, passed in checks.items():
        print(f"{'ok' if passed else 'FAILED'}: {what}")
    print(f"draft: {out}   log, curve, checkpoints, texts: {folder}")
    for what in (what for what, passed in checks.items() if not passed):
        print(f"selfdraft tune: check failed: {what}", file=sys.stderr)
    return 0 if all(checks.values()) else 1


def account(
    asked: Asked, tuner: Tuner, rows: list[dict], draft: QuantizedModel, untuned: QuantizedModel
) -> dict:
    """The record: what was done, and the overlap on validation before and after."""
    record = {
        "command": asked.command,
        "format": asked.format.name,
        "target": asked.fingerprint,
        "seed": asked.config.seed,
        "text_sha256": asked.corpus.sha256(),
        "selected_on": chosen_by(asked.corpus),
        "steps": tuner.step,
        "best_step": tuner.best_step,
        "minutes": round(sum(row["seconds"] for row in rows) / 60, 2),
        "threads": torch.get_num_threads(),
        "stored_bytes": draft.stored_bytes,
        "bytes_per_pass": draft.bytes_per_pass,
    }
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


def overlap_figure(rows: list[dict], record: dict) -> Figure:
    """Overlap on validation against steps, the untuned draft's as a line."""
    checked = [(r["step"], 1 - r["validation"]) for r in rows if r.get("validation") is not None]
    title = f"Tuning of {record['format']}: overlap with the target"
    caption = (
        "Mean of the sum of min(p, q) at T = 1 over text that the target wrote behind validation text.",
    )
    with styled():
        figure = new_figure(title, 3.2, caption, ())
        axes = figure.add_subplot()
        if checked:
            axes.plot(*zip(*checked), "-o", color=INK, label="tuned")
            axes.axhline(record["overlap"]["untuned"], color=MUTED, ls="--", label="untuned")
            axes.legend(loc="lower right")
        axes.set_xlabel("step")
        axes.set_ylabel("overlap")
        return settled(figure)
