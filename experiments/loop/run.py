"""The real loop beside replay over formats, temperatures and gamma 1 ... 16: a point is a draft at a temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.loop.beside import beside, spread

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting

NAME = "loop"
VERSION = 1
DRAFTS = ("rtn4", "rtn3", "absmax3")
TEMPERATURES = (0.0, 0.5, 1.0)
POINTS = [{"draft": draft, "temperature": t} for t in TEMPERATURES for draft in DRAFTS]
TEXTS = 48  # of each gamma


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        gammas=setting.most_gamma,
        texts=TEXTS,
        rule=setting.rule,
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """For each gamma, counts of the loop and replay's expectation, by text. Every gamma draws with a seed of its own."""
    rows, gammas = spread(TEXTS, len(setting.prompts)), list(range(1, setting.most_gamma + 1))
    found = []
    for gamma in gammas:
        setting.progress(f"{point['draft']} at T = {point['temperature']:g}, gamma {gamma}")
        found.append(beside(setting, point, setting.rule, gamma, rows, seed=gamma))
    return {"gammas": gammas, "texts": len(rows), "beside": found}
