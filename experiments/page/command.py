"""Records to one self-contained HTML page: the plate to play with, recorded runs round by round, figures, tables. Runs no model.

The page needs no network and no build step, follows the reader's light or dark setting, and can be read on a phone.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import numpy as np

from experiments import estimate
from experiments.drawing.shown import Shown, one_setting, sample_text, shown
from experiments.page import evidence as page_evidence
from experiments.page import provenance as page_provenance
from experiments.page import tables as page_tables
from experiments.page.controls import plate_html
from experiments.page.parts import contents, data_script, missing, paragraph, section, text
from experiments.page.plate import plate_data
from experiments.page.steps import viewer_html
from experiments.page.style import script, style
from experiments.page.viewer import viewer_data
from experiments.plate import run as plate_run
from experiments.plate.table import verdict
from experiments.plot import add_records, open_records, quiet_matplotlib, warn
from experiments.rules import glance as rules_glance
from experiments.rules import run as rules_run
from experiments.store import Store
from experiments.watch import rounds_run
from micro.files import write_atomically

TITLE = "Does it pay to let a model draft for itself, at low precision?"
# experiments that keep their records in a folder of their own, by default one beside the plate's
NEIGHBOURS = ("rules", "ladder", "zoo", "exact")
# the page asks for nothing from anywhere, and says so to the browser
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_records(parser)
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="the page (default: index.html in the folder of the records)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    store = open_records(args.records)
    warn("report", store)
    path = args.out or args.records / "index.html"
    write_page(store, path)
    print(path)
    return 0


def write_page(store: Store, path: Path) -> None:
    """Raises FileFault where `path` cannot be written."""
    page = build_page(store)
    write_atomically(path, lambda file: file.write(page.encode()))


def build_page(store: Store) -> str:
    """The page of what the store holds; with nothing measured, a page that says so."""
    with quiet_matplotlib():
        return _build(store)


def _build(store: Store) -> str:
    store = with_neighbours(store)
    found = sources(store)
    main = found[0][1] if found else Shown()
    runs, run_notes = one_setting(store.of(plate_run.NAME), plate_run.VERSION)
    notes = [*store.notes, *main.notes, *run_notes, *_failed(store)]
    answer = verdict(main.curves) if main.curves else "Nothing is measured yet."
    sections = _sections(store, found, main, runs)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(TITLE)}</title>\n<style>{style()}</style>\n</head>\n<body>\n<main>",
            f'<h1>{text(TITLE)}</h1>\n<p class="answer">{text(answer)}</p>',
            *([paragraph(_sample(main))] if main.curves else []),
            *(f'<p class="alarm">{text(note)}</p>' for note in notes),
            contents(sections),
            *sections,
            "</main>\n</body>\n</html>\n",
        ]
    )


def with_neighbours(store: Store) -> Store:
    """The store and the records of other experiments that lie in folders of their names, inside its folder or beside it."""
    records, notes = dict(store.records), list(store.notes)
    for name in NEIGHBOURS:
        for place in (store.folder / name, store.folder.parent / name):
            if place.is_dir():
                other = Store(place)
                records |= other.records
                notes += other.notes
    merged = copy.copy(store)
    merged.records, merged.notes = records, notes
    return merged


def sources(store: Store) -> list[tuple[str, Shown]]:
    """(rule, what is shown of its records) for the plate's controls: the estimate under the token rule, then what else there is.

    Where two hold the same setting the first is shown.
    """
    estimates: dict[str, list[dict]] = {}
    for record in store.of(estimate.NAME):
        estimates.setdefault(str(record["inputs"].get("rule", "token")), []).append(record)
    found = [
        (rule, shown(estimates[rule]))
        for rule in sorted(estimates, key=lambda r: (r != "token", r))
    ]
    for experiment in (rules_run, rules_glance):
        compared, _ = one_setting(store.of(experiment.NAME), experiment.VERSION)
        for rule in experiment.RULES:
            mine = [rules_run.of_rule(r, rule) for r in compared if rule in r["result"]["rules"]]
            if mine:
                found.append((rule, shown(mine)))
    return [(rule, one) for rule, one in found if one.curves or one.notes]


def _sections(
    store: Store, found: list[tuple[str, Shown]], main: Shown, runs: list[dict]
) -> list[str]:
    recorded, notes = one_setting(store.of(rounds_run.NAME), rounds_run.VERSION)
    recorded.sort(key=lambda r: _place(rounds_run.POINTS, r["point"]))
    parts = [_plate(found), _viewer(recorded, notes)]
    if main.curves:
        parts += [
            page_tables.best_table(main),
            section("Figures", *page_tables.figures(main.records)),
            *page_tables.tables(main, runs),
            *page_tables.plate_runs(runs),
        ]
    return [
        *parts,
        page_evidence.frontier(store),
        page_evidence.zoo(store),
        page_evidence.exactness(store),
        page_provenance.provenance(store),
        page_tables.glossary(),
        page_provenance.again(store.folder),
    ]


def _plate(found: list[tuple[str, Shown]]) -> str:
    known = [(rule, one) for rule, one in found if one.curves]
    title = "The plate, to play with"
    if not known:
        return section(title, missing("No estimate is on record. It is measured by", "selfdraft plate"))  # fmt: skip
    with np.errstate(invalid="ignore", divide="ignore"):  # a rate whose count is 0 or null is NaN
        data = data_script("plate-data", plate_data(known))
        controls = plate_html(known)
    return section(
        title,
        "<noscript><p>The controls need a script; the figures and tables below do not.</p></noscript>",
        controls,
        data,
        script("plate.js"),
    )


def _viewer(records: list[dict], notes: list[str]) -> str:
    title = "Round by round"
    if not records:
        return section(title, missing("No run is on record. They are made by", "selfdraft run rounds"))  # fmt: skip
    words = (
        "Real runs of the loop, as recorded. The draft proposes γ tokens one by one; the target reads them all in one pass; "
        "each is compared in turn; what is kept joins the text, and one token of the target's own behind it."
    )
    return section(
        title,
        paragraph(words),
        *map(paragraph, notes),
        viewer_html(records),
        data_script("viewer-data", viewer_data(records)),
        script("viewer.js"),
    )


def _place(points: list[dict], point: dict) -> int:
    """Of a point among an experiment's; unknown ones come last."""
    return points.index(point) if point in points else len(points)


def _failed(store: Store) -> list[str]:
    bad = [r for r in store.records.values() if r["status"] != "ok"]
    return [f"Failed: {r['experiment']} {r['point']}: {r['result'].get('error')}" for r in bad]


def _sample(found: Shown) -> str:
    return (
        f"Estimated by replay: {sample_text(found)} The target is stored in bfloat16. Another micro, another text: α is a "
        "property of both; what carries over is the arithmetic and the shape."
    )
