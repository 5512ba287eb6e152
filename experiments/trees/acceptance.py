"""Acceptance by rank along texts, for every way to draw siblings: exact from the laws but for the elder siblings, which are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import Tensor

    from experiments.setting import Setting, Texts

RANKS, DRAWS = 4, 2  # of siblings that are judged; of draws of the elder ones, averaged


def acceptance_along(
    model, texts: Texts, p: Tensor, temperature: float, setting: Setting
) -> dict[str, np.ndarray]:
    """how -> f (texts, positions, RANKS) of `model` as the draft; p: the target's laws (texts, positions, V)."""
    from micro.chance import generator_for
    from specdec.drafts.child_laws import HOWS
    from specdec.tree_replay import rank_acceptance

    q = setting.score(model, texts, temperature)
    # a greedy law knows no second token, and the law at temperature 1 ranks as the logits do
    ranks = q if temperature else setting.score(model, texts, 1.0)
    ranking = ranks.sort(dim=-1, descending=True, stable=True).indices[..., :RANKS]
    return {
        how: rank_acceptance(
            p, q, ranking, texts.tokens, how, RANKS, generator_for(0, "siblings", how), DRAWS
        )
        for how in HOWS
    }
