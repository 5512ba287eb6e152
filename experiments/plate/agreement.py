"""Does what was just measured agree with the reference records that the repository ships? Runs no model."""

from __future__ import annotations

from experiments import estimate
from experiments.plate.curves import curve
from experiments.store import Store


def compare(measured: list[dict], reference: Store) -> tuple[bool | None, str]:
    """(agrees, one sentence). None: nothing to compare with, as the reference is of another model or other prompts.

    Agreement: every tokens per pass, for each draft, temperature and gamma, lies within the reference's 95% interval over
    prompts. On the same torch and processor the difference is 0; elsewhere a rounding may turn single tokens.
    """
    theirs = reference.of(estimate.NAME)
    if not theirs:
        return None, f"No reference records in {reference.folder}: nothing to compare with."
    worst, where, outside, points = 0.0, "", 0, 0
    for record in measured:
        other = reference.done(estimate.NAME, record["key"]) or _likest(record, theirs)
        changed = [k for k, v in record["inputs"].items() if other["inputs"].get(k) != v]
        if set(changed) - {"torch"}:  # another torch is what the comparison is for
            return None, f"The reference was made with other {', '.join(changed)}: not compared."
        mine, ref = curve(record), curve(other)
        for gamma in mine.gammas.tolist():
            here = mine.at(mine.tokens_per_pass, gamma).value
            known = ref.at(ref.tokens_per_pass, gamma)
            points += 1
            outside += not known.low <= here <= known.high
            if abs(here - known.value) >= worst:
                worst = abs(here - known.value)
                where = f"{mine.draft}, T = {mine.temperature:g}, γ = {gamma}"
    verdict = "agree with" if not outside else f"DIFFER from (at {outside} of {points} points)"
    return not outside, (
        f"These estimates {verdict} the reference: {points} points, largest difference "
        f"{worst:.4f} tokens per pass ({where})."
    )


def _likest(record: dict, others: list[dict]) -> dict:
    """The one that shares most inputs with `record`."""

    def shared(other: dict) -> int:
        return sum(other["inputs"].get(name) == value for name, value in record["inputs"].items())

    return max(others, key=shared)
