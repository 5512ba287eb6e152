"""A record of the viewer's runs without a model: two rounds, every fate among them."""

from __future__ import annotations

from experiments.store import Store
from experiments.watch import rounds_run

RESIDUAL = [[101, 0.75], [32, 0.25]]


def drafted(token: int, fate: str, p: float, q: float, coin: float | None) -> dict:
    return {"token": token, "fate": fate, "p": p, "q": q, "accept": min(1.0, p / q), "coin": coin,
            "target": [[token, p], [32, 1 - p]], "residual": RESIDUAL}  # fmt: skip


def made_rounds() -> list[dict]:
    """gamma 3. Round 1: one accepted, one rejected, one thrown away, a correction; round 2: all accepted, a bonus."""
    first = [
        drafted(97, "accepted", 0.5, 0.25, 0.875),
        drafted(98, "rejected", 0.1, 0.8, 0.625),
        drafted(99, "thrown away", 0.2, 0.4, None),
    ]
    second = [drafted(100 + i, "accepted", 0.25, 0.5, 0.125) for i in range(3)]
    return [
        {
            "drafted": first,
            "final": {"token": 101, "fate": "correction", "p": 0.3, "target": [[101, 0.3]]},
            "emitted": [97, 101],
            "checked": 2,
            "draft_passes": 3,
        },
        {
            "drafted": second,
            "final": {"token": 0, "fate": "bonus", "p": 0.6, "target": [[0, 0.6]]},
            "emitted": [100, 101, 102, 0],
            "checked": 3,
            "draft_passes": 3,
        },
    ]


def add_run(store: Store, prompt: bytes = b"made ", **point) -> dict:
    """Append one run to a store."""
    point = {"kind": "lesson", "draft": "rtn4", "temperature": 1.0, "gamma": 3, "rule": "token", **point}  # fmt: skip
    result = {
        "id": "made",
        "prompt": list(prompt),
        "tokens": [97, 101, 100, 101, 102, 0],
        "ended": "length",
        "rounds": made_rounds(),
        "same_text": None if point["temperature"] else True,
        "c": {"nominal": 0.25, "weights": 0.25, "with_cache": 0.5},
        "mean_context": 8,
    }
    inputs = {"version": rounds_run.VERSION, "weights": "made", **point}
    return store.append(rounds_run.NAME, inputs, point, "ok", result)
