"""Records of the estimate without a model: replay over acceptance chances drawn from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments import estimate
from experiments.store import Store
from specdec.replay import replay

KINDS = ("lesson", "copy", "free")
C = {"nominal": 0.25, "weights": 0.28, "with_cache": 0.38}
GAMMAS = 5


def made_result(
    ease: float, prompts: int = 6, seed: int = 0, window: int = 8, gammas: int = GAMMAS
) -> dict:
    """A result as estimate.run makes it; `ease` in log odds moves every acceptance chance."""
    rng = np.random.default_rng(seed)
    odds = ease + rng.normal(size=(prompts, 1)) + rng.normal(size=(prompts, window + gammas))
    a = 1 / (1 + np.exp(-odds))
    expected = [replay(a, gamma, window) for gamma in range(1, gammas + 1)]
    counts = {
        name: np.stack([getattr(e, name) for e in expected], axis=1).tolist()
        for name in ("rounds", "checked", "accepted", "full_rounds")
    }
    return {
        "gammas": list(range(1, gammas + 1)),
        "prompts": [f"p{i}" for i in range(prompts)],
        "kinds": [KINDS[i % 3] for i in range(prompts)],
        **counts,
        "overlap": a[:, :window].sum(1, keepdims=True).tolist(),
        "positions": [[float(window)]] * prompts,
        "c": dict(C),
        "mean_context": 100,
        "window": window,
        "seeds": 3,
    }


def fill(folder: Path, version: int = estimate.VERSION, points: list[dict] | None = None) -> Store:
    """A store with a record for every point of the estimate, or for `points`."""
    store = Store(folder)
    for i, point in enumerate(estimate.POINTS if points is None else points):
        inputs = {"version": version, "weights": "made", **point}
        store.append(estimate.NAME, inputs, point, "ok", made_result(2 - 0.3 * i, seed=i))
    return store


def made_animal(
    draft: str, temperature: float = 1.0, emitted: float = 30.0, chosen: float = 30.0, **more
):
    """Six prompts of 10 rounds, 40 drafted, 35 judged, 20 kept; a pass of the draft reads a quarter of the target's 100 bytes."""
    spent = {"rounds": 10, "emitted": chosen, "draft_bytes": 1000}
    one = {
        "rounds": 10, "proposed": 40, "checked": 35, "accepted": 20, "emitted": emitted, "draft_passes": 40,
        "full_rounds": 1, "draft_bytes": 1000, "rows": 50,
    }  # fmt: skip
    result = {
        "by": "loop", "exact": True, "tree": False, "budget": 4, "choosing": {"4": spent},
        "choosing_kinds": dict.fromkeys(("lesson", "copy", "free"), spent),
        "prompts": list("abcdef"), "kinds": ["lesson", "copy", "free"] * 2,
        "counts": {name: [value] * 6 for name, value in one.items()},
        "bytes_per_pass": 25, "extra_bytes": 1000, "extra_parameters": 7, "target_bytes": 100, "training": None,
    }  # fmt: skip
    return {"point": {"draft": draft, "temperature": temperature}, "result": result | more}
