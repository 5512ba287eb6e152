"""Prompts parted by plate: one half to choose on, the other to report."""

from __future__ import annotations

import numpy as np

from experiments.prompts import Prompt


def halves(prompts: list[Prompt]) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the choosing and of the reporting prompts.

    A prompt's plate is its id without the last part; within each kind every other plate, in reading order, reports.
    Prompts of no plate ("plate") are in neither. Raises ValueError where a half would be empty.
    """
    plates: dict[str, list[int]] = {}
    kinds: dict[str, list[str]] = {}
    for i, prompt in enumerate(prompts):
        plate, _, number = prompt.id.rpartition("-")
        if plate and number.isdigit():
            plates.setdefault(plate, []).append(i)
            if plate not in kinds.setdefault(prompt.kind, []):
                kinds[prompt.kind].append(plate)
    parts = [sum((plates[p] for own in kinds.values() for p in own[k::2]), []) for k in (0, 1)]
    if not all(parts):
        raise ValueError(
            "prompts of two plates or more are needed, one to choose on, one to report; an id is PLATE-NUMBER, as in 01-6-2"
        )
    return np.array(sorted(parts[0])), np.array(sorted(parts[1]))


def thinned(prompts: list[Prompt], every: int) -> list[Prompt]:
    """Every so many-th prompt of each plate, the first among them."""
    seen: dict[str, int] = {}
    kept = []
    for prompt in prompts:
        plate = prompt.id.rpartition("-")[0]
        if seen.setdefault(plate, 0) % every == 0:
            kept.append(prompt)
        seen[plate] += 1
    return kept
