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


# trained on people's text alone: their learning curves are losses in nats a byte, all others' are overlaps with micro
ALONE = ("trained/pico", "trained/nano", "trained/mini")


def _siblings() -> list[Entry]:
    """pico, nano, mini: as trained, distilled, and the latter in 4 bits."""
    made = []
    for plain in ALONE:
        size, distilled = plain.split("/")[1], f"{plain}-distilled"
        made += [
            Entry(size, "siblings", trained=plain),
            Entry(f"{size}+rtn4", "siblings", trained=plain),
            Entry(f"{size}:distilled", "siblings", trained=distilled),
            Entry(f"{size}:distilled+rtn4", "siblings", trained=distilled),
        ]
    return made


SHORT, LONG, ROWS = (1, 2, 3, 4), (4, 8, 12, 16), (8, 16, 24)

ENTRIES: tuple[Entry, ...] = (
    *(Entry(s, "low bits") for s in ("rtn4", "rtn3", "rtn2")),
    *(Entry(f"{s}+tuned", "low bits", trained=f"tuned/{s}") for s in ("rtn3", "rtn2", "mse2-fp8")),
    *(Entry(s, "counting", (1, 2, *LONG)) for s in ("ngram:1", "ngram:2", "ngram:3", "ngram:5")),
    Entry("lookup", "copying", (2, *LONG)),
    Entry("lookup:k=3", "copying", LONG, tree=True),
    *_siblings(),
    *(Entry(s, "pruned") for s in ("prune:0.5", "prune:0.5,wanda", "prune:2:4", "prune:2:4,wanda")),
    *(Entry(f"prune:{s}", "pruned") for s in ("heads=2", "neurons=0.5", "layers=1")),
    *(Entry(f"prune:{s}", "pruned") for s in ("0.5+rtn4", "0.5,wanda+rtn4", "2:4+rtn4")),
    *(Entry(s, "layers") for s in _subsets()),
    *(Entry(f"{s}+rtn4", "layers") for s in _subsets() if s.count(",") == LAYERS - 2),
    *(Entry(f"exit:{n}", "layers", trained=f"trained/exit-{n}") for n in (1, 2, 3)),
    Entry("medusa:4", "heads", SHORT, trained="trained/medusa"),
    Entry("medusa:4,tree", "heads", LONG, tree=True, trained="trained/medusa"),
    Entry("eagle", "heads", CHAINS, trained="trained/eagle"),
    Entry("eagle+rtn4", "heads", CHAINS, trained="trained/eagle"),
    Entry("eagle:tree", "heads", LONG, tree=True, trained="trained/eagle"),
    Entry("jacobi", "no draft", (2, 4, 8)),
    Entry("lookahead", "no draft", ROWS, tree=True),
    Entry("tree:points,3x2x1x1:rtn3", "trees", (17,), tree=True),
    Entry("tree:without,2x2x1x1:rtn3", "trees", (14,), tree=True),
    Entry("tree:with,2x2x1x1:rtn3", "trees", (14,), tree=True),
    *(Entry(f"tree:best,15:{s}", "trees", (15,), tree=True) for s in ("rtn3", "rtn2")),
    Entry("cascade:ngram:5@4>rtn3", "cascades", LONG),
    *(Entry(f"cascade:ngram:5@8>{s}+tuned", "cascades", LONG) for s in ("rtn3", "mse2-fp8")),
    Entry("cascade:ngram:5@4>nano:distilled+rtn4", "cascades", LONG),
    Entry("cascade:rtn3@1>rtn4", "cascades", LONG),
    *(Entry(f"shared:{s}", "shared cache", CHAINS) for s in ("rtn3", "rtn2")),
)
ZOO = {entry.spec: entry for entry in ENTRIES}
