"""The plate's tables: the first screen, the whole grid, CSV and JSON, all from the same rows. Runs no model."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass

from experiments.plate.curves import C_NAMES, HEADLINE_C, Curve, curve, paired_difference, rule_text
from experiments.stats import Interval
from specdec.record import Totals
from specdec.theory import tokens_per_pass

# alpha, tokens per pass, speed-up at c = bits / 16: what the course page gives for gamma 4, T 1, another micro
COURSE_PAGE = {"rtn4": (0.72, 3.00, 1.50), "rtn3": (0.40, None, 0.94)}
W_SLOPES = (0.0, 0.02, 0.05, 0.10)  # cost of each further row of a target pass, in one-row passes


@dataclass(frozen=True)
class Row:
    """One line of the grid. part: "estimate" (replay, all prompts) or "run" (the plate's 40 tokens, the loop)."""

    part: str
    draft: str
    temperature: float
    gamma: int
    alpha: float | None
    alpha_low: float | None
    alpha_high: float | None
    tokens_per_pass: float
    tokens_per_pass_low: float | None
    tokens_per_pass_high: float | None
    formula: float | None
    c_nominal: float
    c_weights: float
    c_with_cache: float
    speed_up_nominal: float
    speed_up_weights: float
    speed_up_weights_low: float | None
    speed_up_weights_high: float | None
    speed_up_with_cache: float
    identical: bool | None


def estimate_rows(curves: list[Curve]) -> list[Row]:
    return [_estimate_row(one, i) for one in curves for i in range(len(one.gammas))]


def _estimate_row(one: Curve, i: int) -> Row:
    gamma = int(one.gammas[i])
    alpha, tokens = one.at(one.alpha, gamma), one.at(one.tokens_per_pass, gamma)
    speed = {name: one.at(one.speed_up(one.c[name]), gamma) for name in C_NAMES}
    return Row(
        "estimate", one.draft, one.temperature, gamma,
        alpha.value, alpha.low, alpha.high, tokens.value, tokens.low, tokens.high,
        float(one.formula[0, i]), one.c["nominal"], one.c["weights"], one.c["with_cache"],
        speed["nominal"].value, speed["weights"].value, speed["weights"].low, speed["weights"].high,
        speed["with_cache"].value, None,
    )  # fmt: skip


def run_rows(runs: list[dict], curves: list[Curve]) -> list[Row]:
    """The plate's run: no interval, for one text has none."""
    c = {one.draft: one.c for one in curves}
    return [_run_row(record, c[record["point"]["draft"]]) for record in runs]


def _run_row(record: dict, c: dict[str, float]) -> Row:
    point, result = record["point"], dict(record["result"])
    identical = result.pop("identical")
    for name in ("tokens", "trace"):
        result.pop(name, None)
    totals = Totals(**result)
    formula = None if totals.alpha is None else tokens_per_pass(totals.alpha, point["gamma"])
    speed = {name: totals.estimated_speed_up(c[name]) for name in C_NAMES}
    return Row(
        "run", point["draft"], point["temperature"], point["gamma"],
        totals.alpha, None, None, totals.tokens_per_pass, None, None,
        formula, c["nominal"], c["weights"], c["with_cache"],
        speed["nominal"], speed["weights"], None, None, speed["with_cache"], identical,
    )  # fmt: skip


def to_csv(rows: list[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(asdict(rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


def first_screen(estimates: list[dict], runs: list[dict]) -> list[str]:
    """The answer, in 18 lines: two more are left for where things lie."""
    curves = [curve(record) for record in estimates]
    result = estimates[0]["result"]
    seeds = max(record["result"]["seeds"] for record in estimates)
    return [
        f"Does self-drafting pay?  {verdict(curves)}",
        f"Estimated by replay{rule_text(estimates[0])}: {len(result['prompts'])} prompts, {result['window']}-token windows, "
        f"{seeds} seeds at T > 0; bfloat16 target; [95% over prompts]",
        "draft     T    best γ  α      tokens/pass        formula   est. speed-up at c (weights)   with cache",
        *(_best_line(one) for one in sorted(curves, key=lambda x: (-x.temperature, _rank(x)))),
        _naive_line(curves),
        "γ = 4, T = 1, c = bits/16   estimate: α, tokens/pass, speed-up   the plate's run (40 tokens)   course page",
        *_page_lines(curves, runs),
        _closing_line(runs),
    ]


def _closing_line(runs: list[dict]) -> str:
    greedy = [r["result"]["identical"] for r in runs if r["result"]["identical"] is not None]
    return (
        "Another micro and text: α belongs to both, the arithmetic and the shape carry over. "
        f"T = 0: the greedy text bit for bit in {sum(greedy)} of {len(greedy)} runs."
    )


def _rank(one: Curve) -> tuple:
    return (one.draft.startswith("absmax"), -one.c["nominal"])


def verdict(curves: list[Curve]) -> str:
    """The answer in one sentence: the best of all drafts and temperatures."""
    best = max(curves, key=lambda one: one.best(one.c[HEADLINE_C])[1].value)
    gamma, speed = best.best(best.c[HEADLINE_C])
    off = formula_off(best, gamma)
    answer = "Yes" if speed.low > 1 else "No" if speed.high < 1 else "Undecided"
    return (
        f"{answer}: at best {speed} times ({best.draft}, T = {best.temperature:g}, γ = {gamma}, "
        f"c = {best.c[HEADLINE_C]:.3f}); the formula is off by {off:+.1%} there."
    )


def formula_off(one: Curve, gamma: int) -> float:
    """f(alpha) over what was measured, minus 1."""
    i = list(one.gammas).index(gamma)
    return float(one.formula[0, i] / one.tokens_per_pass[0, i] - 1)


def _best_line(one: Curve) -> str:
    c = one.c[HEADLINE_C]
    gamma, speed = one.best(c)
    with_cache = one.best(one.c["with_cache"])
    alpha, tokens = one.at(one.alpha, gamma), one.at(one.tokens_per_pass, gamma)
    return (
        f"{one.draft:8} {one.temperature:3g}    {gamma:4}   {alpha.value:.3f}  {tokens}  {formula_off(one, gamma):+7.1%}"
        f"   {speed} at {c:.3f}     {with_cache[1].value:.2f} (γ {with_cache[0]}, c {one.c['with_cache']:.3f})"
    )


def find(curves: list[Curve], draft: str, temperature: float) -> Curve:
    """Raises ValueError where the records lack it."""
    for one in curves:
        if (one.draft, one.temperature) == (draft, temperature):
            return one
    raise ValueError(f"the records hold no {draft} at T = {temperature:g}; run `selfdraft plate`")


def _naive_line(curves: list[Curve]) -> str:
    gap = paired_difference(find(curves, "rtn3", 1.0), find(curves, "absmax3", 1.0))
    word = "loses to" if gap.low > 0 else "beats" if gap.high < 0 else "cannot be told from"
    return f"At the same bytes the naive absmax3 {word} rtn3: best speed-up at T = 1 differs by {gap} (paired)."


def page_cells(curves: list[Curve], runs: list[dict]) -> list[tuple[str, float, list]]:
    """Of each draft at gamma 4, T 1: its name, c = bits / 16, and alpha, tokens per pass, speed-up three times over: the
    estimate's, the plate's run's, the course page's. None where there is none."""
    own = {(r.draft, r.temperature, r.gamma): r for r in run_rows(runs, curves)}
    rows = []
    for one in curves:
        if one.temperature != 1.0 or 4 not in one.gammas:
            continue
        c = one.c["nominal"]
        cells = [one.at(v, 4).value for v in (one.alpha, one.tokens_per_pass, one.speed_up(c))]
        row = own.get((one.draft, 1.0, 4))
        cells += [row.alpha, row.tokens_per_pass, row.speed_up_nominal] if row else [None] * 3
        cells += COURSE_PAGE.get(one.draft, (None,) * 3)
        rows.append((one.draft, c, cells))
    return rows


def _page_lines(curves: list[Curve], runs: list[dict]) -> list[str]:
    lines = []
    for draft, c, cells in page_cells(curves, runs):
        texts = [_two(cell) for cell in cells]
        estimate, own = (" / ".join(texts[i : i + 3]) for i in (0, 3))
        page = " / ".join(texts[6:]) if draft in COURSE_PAGE else "-"
        lines.append(f"{draft:8} c = {c:.4f}           {estimate:36} {own:29} {page}")
    return lines


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def grid(rows: list[Row]) -> list[str]:
    """Every row, the two parts apart."""
    lines = []
    titles = {
        "run": 'The plate\'s run: "The attention", 40 tokens, seed 1, the real loop (one text: no interval)',
        "estimate": "The estimate: replay over all prompts",
    }
    head = (
        "draft     T    γ  α      tokens/pass          formula  speed-up: nominal c    weights c"
        "                   with cache     identical"
    )
    for part, title in titles.items():
        lines += ["", title, head]
        lines += [_grid_line(row) for row in rows if row.part == part]
    return lines


def _grid_line(row: Row) -> str:
    identical = {None: "", True: "yes", False: "NO"}[row.identical]
    tokens = _with(row.tokens_per_pass, row.tokens_per_pass_low, row.tokens_per_pass_high)
    speed = _with(row.speed_up_weights, row.speed_up_weights_low, row.speed_up_weights_high)
    alpha = "-" if row.alpha is None else f"{row.alpha:.3f}"
    formula = "-" if row.formula is None else f"{row.formula:.2f}"
    return (
        f"{row.draft:8} {row.temperature:3g}  {row.gamma:3}  {alpha:5}  {tokens:19}  {formula:7}  "
        f"{row.speed_up_nominal:.2f} at {row.c_nominal:.4f}        {speed:19} at {row.c_weights:.3f}  "
        f"{row.speed_up_with_cache:.2f} at {row.c_with_cache:.3f}  {identical}"
    )


def _with(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.2f}" if low is None else str(Interval(value, low, high))


def sensitivity(curves: list[Curve]) -> list[str]:
    """Best gamma and speed-up where a target pass over n rows costs w(n) = 1 + s (n - 1)."""
    lines = [
        "",
        "If further rows of a target pass are not free: w(n) = 1 + s (n - 1); best γ and speed-up at c (weights)",
    ]
    lines.append("draft     T    " + "".join(f"s = {s:<14g}" for s in W_SLOPES))
    for one in curves:
        cells = (one.best(one.c[HEADLINE_C], s) for s in W_SLOPES)
        text = "".join(f"γ {gamma:2}: {speed.value:<12.2f}" for gamma, speed in cells)
        lines.append(f"{one.draft:8} {one.temperature:3g}    {text}")
    return lines
