"""Who is in the zoo: every way to draft, by group, with the budgets that one is chosen from.

A budget is gamma: tokens proposed a round, a tree's nodes, a window's rows. Where replay serves, every gamma up to the setting's is
tried and no budget stands here. One draft of a group with several stands for what the group can do; the layers' subsets are all here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

LAYERS = 4  # of micro
CHAINS = (2, 4, 8, 12)


@dataclass(frozen=True)
class Entry:
    """A draft of the zoo. budgets: for those that the real loop measures. tree: it proposes siblings, so that accepted / checked is
    no rate of its own. trained: the folder in specdec/drafts whose training.json tells what it took. exact False: its text is not
    the target's."""

    spec: str
    group: str
    budgets: tuple[int, ...] = CHAINS
    tree: bool = False
    trained: str = ""
    exact: bool = True


def _subsets() -> list[str]:
    """layers:0 ... layers:1,2,3: every subset of the layers but none and all."""
    sets = (kept for k in range(1, LAYERS) for kept in combinations(range(LAYERS), k))
    return ["layers:" + ",".join(map(str, kept)) for kept in sets]


# group -> what it is, in a few words
GROUPS = {
    "low bits": "micro's own copy at low precision",
    "counting": "counts of the training text",
    "copying": "what followed the same letters before",
    "siblings": "smaller models, trained alone or from micro",
    "pruned": "micro with weights, heads, neurons or layers taken out",
    "layers": "some of micro's layers",
    "heads": "heads on micro's last hidden state",
    "no draft": "the target's own answers to guesses",
    "trees": "several continuations at once",
    "cascades": "a draft that is drafted for",
    "shared cache": "a low-bit copy that reads micro's cache",
}

ENTRIES: tuple[Entry, ...] = (
    *(Entry(s, "low bits") for s in ("rtn4", "rtn3", "rtn2")),
    *(Entry(f"{s}+tuned", "low bits", trained=f"tuned/{s}") for s in ("rtn3", "rtn2")),
)
ZOO = {entry.spec: entry for entry in ENTRIES}
