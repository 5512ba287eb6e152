"""Records to one self-contained HTML page: the answer, the figures, the tables, the plate's run round by round. Runs no model.

The page needs no network and no script, follows the reader's light or dark setting, and can be read on a phone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments import estimate, plate_run
from experiments.curves import HEADLINE_C, Curve
from experiments.glossary import GLOSSARY
from experiments.paths import ROOT
from experiments.plate_table import (
    Row,
    estimate_rows,
    formula_off,
    page_cells,
    run_rows,
    verdict,
)
from experiments.plot import add_records, open_records, quiet_matplotlib, warn
from experiments.shown import Shown, one_setting, sample_text, shown
from experiments.stats import Interval
from experiments.store import Store
from micro.files import write_atomically

TITLE = "Does it pay to let a model draft for itself, at low precision?"
SHOWN_GAMMA = 4  # of the plate's run


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
    from experiments.page_parts import paragraph, text
    from experiments.page_style import STYLE

    found = shown(store.of(estimate.NAME))
    runs, run_notes = one_setting(store.of(plate_run.NAME), plate_run.VERSION)
    notes = [*store.notes, *found.notes, *run_notes, *_failed(store)]
    if found.curves:
        answer = verdict(found.curves)
        parts = [
            _best_table(found),
            _figures(store),
            *_tables(found, runs),
            *_run(runs),
            _environment(found),
        ]
    else:
        answer, parts = "Nothing is measured yet.", []
    alarms = [f'<p class="alarm">{text(note)}</p>' for note in notes]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(TITLE)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f'<h1>{text(TITLE)}</h1>\n<p class="answer">{text(answer)}</p>',
            *([paragraph(_sample(found))] if found.curves else []),
            *alarms,
            *parts,
            _glossary(),
            _reproduce(store.folder),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _failed(store: Store) -> list[str]:
    bad = [r for r in store.records.values() if r["status"] != "ok"]
    return [f"Failed: {r['experiment']} {r['point']}: {r['result'].get('error')}" for r in bad]


def _sample(found: Shown) -> str:
    return (
        f"Estimated by replay: {sample_text(found)} The target is stored in bfloat16. Another micro, another text: α is a "
        "property of both; what carries over is the arithmetic and the shape."
    )


def _figures(store: Store) -> str:
    from experiments.figure_style import to_svg
    from experiments.figures import FIGURES
    from experiments.page_parts import figure, section

    records = store.of(estimate.NAME)
    parts = [
        figure(to_svg(draw(records), name), name, (draw.__doc__ or name).strip())
        for name, draw in FIGURES.items()
    ]
    return section("Figures", *parts)


def _tables(found: Shown, runs: list[dict]) -> list[str]:
    from experiments.page_parts import details, section

    return [
        section("By kind of prompt", _kind_table(found)),
        section("The course page's row", _page_table(found, runs)),
        section(
            "Every point",
            details("The estimate", *_grid("Replay over all prompts", estimate_rows(found.curves))),
            details(
                "The plate's run",
                *_grid("One text of 40 tokens", run_rows(_known(found, runs), found.curves)),
            ),
        ),
    ]


def _best_table(found: Shown) -> str:
    from experiments.page_parts import section, table

    head = (
        "draft", "T", "best γ", "speed-up", "tokens per pass", "α", "formula", "off by", "M − α^γ", "mean overlap β",
        "c, weights", "c with cache", "speed-up with cache",
    )  # fmt: skip
    rows = map(_best_row, found.curves)
    title = "Best γ of each draft and temperature"
    return section(title, table("Speed-up: estimated, c by weight bytes", head, rows))


def _best_row(one: Curve) -> tuple:
    c, cached = one.c[HEADLINE_C], one.c["with_cache"]
    gamma, speed = one.best(c)
    i = list(one.gammas).index(gamma)
    alpha = one.alpha[0, i]
    return (
        one.draft, f"{one.temperature:g}", gamma, speed, one.at(one.tokens_per_pass, gamma), f"{alpha:.3f}",
        f"{one.formula[0, i]:.2f}", f"{formula_off(one, gamma):+.1%}", f"{one.full_share[0, i] - alpha**gamma:+.3f}",
        f"{one.overlap[0]:.3f}", f"{c:.3f}", f"{cached:.3f}", "{1} at γ {0}".format(*one.best(cached)),
    )  # fmt: skip


def _kind_table(found: Shown) -> str:
    from experiments.page_parts import table

    kinds = list(dict.fromkeys(found.records[0]["result"]["kinds"]))
    rows = [
        (f"{one.draft}, T = {temperature:g}", *(_kind_cell(mine.get(kind)) for kind in kinds))
        for temperature in reversed(found.temperatures)
        for one, mine in zip(found.at(temperature), found.kinds(temperature))
    ]
    return table("Best estimated speed-up, at its γ and with the α there", ("draft", *kinds), rows)


def _kind_cell(one: Curve | None) -> str | None:
    if one is None or not np.isfinite(one.speed_up(one.c[HEADLINE_C])[0]).any():
        return None
    gamma, speed = one.best(one.c[HEADLINE_C])
    return f"{speed}, γ {gamma}, α {one.at(one.alpha, gamma).value:.2f}"


def _known(found: Shown, runs: list[dict]) -> list[dict]:
    """Those of the plate's runs whose draft has a c."""
    return [run for run in runs if run["point"]["draft"] in found.drafts]


