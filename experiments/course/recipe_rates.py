"""What trainings are compared by: the best that a baseline reaches, and when others reach it. Needs records, no model."""

from __future__ import annotations


def baseline(records: list[dict]) -> dict | None:
    """The AdamW run with the lowest held-out loss at any kept step, None where there is none."""
    found = [r for r in records if r["point"]["optimizer"] == "adamw"]
    return min(found, key=lambda r: min(r["result"]["held_out"]), default=None)


def minutes_to(record: dict, nats: float) -> float | None:
    """The first kept step's minutes at which the held-out loss is `nats` or below."""
    result = record["result"]
    pairs = zip(result["minutes"], result["held_out"])
    return next((minutes for minutes, loss in pairs if loss <= nats), None)
