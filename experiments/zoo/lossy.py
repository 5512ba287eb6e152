"""LOSSY rules beside the exact one: how much faster a text gets where it may be another text than the target's, and how far off it is.

Medusa is often run with typical acceptance (specdec/typical.py), which keeps a drafted token that the target finds likely enough. Its numbers
are no speed-up of the target's text, so they stand here alone, each row naming its rule as lossy. What tells the texts apart is read off
the target itself: the mean of -log p of the emitted bytes, in nats, and the share of them that were its likeliest. Under an exact rule both
are the target's own, whatever the draft; a lossy rule makes text that is duller. Same prompts, seeds and budget in all rows. A few
minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.options import (
    add_every,
    add_model,
    add_prompts,
    add_threads,
    add_window,
    set_threads,
)
from experiments.paths import RESULTS

if TYPE_CHECKING:
    from experiments.prompts import Prompt
    from experiments.setting import Setting

NAME = "lossy"
VERSION = 1
DRAFTS = ("medusa:4", "medusa:4,tree", "eagle:tree", "rtn3")
RULES = ("token", "typical (lossy)")
POINTS = [{"draft": draft, "rule": rule} for draft in DRAFTS for rule in RULES]
TEMPERATURE, BUDGET, SEED = 1.0, 8, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    add_window(parser)
    add_every(parser, 8)
    parser.add_argument("--out", type=Path, default=RESULTS / "lossy", metavar="DIR",
                        help="folder of records (default: %(default)s)")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.halves import thinned
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    prompts = thinned(load_prompts(args.prompts), args.every)
    setting = Setting(args.model, prompts, window=args.window, most_gamma=BUDGET)
    setting.check()
    records, _ = measure(Lossy(), setting, open_store(args.out, "run lossy"))
    print("\n".join(table(records)))
    return 0


class Lossy:
    """The experiment."""

    NAME, VERSION, POINTS = NAME, VERSION, POINTS

    def identity(self, point: dict, setting: Setting) -> dict:
        from experiments.zoo.points import ZOO
        from experiments.zoo.run import trained_hash

        about = {
            "temperature": TEMPERATURE,
            "budget": BUDGET,
            "seed": SEED,
            "window": setting.window,
        }
        heads = trained_hash(ZOO[point["draft"]].trained)
        return setting.identity(version=VERSION, heads=heads, **about, **point)

    def run(self, point: dict, setting: Setting) -> dict:
        """Counts, prompt by prompt."""
        from quant.bytes import pass_bytes
        from specdec.drafts import make_draft

        draft = make_draft(setting.model, point["draft"])
        setting.progress(f"{point['draft']}, {point['rule']}")
        found = [counts(setting, draft, point["rule"], prompt) for prompt in setting.prompts]
        columns = {name: [one[name] for one in found] for name in found[0]}
        return {"target_bytes": pass_bytes(setting.model), "counts": columns}


def counts(setting: Setting, draft, rule: str, prompt: Prompt) -> dict[str, float]:
    """Of one text: rounds, tokens, draft bytes, nats under the target's own law, tokens that were its likeliest."""
    import torch

    from micro.chance import SeededChance
    from micro.sampling import Sampling
    from specdec.decode import generate

    sampling = Sampling(TEMPERATURE)
    done = generate(setting.model, draft, prompt.tokens, max_new_tokens=setting.window, gamma=BUDGET,
                    sampling=sampling, chance=SeededChance(SEED, prompt.id), rule=rule)  # fmt: skip
    text = torch.tensor([[*prompt.tokens, *done.tokens]])
    with torch.inference_mode():
        laws = sampling.probs(setting.model(text[:, :-1])[0][0, len(prompt.tokens) - 1 :])
    new = text[0, len(prompt.tokens) :]
    p = laws.gather(1, new[:, None]).double()
    totals = done.totals
    return {
        "rounds": totals.rounds,
        "emitted": totals.emitted,
        "draft_bytes": totals.draft_bytes,
        "nats": float(f"{float(-p.log().sum()):.7g}"),
        "likeliest": int((laws.argmax(-1) == new).sum()),
    }


def table(records: list[dict]) -> list[str]:
    """One line for each pair of draft and rule; intervals over prompts."""
    lines = [
        f"T = {TEMPERATURE:g}, {BUDGET} nodes. Rows that say lossy are no speed-up of the target's text: their text is another's.",
        f"{'draft':15}{'rule':17}{'tokens per pass':20}{'speed-up by bytes':20}{'nats a byte':20}the target's likeliest byte",
    ]
    return lines + [line(record["point"], record["result"]) for record in records]


def line(point: dict, result: dict) -> str:
    import numpy as np

    from experiments.stats import interval, resample_weights

    n = {name: np.array(values, float) for name, values in result["counts"].items()}
    weights = resample_weights(len(n["rounds"]))
    total = {name: weights @ values for name, values in n.items()}
    cost = total["rounds"] + total["draft_bytes"] / result["target_bytes"]
    rates = [total["emitted"] / total["rounds"], total["emitted"] / cost]
    rates += [total[name] / total["emitted"] for name in ("nats", "likeliest")]
    cells = "".join(f"{interval(rate)!s:20}" for rate in rates)
    return f"{point['draft']:15}{point['rule']:17}{cells}".rstrip()
