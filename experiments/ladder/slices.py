"""A draft at no extra memory: the top bits of a target that is stored at 8 bits, beside a separate copy.

The target then *is* the 8-bit model (rtn8: codes of 8 bits, an fp16 scale for 32 of them), and text has that model's law; how far it is
from the 16-bit model's is measured too. slice4 and slice3 read the upper 4 or 3 bits of its codes and its scales, and nothing else is
resident. A separate rtn4 copy, beside the same target and beside the 16-bit one, is what they compare with. Every c is relative to its
own target's bytes, so a smaller target makes each draft relatively dearer. Gamma is chosen on half of the held-out plates, numbers are
the other half's. About a minute on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.options import add_model, add_prompts, add_threads, set_threads
from experiments.paths import RESULTS

if TYPE_CHECKING:
    from experiments.setting import Setting

NAME = "slices"
VERSION = 1
STORED = "rtn8"  # the low-bit target's format
POINTS = [
    {"target": "bfloat16", "draft": "rtn4"},
    {"target": STORED, "draft": "rtn4"},
    {"target": STORED, "draft": "slice4"},
    {"target": STORED, "draft": "slice3"},
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "slices", metavar="DIR",
                        help="folder of records (default: %(default)s)")  # fmt: skip
    add_prompts(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.halves import halves
    from experiments.ladder import run as ladder_run
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    setting = Setting(args.model, load_prompts(args.prompts), seeds=(1,),
                      most_gamma=ladder_run.MOST_GAMMA)  # fmt: skip
    setting.check()
    halves(setting.prompts)
    records, _ = measure(Slices(), setting, open_store(args.out, "run slices"))
    print("\n".join(table(records)))
    return 0


class Slices:
    """The experiment. The setting of each target is kept for its drafts, so that its texts are drawn once."""

    NAME, VERSION, POINTS = NAME, VERSION, POINTS

    def __init__(self) -> None:
        self._settings: dict[str, Setting] = {}

    def identity(self, point: dict, setting: Setting) -> dict:
        from experiments.ladder import run as ladder_run

        about = ladder_run.identity({"draft": point["draft"]}, setting)
        return {**about, "temperatures": [1.0], "slices": self.VERSION, **point}

    def run(self, point: dict, setting: Setting) -> dict:
        """The ladder's counts at T = 1, bytes a pass and resident, and how far the target's law is from the 16-bit one's."""
        from experiments.ladder import run as ladder_run
        from experiments.setting import CACHE_BYTES
        from quant.bytes import STORED_BYTES, costs, pass_bytes
        from quant.formats import parse_format
        from quant.model import quantize_model

        stored = quantize_model(setting.model, parse_format(STORED))
        copy = quantize_model(setting.model, parse_format(point["draft"]))
        own = self._setting(point["target"], setting, stored)
        if point["target"] == STORED:
            whole, a_pass = stored.stored_bytes, stored.bytes_per_pass
        else:
            numbers = sum(p.numel() for p in setting.model.parameters())  # a tied pair once
            whole, a_pass = numbers * STORED_BYTES, pass_bytes(setting.model)
        cache = setting.model.cache_bytes(own.mean_context, CACHE_BYTES)
        cost = costs(copy.bytes_per_pass, a_pass, copy.nominal_bits, cache, cache)
        texts = own.texts(1.0)
        setting.progress(f"{point['draft']} beside {point['target']}")
        q, original = (own.score(model, texts, 1.0) for model in (copy.module, setting.model))
        separate = 0 if point["draft"].startswith("slice") else copy.stored_bytes
        return {
            "temperatures": {"1": ladder_run.measured(texts, q, own, cost)},
            "c": {"weights": cost.weights, "with_cache": cost.with_cache},
            "resident_bytes": whole + separate,
            "overlap_with_16_bit": float(texts.laws.minimum(original).sum(-1).mean()),
        }

    def _setting(self, target: str, setting: Setting, stored) -> Setting:
        if target not in self._settings:
            own = replace(setting, _texts={})
            if target == STORED:
                own.model = stored.module
            self._settings = {target: own}
        return self._settings[target]


def table(records: list[dict]) -> list[str]:
    """One line for each pair of target and draft."""
    from experiments.ladder.rates import rates_of

    lines = [f"{'target':10}{'draft':8}{'resident bytes':>15}{'c':>7}{'c, cache':>10}  {'alpha, T = 1':22}  gamma  "
             f"{'speed-up':20}target's overlap with 16 bits"]  # fmt: skip
    for record in records:
        point, result = record["point"], record["result"]
        rates = rates_of(result["temperatures"]["1"], result["c"])
        alpha = rates.alpha
        lines.append(
            f"{point['target']:10}{point['draft']:8}{result['resident_bytes']:>15,}{result['c']['weights']:>7.3f}"
            f"{result['c']['with_cache']:>10.3f}  {f'{alpha.value:.3f} [{alpha.low:.3f}, {alpha.high:.3f}]':22}  {rates.gamma:>5}  "
            f"{str(rates.speed_up):20}{result['overlap_with_16_bit']:.4f}"
        )
    return lines
