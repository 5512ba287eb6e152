"""From the zoo's records to rates with intervals. Runs no model.

Everything is the reporting prompts', resampled: totals over totals, 95%. The budget was chosen on other prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.stats import Interval, interval, resample_weights

ROW_COST = 0.02  # of a further row in a verifying pass, in passes: charged where a table says so
KINDS = ("lesson", "copy", "free")


@dataclass(frozen=True)
class Animal:
    """A draft at one temperature. speed_up: by weight bytes, a verifying pass costing 1 whatever its rows; charged: the same with
    1 + ROW_COST (rows - 1) for it. by_kind: speed_up over the prompts of a kind. chosen, chosen_by_kind: the choosing half's speed_up,
    by which winners are picked."""

    draft: str
    temperature: float
    by: str
    exact: bool
    budget: int
    alpha: Interval | None
    tokens_per_pass: Interval
    rows_per_pass: float
    c: float
    draft_cost: float
    extra_bytes: int
    extra_parameters: int
    minutes: float | None
    speed_up: Interval
    charged: Interval
    by_kind: dict[str, Interval]
    chosen: float
    chosen_by_kind: dict[str, float]


def animal(record: dict) -> Animal:
    """Raises KeyError where the record is another experiment's."""
    result, point = record["result"], record["point"]
    kinds = np.array(result["kinds"])
    weights = resample_weights(len(kinds))
    totals = {name: weights @ np.array(values) for name, values in result["counts"].items()}
    return Animal(
        draft=point["draft"],
        temperature=point["temperature"],
        by=result["by"],
        exact=result["exact"],
        budget=result["budget"],
        alpha=None if result["tree"] else rate(totals["accepted"], totals["checked"]),
        tokens_per_pass=rate(totals["emitted"], totals["rounds"]),
        rows_per_pass=float(totals["rows"][0] / totals["rounds"][0]),
        c=result["bytes_per_pass"] / result["target_bytes"],
        draft_cost=float(totals["draft_bytes"][0] / totals["rounds"][0] / result["target_bytes"]),
        extra_bytes=result["extra_bytes"],
        extra_parameters=result["extra_parameters"],
        minutes=result["training"]["minutes"] if result["training"] else None,
        speed_up=interval(speed_up(totals, result["target_bytes"])),
        charged=interval(speed_up(totals, result["target_bytes"], ROW_COST)),
        by_kind={kind: _of_kind(result, kinds == kind) for kind in KINDS if (kinds == kind).any()},
        chosen=_chosen(result["choosing"][str(result["budget"])], result),
        chosen_by_kind={k: _chosen(spent, result) for k, spent in result["choosing_kinds"].items()},
    )


def rate(above: np.ndarray, below: np.ndarray) -> Interval | None:
    """above / below over resamples; None where nothing was counted below."""
    return interval(above / below) if (below > 0).all() else None


def speed_up(totals: dict[str, np.ndarray], target_bytes: int, row_cost: float = 0.0) -> np.ndarray:
    """Emitted tokens over what they cost in one-row target passes, a verifying pass over n rows costing 1 + row_cost (n - 1)."""
    verifying = totals["rounds"] + row_cost * (totals["rows"] - totals["rounds"])
    return totals["emitted"] / (verifying + totals["draft_bytes"] / target_bytes)


def _chosen(spent: dict[str, float], result: dict) -> float:
    return spent["emitted"] / (spent["rounds"] + spent["draft_bytes"] / result["target_bytes"])


def _of_kind(result: dict, mine: np.ndarray) -> Interval:
    weights = resample_weights(int(mine.sum()))
    totals = {name: weights @ np.array(v)[mine] for name, v in result["counts"].items()}
    return interval(speed_up(totals, result["target_bytes"]))


def best_of_group(animals: list[Animal], groups: dict[str, str]) -> dict[str, Animal]:
    """group -> its fastest exact draft on the choosing prompts, of animals of one temperature; groups: draft -> group."""
    found: dict[str, Animal] = {}
    for one in animals:
        held = found.get(groups[one.draft])
        if one.exact and (held is None or one.chosen > held.chosen):
            found[groups[one.draft]] = one
    return found
