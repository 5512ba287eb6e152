"""From your own text to the answer: train a small model, let its low-bit copy draft for it, and look.

    .venv/bin/python -m experiments.examples.own_text my-notes/ --out my-look

Every step below is a function that returns data, so a notebook can take them one by one; `figures` returns matplotlib Figures.
The folder then holds model/, the records, the figures as PNG and SVG, and index.html to look at.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from matplotlib.figure import Figure

from experiments import estimate
from experiments.figures import FIGURES
from experiments.page.command import write_page
from experiments.plot import draw
from experiments.prompts import Prompt
from experiments.runner import measure
from experiments.setting import Setting
from experiments.store import Store
from experiments.watch import rounds_run
from micro.chance import SeededChance
from micro.checkpoint import save_model
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from micro.text import Corpus, as_tokens, read_texts
from micro.train import TrainConfig, Trainer, train
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.record import Generation

WINDOW = 32  # start positions counted behind each prompt
PROMPT_BYTES = 40


def train_on(corpus: Corpus, steps: int, width: int, context: int) -> Transformer:
    """A byte-level model of two layers, trained on the corpus' own split."""
    sizes = ModelConfig(hidden_size=width, intermediate_size=3 * width, num_hidden_layers=2,
                        num_attention_heads=width // 16, num_key_value_heads=width // 16,
                        max_position_embeddings=context)  # fmt: skip
    config = TrainConfig(steps=steps, batch=8, block=context, warmup=max(1, steps // 20),
                         dropout=0.0, eval_every=max(1, steps // 4))  # fmt: skip
    model = Transformer(sizes, config.dropout, config.seed)
    trainer = Trainer(model, as_tokens(corpus.joined("train")), corpus.split("held-out"), config)

    def told(event) -> None:
        if event.validation is not None:
            print(f"step {event.step}: {event.validation:.3f} nats a byte", file=sys.stderr)

    train(trainer, told)
    return model.eval().requires_grad_(False)


def prompts_from(corpus: Corpus, count: int) -> list[Prompt]:
    """Evenly spaced pieces of text that the model has not read; of what it has read, where nothing was held out."""
    text = corpus.joined("held-out") or corpus.joined("train")
    step = max(1, (len(text) - PROMPT_BYTES) // count)
    starts = range(0, max(1, len(text) - PROMPT_BYTES), step)
    return [
        Prompt(f"text-{i}", "free", text[start : start + PROMPT_BYTES])
        for i, start in enumerate(list(starts)[:count])
    ]


def write_on(model: Transformer, prompt: Prompt, draft: str = "rtn4") -> Generation:
    """The prompt continued, the model's own low-bit copy drafting."""
    how = {"gamma": 4, "sampling": Sampling(0.8), "chance": SeededChance(1, prompt.id), "lanes": 16}
    return generate(model, make_draft(model, draft), prompt.tokens, max_new_tokens=WINDOW, **how)


def measure_all(folder: Path, prompts: list[Prompt]) -> Store:
    """The plate's estimate and the viewer's runs of the model in folder/model, recorded in `folder`."""
    setting = Setting(folder / "model", prompts, window=WINDOW, seeds=(1,))
    setting.check()
    store = Store(folder)
    for experiment in (estimate, rounds_run):
        measure(experiment, setting, store)
    return store


def figures(store: Store) -> dict[str, Figure]:
    """name -> Figure: what a notebook would show."""
    return {name: draw(store.of(estimate.NAME)) for name, draw in FIGURES.items()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, nargs="+", help="files and folders to train on")
    parser.add_argument("--out", type=Path, default=Path("results") / "own-text")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default: 600)")
    parser.add_argument("--width", type=int, default=96, help="a multiple of 32 (default: 96)")
    parser.add_argument("--context", type=int, default=256, help="bytes (default: 256)")
    parser.add_argument("--prompts", type=int, default=24, help="how many (default: 24)")
    args = parser.parse_args(argv)

    corpus = read_texts(args.text, args.context)
    model = train_on(corpus, args.steps, args.width, args.context)
    save_model(args.out / "model", model)
    prompts = prompts_from(corpus, args.prompts)
    made = write_on(model, prompts[0])
    print((prompts[0].text + bytes(made.tokens)).decode(errors="replace"))
    print(f"alpha {made.totals.alpha:.2f}, {made.totals.tokens_per_pass:.2f} tokens per pass")
    store = measure_all(args.out, prompts)
    draw(estimate.NAME, store.of(estimate.NAME), args.out)
    write_page(store, args.out / "index.html")
    print(args.out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
