"""Which matrices cost acceptance, and how a byte budget is best spent.

First each matrix, each layer, each kind of matrix and everything is rounded alone to 3 and to 2 bits (mse3, mse2), all else in 16
bits: what alpha loses. Then matrices are given bits one by one where they buy most (experiments/ladder/mix_search.py), and the best mixes at 2.75 and
3.25 bits per weight are written as mix-2.75.json and mix-3.25.json; `selfdraft run ladder` measures them on the other half of the
plates. All on the choosing prompts, T = 1, gamma 4. About a second a measurement, some 170 of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.options import add_every, add_model, add_prompts, add_threads, set_threads
from experiments.paths import REFERENCE, RESULTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "sensitivity", metavar="DIR",
                        help="folder of records, figure and mixes (default: %(default)s)")  # fmt: skip
    add_every(parser, 2)
    parser.add_argument("--reference", action="store_true",
                        help="write the mixes that the ladder of this repository measures")  # fmt: skip
    parser.add_argument("--no-search", action="store_true", help="leave the search for mixes out")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.halves import thinned
    from experiments.ladder import sensitivity_run
    from experiments.ladder.sensitivity_figure import as_rows, as_text
    from experiments.plot import draw_safely
    from experiments.prompts import load_prompts
    from experiments.runner import progress_bar
    from experiments.setting import Setting
    from experiments.store import open_store

    set_threads(args.threads)
    prompts = thinned(load_prompts(args.prompts), args.every)
    setting = sensitivity_run.choosing(Setting(args.model, prompts))
    setting.check()
    store, bench = open_store(args.out, "run sensitivity"), sensitivity_run.Workbench(setting)
    points = sensitivity_run.points_of(setting.model)
    records = []
    with progress_bar(len(points), "sensitivity") as bar:
        setting.progress = bar.say
        for point in points:
            records.append(bench.measured(point, store))
            bar.step()
    rows = as_rows(records)
    mixes = {} if args.no_search else found_mixes(bench, store)
    for name, state in mixes.items():
        write_mix(name, state.formats, REFERENCE if args.reference else args.out)
    summary = {name: {"alpha": s.alpha, "bits": s.bits} for name, s in mixes.items()}
    print(json.dumps({"parts": rows, "mixes": summary}) if args.json else as_text(rows, summary))
    draw_safely("sensitivity", records, args.out)
    return 0


def found_mixes(bench, store) -> dict:
    """Name of a mix -> the State within its budget."""
    from experiments.ladder import mix_search
    from experiments.ladder.points import MIXES
    from experiments.ladder.sensitivity_run import alpha, parts_of
    from experiments.runner import progress_bar

    matrices = parts_of(bench.setting.model)["all"]
    weights = sum(bench.setting.model.get_parameter(name).numel() for name in matrices)
    budgets = {name: int(float(name.removeprefix("mix-")) * weights / 8) for name in MIXES}

    with progress_bar(None, "search") as bar:
        bench.setting.progress = bar.say

        def measure(bits: dict[str, int]):
            formats = mix_search.formats_of(bits)
            record = bench.measured({"formats": formats}, store)
            bar.step()
            return mix_search.State(bits, record["result"]["bytes"], alpha(record))

        path = mix_search.search(matrices, measure, max(budgets.values()))
    return {name: mix_search.within(path, budget) for name, budget in budgets.items()}


def write_mix(name: str, formats: dict[str, str], folder: Path) -> None:
    from micro.files import write_atomically

    text = json.dumps(formats, indent=1) + "\n"
    write_atomically(folder / f"{name}.json", lambda file: file.write(text.encode()))
