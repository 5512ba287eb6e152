"""Where the page's numbers come from: the machine, versions and inputs recorded beside them, and the commands that make them."""

from __future__ import annotations

from pathlib import Path

from experiments.page.parts import paragraph, section, table, text
from experiments.paths import ROOT
from experiments.store import Store, canonical

COMMANDS = {
    "plate-run": "selfdraft plate",
    "estimate": "selfdraft plate",
    "rounds": "selfdraft run rounds",
    "rules-glance": "selfdraft plate",
    "exact": "selfdraft exact",
}


def provenance(store: Store) -> str:
    """One line for each experiment on record and each place it was measured in, then the inputs its results depend on."""
    records = [r for r in store.records.values() if r["status"] == "ok"]
    if not records:
        return section("Provenance", paragraph("No records, so nothing to tell."))
    return section(
        "Provenance",
        paragraph("Recorded beside each point when it was measured. Hashes are of contents: equal hashes, equal inputs."),
        _where(records),
        _inputs(records),
    )  # fmt: skip


def _where(records: list[dict]) -> str:
    """(experiment, records, command, and what is the same for all records of the line)."""
    groups: dict[str, list[dict]] = {}
    for record in records:
        place = {k: v for k, v in record["environment"].items() if k != "time"}
        groups.setdefault(canonical([record["experiment"], place]), []).append(record)
    names = list(dict.fromkeys(k for r in records for k in r["environment"] if k != "time"))
    rows = []
    for group in groups.values():
        name, place = group[0]["experiment"], group[0]["environment"]
        times = sorted(str(r["environment"].get("time", "")) for r in group)
        rows.append((name, len(group), command(name), times[-1], *(place.get(k) for k in names)))
    head = ("experiment", "records", "made by", "last", *names)
    return table("Where and with what", head, rows)


def command(experiment: str) -> str:
    return COMMANDS.get(experiment, f"selfdraft run {experiment}")


def _inputs(records: list[dict]) -> str:
    """What the results depend on beside their point: each distinct value once."""
    rows: dict[tuple[str, str], list[str]] = {}
    for record in records:
        for name, value in record["inputs"].items():
            if name not in record["point"]:
                values = rows.setdefault((record["experiment"], name), [])
                words = _short(value)
                if words not in values:
                    values.append(words)
    lines = [(name, experiment, "; ".join(values)) for (experiment, name), values in rows.items()]
    return table("What the results depend on, beside their point", ("what", "experiment", "value"), lines)  # fmt: skip


def _short(value: object, most: int = 60) -> str:
    words = value if isinstance(value, str) else canonical(value)
    return words if len(words) <= most else words[: most - 1] + "…"


def again(folder: Path) -> str:
    # a page is passed on: what lies in the clone is named from there, not by a place of this machine
    place = folder.resolve()
    folder = place.relative_to(ROOT) if place.is_relative_to(ROOT) else folder
    commands = (
        f"selfdraft plate --out {folder}    # measures what is not on record\n"
        f"selfdraft run rounds --out {folder}    # the runs of the viewer\n"
        f"selfdraft plot --records {folder}    # the figures again\n"
        f"selfdraft report --records {folder}    # this page again"
    )
    words = "In a clone of the repository `make plate` sets everything up and does all four. From records alone:"
    return section("Make it again", paragraph(words), f"<pre>{text(commands)}</pre>")
