"""One rung of the ladder: a draft, measured at three temperatures by replay, every gamma at once.

Prompts are parted by plate into two halves with as many of each kind: on the choosing half gamma is chosen, by c of weight bytes;
on the reporting half the counts at that gamma are kept prompt by prompt, for intervals. No plate is in both.

Kept for each temperature: `choosing` totals for every gamma; `reporting` counts by prompt at the chosen gamma; totals of both halves
at gamma 4, for what is compared across drafts; mean beta of both halves; with the cache counted, its own gamma and totals.
At T = 1 also KL(target, draft) in nats a token and how often their first choices agree. Texts: one a prompt and temperature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.estimate import overlaps
from experiments.halves import halves
from experiments.ladder.points import LADDER, spec_of
from specdec.replay import Expected, acceptance_given_output, replay

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import Tensor

    from experiments.setting import Setting, Texts

NAME = "ladder"
VERSION = 1
TEMPERATURES = (0.0, 0.5, 1.0)
POINTS = [{"draft": name} for name in LADDER]
MOST_GAMMA = 24
SHARED_GAMMA = 4  # the plate's: alpha at one gamma for all drafts
DIGITS = 4  # a prompt's counts; their sums over 96 prompts err by less than 1e-4 of themselves


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    from experiments.draft_formats import decided_by

    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        gammas=setting.most_gamma,
        temperatures=list(TEMPERATURES),
        rule="token",
        **decided_by(setting.model, spec_of(point["draft"])),
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """Counts at every temperature, what the draft costs, and how far its weights and laws are from the target's."""
    spec = spec_of(point["draft"])
    draft, cost = setting.draft(spec), setting.cost(spec)
    by_temperature, distance = {}, {}
    for temperature in TEMPERATURES:
        texts = setting.texts(temperature)
        setting.progress(f"scoring with {point['draft']} at T = {temperature:g}")
        q = setting.score(draft.module, texts, temperature)
        by_temperature[f"{temperature:g}"] = measured(texts, q, setting, cost)
        if temperature == 1:
            distance = distances(texts, q, setting)
    setting.forget(spec)  # 9 MB each
    return {
        "temperatures": by_temperature,
        "c": {"nominal": cost.nominal, "weights": cost.weights, "with_cache": cost.with_cache},
        "bits_per_weight": draft.bits_per_weight,
        "relative_squared_error": draft.relative_squared_error(setting.model),
        **distance,
        "mean_context": setting.mean_context,
    }


def measured(texts: Texts, q: Tensor, setting: Setting, cost) -> dict:
    """What is kept of one temperature."""
    p_x, q_x = (
        law.gather(-1, texts.tokens[..., None])[..., 0].double().numpy() for law in (texts.laws, q)
    )
    a = acceptance_given_output(p_x, q_x)
    every = [replay(a, gamma, setting.window) for gamma in range(1, setting.most_gamma + 1)]
    prompts = [_of_prompts(texts, half) for half in halves(setting.prompts)]
    totals = [_totals(e, prompts[0]) for e in every]
    choosing = {name: [t[name] for t in totals] for name in ("rounds", "accepted")}
    gamma, cached = (best_gamma(choosing, c) for c in (cost.weights, cost.with_cache))
    overlap = overlaps(texts, q, setting).mean(1)
    return {
        "choosing": choosing,
        "gamma": gamma,
        "reporting": _by_prompt(every[gamma - 1], prompts[1]),
        "cached": {"gamma": cached} | _totals(every[cached - 1], prompts[1]),
        "shared": [_totals(every[SHARED_GAMMA - 1], half) for half in prompts],
        "overlap": [float(f"{(half @ overlap).mean():.6g}") for half in prompts],
    }


def best_gamma(choosing: dict[str, list[float]], c: float) -> int:
    """The gamma of the largest (rounds + accepted) / rounds / (1 + gamma c); a tie goes to the smaller."""
    rounds, accepted = (np.array(choosing[name]) for name in ("rounds", "accepted"))
    speed = (1 + accepted / rounds) / (1 + c * np.arange(1, len(rounds) + 1))
    return int(speed.argmax()) + 1


def distances(texts: Texts, q: Tensor, setting: Setting) -> dict:
    """KL and first-choice agreement of each half, over the window's positions."""
    import torch

    p = texts.laws[:, : setting.window].double()
    q = q[:, : setting.window].double()
    # float32 laws underflow to 0 below 1e-45; p log p is 0 there
    ratio = p.clamp(min=1e-45).log() - q.clamp(min=1e-45).log()
    kl = (p * ratio).sum(-1).mean(1).numpy()
    agree = (p.argmax(-1) == q.argmax(-1)).to(torch.float64).mean(1).numpy()
    parts = [_of_prompts(texts, half) for half in halves(setting.prompts)]
    return {
        "kl": [float(f"{(half @ kl).mean():.6g}") for half in parts],
        "agreement": [float(f"{(half @ agree).mean():.6g}") for half in parts],
    }


def _of_prompts(texts: Texts, half: np.ndarray) -> np.ndarray:
    """(prompts of the half, texts): the mean over a prompt's texts, as a matrix."""
    mine = (half[:, None] == texts.owner.numpy()[None]).astype(float)
    return mine / mine.sum(1, keepdims=True)


def _by_prompt(expected: Expected, prompts: np.ndarray) -> dict[str, list[float]]:
    names = ("rounds", "accepted", "checked")
    return {n: [float(f"{x:.{DIGITS}g}") for x in prompts @ getattr(expected, n)] for n in names}


def _totals(expected: Expected, prompts: np.ndarray) -> dict[str, float]:
    names = ("rounds", "accepted", "checked")
    return {n: float(f"{(prompts @ getattr(expected, n)).sum():.7g}") for n in names}
