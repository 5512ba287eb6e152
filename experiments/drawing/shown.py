"""Which of a folder's records a figure or a page shows, and what it has to say about the rest. Runs no model.

A folder may hold several settings (other weights, prompts, seeds) and versions of an experiment. They are never mixed: the
setting that was measured last is shown, and notes tell what was left out, is missing or cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from experiments.plate.curves import HEADLINE_C, Curve, by_kind, curve, rule_text
from experiments.store import canonical

UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)


@dataclass
class Shown:
    """One setting's records with the Curve of each, in the order of the experiment's points; notes for the reader."""

    records: list[dict] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def temperatures(self) -> list[float]:
        return sorted({one.temperature for one in self.curves})

    @property
    def drafts(self) -> list[str]:
        return list(dict.fromkeys(one.draft for one in self.curves))

    def at(self, temperature: float) -> list[Curve]:
        return [one for one in self.curves if one.temperature == temperature]

    def kinds(self, temperature: float) -> list[dict[str, Curve]]:
        """For each draft at a temperature: kind of prompt -> Curve."""
        pairs = zip(self.curves, self.records)
        return [by_kind(record) for one, record in pairs if one.temperature == temperature]


def name_of(point: dict) -> str:
    """rtn4 at T = 0.5"""
    return f"{point.get('draft')} at T = {point.get('temperature')}"


def one_setting(
    records: list[dict],
    version: int | None = None,
    own: tuple[str, ...] = (),
    shared: tuple[str, ...] | None = None,
) -> tuple[list[dict], list[str]]:
    """The records of the setting that was measured last, each point once, and notes on version and on what was left out.

    A setting is all inputs that stand neither in the point nor in `own`, which belong to a point too (a mix's formats); or, where
    given, the inputs named by `shared` alone. version: what the program has now, where that is to be compared.
    """
    groups: dict[str, dict[str, dict]] = {}
    for record in sorted(records, key=_time):
        point, inputs = record["point"], record["inputs"]
        names = set(inputs) - set(point) - set(own) if shared is None else set(shared)
        setting = canonical({name: inputs.get(name) for name in names})
        groups.setdefault(setting, {})[canonical(point)] = record
    if not groups:
        return [], []
    newest = max(groups.values(), key=lambda group: max(map(_time, group.values())))
    kept = [record for record in records if newest.get(canonical(record["point"])) is record]
    notes = []
    made = kept[-1]["inputs"].get("version")
    if version is not None and made != version:
        notes.append(
            f"Made by version {made} of the experiment; this program has version {version}, "
            "whose results may differ."
        )
    if len(kept) < len(records):
        left = len(records) - len(kept)
        notes.append(f"Not shown: {left} {_records(left)} of other settings in the same folder.")
    return kept, notes


def shown(records: list[dict]) -> Shown:
    """The estimate's finished records -> what is shown of them."""
    from experiments.estimate import POINTS, VERSION

    chosen, notes = one_setting(records, VERSION)
    out = Shown(notes=notes)
    by_point = {canonical(record["point"]): record for record in chosen}
    wanted = {canonical(point): point for point in POINTS}
    missing = [point for text, point in wanted.items() if text not in by_point]
    if chosen and missing:
        out.notes.append("Not measured: " + ", ".join(map(name_of, missing)) + ".")
    order = [*wanted, *(text for text in by_point if text not in wanted)]
    for record in (by_point[text] for text in order if text in by_point):
        _take(record, out)
    return out


def c_text(found: Shown) -> str:
    """rtn4 0.282, rtn3 0.219"""
    c = {one.draft: one.c[HEADLINE_C] for one in found.curves}
    return ", ".join(f"{draft} {value:.3f}" for draft, value in c.items())


def sample_text(found: Shown) -> str:
    """What was measured, in one sentence."""
    result = found.records[0]["result"]
    seeds = max(record["result"].get("seeds", 1) for record in found.records)
    return (
        f"{len(result['prompts'])} prompts, windows of {result.get('window')} tokens, {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'} at T > 0{rule_text(found.records[0])}."
    )


def _take(record: dict, out: Shown) -> None:
    """Add a record and its Curve, or a note that says why not."""
    point = record["point"]
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            one = curve(record)
            if len(record["result"]["kinds"]) != len(record["result"]["prompts"]):
                raise ValueError("kinds and prompts differ in number")
            if one.gammas.shape != one.rounds.shape[1:]:
                raise ValueError("gammas and counts differ in number")
            known = np.isfinite(one.speed_up(one.c[HEADLINE_C])[0]) & np.isfinite(one.alpha[0])
    except UNREADABLE as error:
        out.notes.append(f"Cannot be read: {name_of(point)} ({type(error).__name__}: {error}).")
        return
    if not known.all():
        gaps = ", ".join(str(gamma) for gamma in one.gammas[~known])
        out.notes.append(f"No value: {name_of(point)}, γ = {gaps}.")
    if known.any():
        out.records.append(record)
        out.curves.append(one)


def _time(record: dict) -> str:
    return str(record["environment"].get("time", ""))


def _records(count: int) -> str:
    return "record" if count == 1 else "records"
