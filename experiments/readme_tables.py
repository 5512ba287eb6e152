"""The README's tables, rendered from the reference records; `python -m experiments.readme_tables` writes them in.

Each stands between `<!-- table:NAME -->` and `<!-- end -->`; a test renders them again and compares. Runs no model.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from experiments import estimate
from experiments.ladder.rates import rung
from experiments.ladder.table import winners_table
from experiments.ladder.tuned_run import UNTUNED
from experiments.paths import REFERENCE, ROOT
from experiments.plate import run as plate_run
from experiments.plate.curves import HEADLINE_C, Curve, by_kind, curve
from experiments.plate.table import page_cells
from experiments.store import Store
from experiments.zoo.table import as_markdown
from micro.files import read_json, write_atomically


def _curves() -> list[Curve]:
    return [curve(record) for record in Store(REFERENCE).of(estimate.NAME)]


def best() -> str:
    """Best gamma of each draft and temperature."""
    lines = [
        "| draft | T | best γ | α | tokens per pass | formula f(α) | c, weight bytes | estimated speed-up | with cache |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(
        _curves(), key=lambda x: (-x.temperature, x.draft.startswith("absmax"), x.c["nominal"])
    ):
        c = one.c[HEADLINE_C]
        gamma, speed = one.best(c)
        cached = one.best(one.c["with_cache"])[1]
        i = list(one.gammas).index(gamma)
        lines.append(
            f"| {one.draft} | {one.temperature:g} | {gamma} | {one.alpha[0, i]:.3f} | {one.at(one.tokens_per_pass, gamma)} "
            f"| {one.formula[0, i]:.2f} | {c:.3f} | {speed} | {cached} at {one.c['with_cache']:.3f} |"
        )
    return "\n".join(lines)


def page() -> str:
    """gamma 4, T 1 beside the course page."""
    store, curves = Store(REFERENCE), _curves()
    lines = [
        "| γ = 4, T = 1 | c = bits / 16 | estimate: α | tokens per pass | speed-up | the plate's run: α | tokens per pass "
        "| speed-up | course page: α | tokens per pass | speed-up |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for draft, c, cells in page_cells(curves, store.of(plate_run.NAME)):
        texts = " | ".join("-" if v is None else f"{v:.2f}" for v in cells)
        lines.append(f"| {draft} | {c:.4f} | {texts} |")
    return "\n".join(lines)


def kinds() -> str:
    """Best speed-up by kind of prompt at T = 1."""
    lines = [
        "| T = 1 | "
        + " | ".join(f"{k}: α, best γ, speed-up" for k in ("lesson", "copy", "free"))
        + " |",
        "|---|---|---|---|",
    ]
    for record in Store(REFERENCE).of(estimate.NAME):
        if record["point"]["temperature"] != 1.0:
            continue
        cells = []
        for one in by_kind(record).values():
            gamma, speed = one.best(one.c[HEADLINE_C])
            cells.append(f"{one.at(one.alpha, gamma).value:.3f}, {gamma}, {speed}")
        lines.append(f"| {record['point']['draft']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def micro() -> str:
    """What the shipped micro reached, from its training record."""
    record = read_json(ROOT / "micro" / "weights" / "training.json")
    held = record["held-out"]
    rates = {
        kind: ", ".join(f"{name} {r[kind]:.2f}" for name, r in record["compressors"].items())
        for kind in ("alone", "after training text")
    }
    return (
        f"Held-out loss {held['nats']:.3f} nats a byte, {held['bits_per_byte']:.3f} bits per byte "
        f"({held['bytes']:,} bytes). On the same bytes: {rates['alone']}; "
        f"allowed to read the training text first: {rates['after training text']}. "
        f"{record['steps']:,} steps in {record['minutes']:.1f} minutes."
    )


def ladder() -> str:
    """The best draft of each byte class."""
    return winners_table([rung(record) for record in Store(REFERENCE).of("ladder")])


def tuned() -> str:
    """Untuned and tuned copies of each format, the tuned ones from the least to the most of their seeds."""
    records = Store(REFERENCE).of("tuned")
    lines = [
        "| format, bits per weight | steps, minutes | α untuned | α tuned | estimated speed-up untuned | tuned | with cache |",
        "|---|---|---|---|---|---|---|",
    ]
    formats = {r["point"]["draft"]: r["result"]["bits_per_weight"] for r in records}
    for name in sorted(formats, key=formats.get):
        own = [r for r in records if r["point"]["draft"] == name]
        before = next(rung(r).rates[1.0] for r in own if r["point"]["seed"] == UNTUNED)
        after = [rung(r).rates[1.0] for r in own if r["point"]["seed"] != UNTUNED]
        tunings = [r["result"]["tuning"] for r in own if r["point"]["seed"] != UNTUNED]
        speeds = sorted((rates.speed_up for rates in after), key=lambda speed: speed.value)
        ends = dict.fromkeys((str(speeds[0]), str(speeds[-1])))
        lines.append(
            f"| {name}, {formats[name]:.2f} | {tunings[0]['steps']:,}, {_span([t['minutes'] for t in tunings], 1)} "
            f"| {before.alpha.value:.3f} | {_span([r.alpha.value for r in after], 3)} | {before.speed_up} "
            f"| {' to '.join(ends)} | {_span([r.cached_speed_up for r in after], 2)} |"
        )
    return "\n".join(lines)


def _span(values: list[float], digits: int) -> str:
    low, high = (f"{end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def zoo() -> str:
    """The best draft of each group."""
    return as_markdown(Store(REFERENCE).of("zoo"))


TABLES: dict[str, Callable[[], str]] = {
    "best": best,
    "page": page,
    "kinds": kinds,
    "micro": micro,
    "ladder": ladder,
    "tuned": tuned,
    "zoo": zoo,
}


def render(name: str) -> str:
    """A table's Markdown. Raises KeyError for a name that is not in TABLES."""
    return TABLES[name]()


def between(name: str) -> re.Pattern:
    """Matches a table's place in the README; group 2 is what stands there."""
    return re.compile(rf"(<!-- table:{name} -->\n)(.*?)(\n<!-- end -->)", re.S)


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    for name in TABLES:
        text, found = between(name).subn(lambda m, n=name: m[1] + render(n) + m[3], text)
        print(f"{name}: {'written' if found else 'has no place in README.md'}")
    write_atomically(path, lambda file: file.write(text.encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
