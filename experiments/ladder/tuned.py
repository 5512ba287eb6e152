"""Tune low-bit drafts and measure them: the same bytes, untuned and tuned, for several formats and seeds.

Drafts that do not lie in --out yet are tuned by `selfdraft tune` (some minutes each; an interrupted one is resumed).
Then every draft is measured by replay as `selfdraft run ladder` does: gamma chosen on half of the held-out plates, numbers of the
other half, with 95% intervals over its prompts. Writes records and the figure tuned.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.ladder.tuned_run import FORMATS, SEEDS, UNTUNED, TunedDrafts
from experiments.options import add_model, add_prompts, add_threads, set_threads
from experiments.paths import REFERENCE, RESULTS

if TYPE_CHECKING:
    from experiments.ladder.rates import Rung

AIMS = {"rtn4": 0.97, "rtn3": 0.95, "rtn2": 0.90}  # alpha at T = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--formats", default=",".join(FORMATS), metavar="NAME,...",
                        help="formats to tune (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), metavar="N,...",
                        help="seeds of the tunings, 1 or above (default: %(default)s)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "tuned", metavar="DIR",
                        help="folder of the drafts and records (default: %(default)s)")  # fmt: skip
    add_prompts(parser)
    parser.add_argument("--reference", action="store_true",
                        help="write records and figure to the repository's reference instead")  # fmt: skip
    parser.add_argument("--tuning", default="", metavar="OPTIONS",
                        help="further options of `selfdraft tune`, as one text: --tuning '--steps 100'")  # fmt: skip
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    from experiments.halves import halves
    from experiments.ladder import run as ladder_run
    from experiments.plot import draw
    from experiments.prompts import load_prompts
    from experiments.runner import measure
    from experiments.setting import Setting
    from experiments.store import Store

    set_threads(args.threads)
    experiment = TunedDrafts(args.out, *asked(args))
    temperatures = len(ladder_run.TEMPERATURES)
    setting = Setting(args.model, load_prompts(args.prompts), seeds=(1,),
                      most_gamma=ladder_run.MOST_GAMMA, texts_kept=temperatures)  # fmt: skip
    setting.check()
    halves(setting.prompts)
    for point in experiment.POINTS:
        if point["seed"] != UNTUNED:
            tune(experiment.folder_of(**point), point, args)
    out = REFERENCE if args.reference else args.out
    records, _ = measure(experiment, setting, Store(out))
    print("\n".join(table(records)))
    for path in draw("tuned", records, out):
        print(path)
    return 0


def asked(args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Formats and seeds. Raises ValueError naming the option."""
    from quant.formats import parse_format

    formats = tuple(dict.fromkeys(name for name in args.formats.split(",") if name))
    if not formats:
        raise ValueError("--formats names none; give some, as in --formats rtn3,rtn2")
    for name in formats:
        parse_format(name)
    seeds = tuple(dict.fromkeys(args.seeds.split(",")))
    if not all(seed.isdecimal() and int(seed) for seed in seeds):
        raise ValueError(f"--seeds {args.seeds!r} must be whole numbers above 0, as in 1,2,3")
    try:
        shlex.split(args.tuning)
    except ValueError as error:
        raise ValueError(f"--tuning {args.tuning!r}: {str(error).lower()}") from error
    return formats, tuple(map(int, seeds))


def tune(folder: Path, point: dict, args: argparse.Namespace) -> None:
    """`selfdraft tune` into `folder`, unless a finished draft lies there. A tuning that fails ends the command with its code."""
    from experiments.__main__ import run_command
    from micro.training_state import CheckpointFolder

    if (folder / "training.json").exists():
        return
    print(f"tuning {point['draft']}, seed {point['seed']}: {folder}", file=sys.stderr)
    words = ["--model", str(args.model), "--format", point["draft"], "--seed", str(point["seed"])]
    words += ["--out", str(folder), *shlex.split(args.tuning)]
    words += ["--resume"] if CheckpointFolder(folder / "run", {}).paths() else []
    if code := run_command("tune", "training.tune", words):
        raise SystemExit(code)


def rungs_of(records: list[dict]) -> dict[tuple[str, int], Rung]:
    """(format, seed) -> rates with intervals."""
    from experiments.ladder.rates import rung

    return {(r["point"]["draft"], r["point"]["seed"]): rung(r) for r in records}


def table(records: list[dict]) -> list[str]:
    """A line for each draft, then what the seeds of a format have in common, and the best of all."""
    rungs = rungs_of(records)
    lines = [f"{'draft':14}{'c':>6}  {'alpha, T = 1':22}{'T = 0.5':>8}{'T = 0':>7}  gamma  {'speed-up, T = 1':20}"
             f"{'T = 0.5':20}{'T = 0':20}with cache"]  # fmt: skip
    for (draft, seed), one in rungs.items():
        name = draft if seed == UNTUNED else f"{draft} seed {seed}"
        at = one.rates
        alpha = at[1.0].alpha
        lines.append(
            f"{name:14}{one.c['weights']:>6.3f}  {f'{alpha.value:.3f} [{alpha.low:.3f}, {alpha.high:.3f}]':22}"
            f"{at[0.5].alpha.value:>8.3f}{at[0.0].alpha.value:>7.3f}  {at[1.0].gamma:>5}  {str(at[1.0].speed_up):20}"
            f"{str(at[0.5].speed_up):20}{str(at[0.0].speed_up):20}{at[1.0].cached_speed_up:.2f}"
        )
    return [*lines, *_summary(rungs)]


def _summary(rungs: dict[tuple[str, int], Rung]) -> list[str]:
    from experiments.ladder.rates import winner

    lines = []
    for draft in dict.fromkeys(draft for draft, _ in rungs):
        tuned = [one for (name, seed), one in rungs.items() if name == draft and seed != UNTUNED]
        if tuned:
            alphas = [one.rates[1.0].alpha.value for one in tuned]
            aim = f", aimed at {AIMS[draft]:.2f}" if draft in AIMS else ""
            lines.append(
                f"{draft} tuned, {len(tuned)} seeds: alpha at T = 1 {sum(alphas) / len(alphas):.3f}, from {min(alphas):.3f} to "
                f"{max(alphas):.3f}{aim}"
            )
    best = winner(list(rungs.values()))
    name, seed = next(key for key, one in rungs.items() if one is best)
    which = name if seed == UNTUNED else f"{name} tuned with seed {seed}"
    return [
        *lines,
        f"Best, chosen on the choosing prompts: {which}, speed-up {best.rates[1.0].speed_up} at T = 1.",
    ]
