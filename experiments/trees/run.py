"""Trees beside chains: one draft at one temperature, every way to draw siblings, at budgets of 4, 8 and 16 rows.

Prompts are parted by plate as the ladder parts them. On the choosing half a(depth, rank) is measured and shapes are chosen: the best chain,
and for the best tree the way to draw and the shape that promise the largest speed-up by weight bytes. On the reporting half each is
replayed (specdec/tree_replay.py), all on the same texts. The three ways to draw are compared on one shape of even widths. Beside replay the
real loop on a few of those prompts, and greedy text of trees against plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.halves import halves
from experiments.trees.acceptance import DRAWS, RANKS, acceptance_along
from experiments.trees.loop import GREEDY_TOKENS, LOOP_PROMPTS, LOOP_WINDOW, beside_loop, forks

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting, Texts
    from specdec.trees import Planned, Shape

NAME = "trees"
VERSION = 1
DRAFTS = ("rtn3", "rtn2")
TEMPERATURES = (0.0, 0.5, 1.0)
# temperature outermost: texts are drawn once for each
POINTS = [{"draft": draft, "temperature": t} for t in TEMPERATURES for draft in DRAFTS]
WIDTHS = {4: (1, 2), 8: (1, 2, 2), 16: (3, 2, 1)}  # rows, the root's included -> even widths
LEVELS = 8  # to which acceptance is measured
LOOP_ROWS = 8  # the budget at which the loop runs beside
DIGITS = 6


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        widths=[[rows, *widths] for rows, widths in WIDTHS.items()],
        table=[RANKS, LEVELS, DRAWS],
        loop=[LOOP_ROWS, LOOP_PROMPTS, LOOP_WINDOW, GREEDY_TOKENS],
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """The table of acceptance, and for every budget each contender's shape and counts by reporting prompt."""
    from specdec.tree_replay import by_depth

    choosing, reporting = halves(setting.prompts)
    f, texts = along(point, setting)
    mine, others = (np.isin(texts.owner.numpy(), part).nonzero()[0] for part in (choosing, reporting))  # fmt: skip
    a = {how: by_depth(f[how], LEVELS, setting.window, mine) for how in f}
    c = setting.cost(point["draft"]).weights
    budgets = {}
    for rows in WIDTHS:
        found = contenders(rows, f, a, c, mine, setting.window)
        budgets[str(rows)] = {
            name: {"how": how, "shape": list(plan.shape), "promised": plan.tokens}
            | _counts(f[how], plan.shape, others, setting.window)
            for name, (how, plan) in found.items()
        }
    best = budgets[str(max(WIDTHS))]["best"]
    return {
        "acceptance": {
            how: [[_round(x) for x in row] for row in table] for how, table in a.items()
        },  # fmt: skip
        "budgets": budgets,
        "c": c,
        "prompts": [setting.prompts[i].id for i in reporting],
        "loop": {
            name: beside_loop(setting, point, one["how"], tuple(one["shape"]), reporting)
            for name, one in budgets[str(LOOP_ROWS)].items()
        },
        "forks": forks(setting, point, best["how"], tuple(best["shape"]), reporting)
        if point["temperature"] == 0
        else None,
    }


def along(point: dict, setting: Setting) -> tuple[dict[str, np.ndarray], Texts]:
    """how -> f (texts, positions, RANKS) of specdec/tree_replay.py, and the texts."""
    temperature, draft = point["temperature"], setting.draft(point["draft"])
    texts = setting.texts(temperature)
    setting.progress(f"scoring with {point['draft']} at T = {temperature:g}")
    return acceptance_along(draft.module, texts, texts.laws, temperature, setting), texts


def contenders(
    rows: int, f: dict, a: dict, c: float, choosing: np.ndarray, window: int
) -> dict[str, tuple[str, Planned]]:
    """name -> (how, shape with what it promises), at most `rows` rows each."""
    from specdec.trees import best_plan, planned, uniform

    chains = [uniform([1] * length) for length in range(1, rows)]
    chain = max(chains, key=lambda shape: speed(f["without"], shape, choosing, window, c))
    plans = {how: best_plan(a[how], rows, LEVELS, c) for how in a}
    best = max(plans, key=lambda how: speed(f[how], plans[how].shape, choosing, window, c))
    even = uniform(WIDTHS[rows])
    return {
        "chain": ("without", planned(chain, a["without"], c)),
        **{how: (how, planned(even, a[how], c)) for how in a},
        "best": (best, plans[best]),
    }


def speed(f: np.ndarray, shape: Shape, texts: np.ndarray, window: int, c: float) -> float:
    """Estimated speed-up of a shape over some texts."""
    from specdec.tree_replay import replay_tree
    from specdec.trees import depths

    rounds, accepted = replay_tree(f[texts], shape, window)
    return (1 + accepted.sum() / rounds.sum()) / (1 + c * max(depths(shape), default=0))


def _counts(f: np.ndarray, shape: Shape, texts: np.ndarray, window: int) -> dict:
    """Expected counts of each reporting prompt, and what a round of the shape costs."""
    from specdec.tree_replay import replay_tree
    from specdec.trees import depths

    rounds, accepted = replay_tree(f[texts], shape, window)
    return {
        "rounds": [_round(x) for x in rounds],
        "accepted": [_round(x) for x in accepted],
        "rows": len(shape) + 1,
        "levels": max(depths(shape), default=0),
    }


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
