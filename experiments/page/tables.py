"""The page's figures and tables: what the records hold, without a script."""

from __future__ import annotations

import numpy as np

from experiments.drawing.shown import Shown
from experiments.page.glossary import GLOSSARY
from experiments.page.parts import definitions, details, figure, rounds, section, table, text
from experiments.page.text import bytes_as_text
from experiments.plate import run as plate_run
from experiments.plate.curves import HEADLINE_C, Curve
from experiments.plate.table import Row, estimate_rows, formula_off, page_cells, run_rows
from experiments.stats import Interval

SHOWN_GAMMA = 4  # of the plate's run


def figures(records: list[dict]) -> list[str]:
    from experiments.drawing.style import to_svg
    from experiments.figures import FIGURES

    return [
        figure(to_svg(draw(records), name), name, (draw.__doc__ or name).strip())
        for name, draw in FIGURES.items()
    ]


def tables(found: Shown, runs: list[dict]) -> list[str]:
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


def best_table(found: Shown) -> str:
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


def plate_runs(runs: list[dict]) -> list[str]:
    """The plate's run at one gamma, every round on one sheet; nothing where no record holds them."""
    mine = [r for r in runs if r["point"].get("gamma") == SHOWN_GAMMA and r["result"].get("trace")]
    parts = [details(_run_title(r), *_run_body(r)) for r in mine]
    return [section("The plate's run, all rounds on one sheet", *parts)] if parts else []


def _run_title(record: dict) -> str:
    point, result = record["point"], record["result"]
    return (
        f"{point['draft']}, T = {point['temperature']:g}, γ = {point['gamma']}: {result['emitted']} tokens in "
        f"{result['rounds']} rounds"
    )


def _run_body(record: dict) -> list[str]:
    words = plate_run.PROMPT.decode() + bytes_as_text(record["result"]["tokens"])
    return [f"<pre>{text(words)}</pre>", rounds(record["result"]["trace"])]


def glossary() -> str:
    return section("Words", definitions(GLOSSARY))
