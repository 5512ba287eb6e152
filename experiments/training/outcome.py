"""What a finished training leaves: the model's folder, its training record, the loss curve, an account and a sample.

The held-out text is read here and nowhere else, once, by the weights as they were written.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from experiments.course.compressors import compressor_rates
from experiments.store import environment
from experiments.training.log import TrainingLog, loss_figure, minutes, save_figure
from micro.chance import SeededChance
from micro.checkpoint import load_model, save_model
from micro.files import write_json
from micro.generate import generate
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from micro.score import score
from micro.text import Corpus
from micro.train import TrainConfig, Trainer

SAMPLE_PROMPT, SAMPLE_BYTES, SAMPLE_TEMPERATURE = 24, 240, 0.7


@dataclass(frozen=True)
class Run:
    """One training as asked for: what is computed, on which text, and where it goes."""

    config: TrainConfig
    model_config: ModelConfig
    corpus: Corpus
    device: torch.device
    out: Path
    folder: Path
    command: str

    @property
    def selected_on(self) -> str | None:
        """The split that chooses the best weights; None where all text is trained on."""
        return next((s for s in ("validation", "held-out") if self.corpus.split(s)), None)

    def identity(self) -> dict[str, object]:
        """All that must agree for a resume to continue the same computation."""
        text = {"text (sha256)": self.corpus.sha256()}
        return {**text, **asdict(self.config), **asdict(self.model_config)}


def finish(asked: Run, trainer: Trainer, log: TrainingLog) -> None:
    """Write the model and its record, draw the curve, print the account. Raises FileFault where that cannot be written."""
    rows = log.steps()
    with trainer.weights(trainer.best) as model:
        save_model(asked.out, model)
    shipped = load_model(asked.out)  # rounded to 16 bits: the file is what is measured
    record = account(asked, trainer, rows, shipped)
    write_json(asked.out / "training.json", {**record, "environment": environment()})
    log.write("end", **record)
    held_out = record.get("held-out", {}).get("bits_per_byte")
    save_figure(loss_figure(rows, held_out), asked.folder / "loss.png")
    for line in spoken(record):
        print(line)
    print(f"model: {asked.out}   log, curve, checkpoints: {asked.folder}")
    print(sample(asked.corpus, shipped, sys.stdout.encoding))


def account(asked: Run, trainer: Trainer, rows: list[dict], shipped: Transformer) -> dict:
    """The training record: what was done, and what the written weights reach."""
    corpus = asked.corpus
    record = {
        "command": asked.command,
        "seed": asked.config.seed,
        "text": corpus.where,
        "text_sha256": corpus.sha256(),
        "train_bytes": len(corpus.joined("train")),
        "steps": trainer.step,
        "best_step": trainer.best_step,
        "selected_on": asked.selected_on,
        **minutes(rows),
        "training_device": str(asked.device),
        "training_threads": torch.get_num_threads(),
        "curve": curve(rows),
    }
    for split in ("validation", "held-out"):
        if corpus.split(split):
            found = score(shipped, corpus.split(split))
            record[split] = {
                "nats": found.nats,
                "bits_per_byte": found.bits_per_byte,
                "bytes": found.bytes,
            }
    if "held-out" in record:
        rates = compressor_rates(corpus.joined("train"), corpus.joined("held-out"))
        record["compressors"] = rates
    return record


def curve(rows: list[dict]) -> list[list[float]]:
    """[step, validation loss] of every evaluation."""
    return [[r["step"], r["validation"]] for r in rows if r.get("validation") is not None]


def spoken(record: dict) -> list[str]:
    """The record in a few lines. ASCII, so that any console can show it."""
    steps, best = record["steps"], record["best_step"]
    lines = [
        f"{steps} steps in {record['minutes']:.1f} minutes; the weights kept are those after step {best}"
    ]
    for split in ("validation", "held-out"):
        if split in record:
            r = record[split]
            chosen = " (chose the weights)" if split == record["selected_on"] else ""
            lines.append(
                f"{split:10}  {r['nats']:.4f} nats  {r['bits_per_byte']:.3f} bits per byte{chosen}"
            )
    if "compressors" in record:
        for kind in ("alone", "after training text"):
            rates = ", ".join(f"{name} {r[kind]:.3f}" for name, r in record["compressors"].items())
            lines.append(f"compressors on the held-out bytes, {kind}: {rates}")
    if record["selected_on"] is None:
        lines.append("too little text to hold any out: nothing was evaluated")
    return lines


def sample(corpus: Corpus, model: Transformer, encoding: str | None) -> str:
    """The model's continuation of the text's first bytes, in characters that `encoding` can write."""
    name = next(s for s in ("held-out", "train") if corpus.split(s))
    prompt = corpus.joined(name)[: min(SAMPLE_PROMPT, model.context // 2)]
    chance = SeededChance(1, "sample")
    new = generate(model, list(prompt), SAMPLE_BYTES, Sampling(SAMPLE_TEMPERATURE), chance)
    return "sample: " + printable(prompt + bytes(new), encoding)


def printable(data: bytes, encoding: str | None) -> str:
    """Text of any bytes for any console: what is no text, steers a terminal or lacks a code becomes a replacement."""
    text = data.decode("utf-8", "replace")
    text = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    encoding = encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
