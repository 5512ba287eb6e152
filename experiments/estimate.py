"""The estimate: replay over all prompts, every gamma at once, with what an interval needs.

A point is a draft and a temperature. Its result holds expected counts for each prompt and gamma, all seeds of a prompt
added up, so that figures and tables resample prompts without a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdec.replay_rules import replay_rule

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import Tensor

    from experiments.setting import Setting, Texts
    from specdec.replay import Expected

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
        rule=setting.rule,
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """Expected counts by prompt and gamma, and what the draft costs."""
    texts, q = scored(point, setting)
    return {
        **about(point, setting, texts, q),
        **counts(replayed(setting.rule, texts, q, setting), texts, setting),
    }


def scored(point: dict, setting: Setting) -> tuple[Texts, Tensor]:
    """The texts of the point's temperature, and its draft's laws (N, L, V) along them."""
    temperature, draft = point["temperature"], setting.draft(point["draft"])
    texts = setting.texts(temperature)
    setting.progress(f"scoring with {point['draft']} at T = {temperature:g}")
    return texts, setting.score(draft.module, texts, temperature)


def replayed(rule: str, texts: Texts, q: Tensor, setting: Setting) -> list[Expected]:
    """Replay's counts of each text, for gamma 1 ... setting.most_gamma."""
    laws = (law.numpy() for law in (texts.laws, q))
    gammas = range(1, setting.most_gamma + 1)
    return replay_rule(rule, *laws, texts.tokens.numpy(), gammas, setting.window)


def counts(expected: list[Expected], texts: Texts, setting: Setting) -> dict:
    """Expected counts (prompts, gammas)."""
    return {
        name: by_prompt(np.stack([getattr(e, name) for e in expected], axis=1), texts, setting)
        for name in ("rounds", "checked", "accepted", "full_rounds")
    }


def about(point: dict, setting: Setting, texts: Texts, q: Tensor) -> dict:
    """What does not depend on the rule: prompts, overlap, the three c's."""
    overlap, cost = overlaps(texts, q, setting), setting.cost(point["draft"])
    return {
        "gammas": list(range(1, setting.most_gamma + 1)),
        "prompts": [prompt.id for prompt in setting.prompts],
        "kinds": [prompt.kind for prompt in setting.prompts],
        "overlap": by_prompt(overlap.sum(1, keepdims=True), texts, setting),
        "positions": by_prompt(np.full((len(q), 1), float(setting.window)), texts, setting),
        "c": {"nominal": cost.nominal, "weights": cost.weights, "with_cache": cost.with_cache},
        "mean_context": setting.mean_context,
        "window": setting.window,
        "seeds": len(setting.seeds) if point["temperature"] else 1,
    }


def overlaps(texts: Texts, q: Tensor, setting: Setting) -> np.ndarray:
    """(N, window): sum of min(p, q), beta of every place in the window."""
    return texts.laws.minimum(q).sum(-1)[:, : setting.window].double().numpy()


def by_prompt(values: np.ndarray, texts, setting: Setting) -> list[list[float]]:
    """(N, columns) of texts -> (prompts, columns), seeds added; nine digits are more than replay resolves."""
    total = np.zeros((len(setting.prompts), values.shape[1]))
    np.add.at(total, texts.owner.numpy(), values)
    return [[float(f"{x:.9g}") for x in row] for row in total]