def _page_table(found: Shown, runs: list[dict]) -> str:
    """γ 4, T 1, c = bits / 16: α, tokens per pass and speed-up, three times."""
    from experiments.page_parts import table

    rows = [
        (draft, f"{c:.4f}", *(None if v is None else f"{v:.2f}" for v in cells))
        for draft, c, cells in page_cells(found.curves, _known(found, runs))
    ]
    head = ["draft", "c = bits / 16"]
    for source in ("estimate", "the plate's run", "course page"):
        head += [f"{source}: α", "tokens per pass", "speed-up"]
    caption = "γ = 4, T = 1. The course page measured another micro: its α need not be ours; the arithmetic must."
    return table(caption, head, rows)


def _grid(title: str, rows: list[Row]) -> list[str]:
    from experiments.page_parts import table

    head = [
        "draft",
        "T",
        "γ",
        "α",
        "tokens per pass",
        "formula",
        "speed-up: weights",
        "nominal c",
        "with cache",
    ]
    own = any(r.part == "run" for r in rows)
    cells = [
        _grid_cells(r) + ([{None: None, True: "yes", False: "NO"}[r.identical]] if own else [])
        for r in rows
    ]
    return [table(title, head + ["identical"] * own, cells)] if cells else []


def _grid_cells(r: Row) -> list:
    return [
        r.draft, f"{r.temperature:g}", r.gamma, _number(r.alpha),
        _number(r.tokens_per_pass, r.tokens_per_pass_low, r.tokens_per_pass_high), _number(r.formula),
        _number(r.speed_up_weights, r.speed_up_weights_low, r.speed_up_weights_high),
        _number(r.speed_up_nominal), _number(r.speed_up_with_cache),
    ]  # fmt: skip


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str | None:
    """None also for NaN, a rate whose count is missing."""
    if value is None or value != value:
        return None
    return f"{value:.3f}" if low is None else str(Interval(value, low, high))


def _run(runs: list[dict]) -> list[str]:
    """The plate's run at one gamma, round by round."""
    from experiments.page_parts import details, legend, section

    mine = [r for r in runs if r["point"].get("gamma") == SHOWN_GAMMA and r["result"].get("trace")]
    parts = [details(_run_title(r), *_run_body(r)) for r in mine]
    head = "The plate's run, round by round"
    return [section(head, legend(), *parts)] if parts else []


def _run_title(record: dict) -> str:
    point, result = record["point"], record["result"]
    return (
        f"{point['draft']}, T = {point['temperature']:g}, γ = {point['gamma']}: {result['emitted']} tokens in "
        f"{result['rounds']} rounds"
    )


def _run_body(record: dict) -> list[str]:
    from experiments.page_parts import bytes_as_text, rounds, text

    words = plate_run.PROMPT.decode() + bytes_as_text(record["result"]["tokens"])
    return [f"<pre>{text(words)}</pre>", rounds(record["result"]["trace"])]


def _environment(found: Shown) -> str:
    from experiments.page_parts import section, table

    record = found.records[-1]
    inputs = {k: v for k, v in record["inputs"].items() if k not in record["point"]}
    return section(
        "Measured with",
        table("The machine, recorded beside each point", ("what", "value"), sorted(record["environment"].items())),
        table("What the results depend on, beside draft and temperature", ("what", "value"), sorted(inputs.items())),
    )  # fmt: skip


def _glossary() -> str:
    from experiments.page_parts import definitions, section

    return section("Words", definitions(GLOSSARY))


def _reproduce(folder: Path) -> str:
    from experiments.page_parts import paragraph, section, text

    # a page is passed on: what lies in the clone is named from there, not by a place of this machine
    place = folder.resolve()
    folder = place.relative_to(ROOT) if place.is_relative_to(ROOT) else folder
    commands = (
        f"selfdraft plate --out {folder}    # measures what is not on record\n"
        f"selfdraft plot --records {folder}    # the figures again\n"
        f"selfdraft report --records {folder}    # this page again"
    )
    words = "In a clone of the repository `make plate` sets everything up and does all three. From records alone:"
    return section("Make it again", paragraph(words), f"<pre>{text(commands)}</pre>")
