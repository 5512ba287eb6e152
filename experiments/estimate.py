"""The estimate: replay over all prompts, every gamma at once, with what an interval needs.

A point is a draft and a temperature. Its result holds expected counts for each prompt and gamma, all seeds of a prompt
added up, so that figures and tables resample prompts without a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdec.replay import acceptance_given_output, replay

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting

NAME = "estimate"
VERSION = 1
DRAFTS = ("rtn4", "rtn3", "absmax3")
TEMPERATURES = (0.0, 0.5, 1.0)
# temperature outermost: texts are drawn once for each
POINTS = [{"draft": draft, "temperature": t} for t in TEMPERATURES for draft in DRAFTS]


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        gammas=setting.most_gamma,
        rule="token",
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """Expected counts by prompt and gamma, and what the draft costs."""
    import torch

    temperature, draft = point["temperature"], setting.draft(point["draft"])
    texts = setting.texts(temperature)
    setting.progress(f"scoring with {point['draft']} at T = {temperature:g}")
    q = setting.score(draft.module, texts, temperature)
    chosen = texts.tokens[..., None]
    p_x, q_x = (law.gather(-1, chosen)[..., 0].double().numpy() for law in (texts.laws, q))
    a = acceptance_given_output(p_x, q_x)
    overlap = torch.minimum(texts.laws, q).sum(-1)[:, : setting.window].double().numpy()
    expected = [replay(a, gamma, setting.window) for gamma in range(1, setting.most_gamma + 1)]
    counts = {
        name: _by_prompt(np.stack([getattr(e, name) for e in expected], axis=1), texts, setting)
        for name in ("rounds", "checked", "accepted", "full_rounds")
    }
    cost = setting.cost(point["draft"])
    return {
        "gammas": [e.gamma for e in expected],
        "prompts": [prompt.id for prompt in setting.prompts],
        "kinds": [prompt.kind for prompt in setting.prompts],
        **counts,
        "overlap": _by_prompt(overlap.sum(1, keepdims=True), texts, setting),
        "positions": _by_prompt(np.full((len(a), 1), float(setting.window)), texts, setting),
        "c": {"nominal": cost.nominal, "weights": cost.weights, "with_cache": cost.with_cache},
        "mean_context": setting.mean_context,
        "window": setting.window,
        "seeds": len(setting.seeds) if temperature else 1,
    }


def _by_prompt(values: np.ndarray, texts, setting: Setting) -> list[list[float]]:
    """(N, columns) of texts -> (prompts, columns), seeds added; nine digits are more than replay resolves."""
    total = np.zeros((len(setting.prompts), values.shape[1]))
    np.add.at(total, texts.owner.numpy(), values)
    return [[float(f"{x:.9g}") for x in row] for row in total]
