"""The round viewer: recorded runs as a list of steps, each with all that the page shows at it, as strings.

A round's steps: draft (one a token), verify (the target's one pass), compare (one a judged token), append. The page's script
steps through the list; it counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.page.text import byte, pieces, token_piece
from experiments.watch.rounds_text import check_text, totals

# panel entries, in their order
PANEL = (
    "target passes",
    "draft passes",
    "drafted",
    "accepted",
    "rejected",
    "thrown away",
    "tokens of text",
    "α, accepted / checked",
    "tokens per pass",
    "time, in target passes",
    "time of plain decoding",
    "speed-up so far",
)
# state of a token at a step -> (class, in words, how many of its facts are known by then)
STATES = {
    ".": ("hidden", "not yet drafted", 0),
    "d": ("drafted", "drafted", 1),
    "v": ("judging", "about to be judged", 3),
    "a": ("accepted", "accepted", 4),
    "r": ("rejected", "rejected", 4),
    "t": ("thrown", "thrown away", 4),
    "c": ("correction", "correction", 1),
    "b": ("bonus", "bonus", 1),
}
LETTER = {
    "accepted": "a",
    "rejected": "r",
    "thrown away": "t",
    "correction": "c",
    "bonus": "b",
}


def viewer_data(records: list[dict]) -> dict:
    """runs: one entry a record, in their order; states: what a letter in their steps means."""
    return {"runs": [_run(record) for record in records], "states": STATES}


def _run(record: dict) -> dict:
    result = record["result"]
    steps = _Steps(record).all()
    emitted = [
        [*token_piece(cell["token"]), _class(cell["fate"])]
        for one in result["rounds"]
        for cell in _kept(one)
    ]
    return {
        "prompt": pieces(result["prompt"]),
        "text": emitted,
        "rounds": [_cells(one, record) for one in result["rounds"]],
        "steps": steps,
        # where each round ends: what a step of a whole round goes to
        "ends": [i for i, step in enumerate(steps) if step["phase"] in ("start", "append")],
        "check": check_text(record),
        "differs": result["same_text"] is False,
    }


def _row(one: dict) -> list[dict]:
    """A round's drafted tokens and, behind them, the target's own."""
    return one["drafted"] + ([one["final"]] if one["final"] else [])


def _kept(one: dict) -> list[dict]:
    """Those of a round's tokens that reached the text."""
    return [cell for cell in _row(one) if cell["fate"] not in ("rejected", "thrown away")]


def _class(fate: str) -> str:
    return STATES[LETTER[fate]][0]


def _cells(one: dict, record: dict) -> list[dict]:
    """A round's tokens with what hovering each shows: facts in the order in which they become known, then a law as bars."""
    row = [_drafted(cell, record) for cell in one["drafted"]]
    return row + ([_final(one, record)] if one["final"] else [])


def _drafted(cell: dict, record: dict) -> dict:
    facts = [
        ["q, of the draft", prob(cell["q"])],
        ["p, of the target", prob(cell["p"])],
        ["min(1, p / q)", prob(cell["accept"])],
        ["coin", _coin(cell, record)],
    ]
    return _shown(cell, facts, "residual, drawn from after a refusal", cell["residual"])


def _final(one: dict, record: dict) -> dict:
    """The target's own token: under the token rule a correction was drawn from the residual of the token that was rejected."""
    cell, facts = one["final"], [["p, of the target", prob(one["final"]["p"])]]
    refused = [c for c in one["drafted"] if c["fate"] == "rejected"]
    if refused and record["point"]["rule"] == "token":
        return _shown(cell, facts, "the residual it was drawn from", refused[0]["residual"])
    return _shown(cell, facts, "the target's law", cell["target"])


def _shown(cell: dict, facts: list[list[str]], title: str, law: list[list]) -> dict:
    bars = [[byte(token), f"{share:.1%}", prob(share)] for token, share in law]
    return {"token": byte(cell["token"]), "facts": facts, "bars": [title, bars]}


def _coin(cell: dict, record: dict) -> str:
    if cell["coin"] is not None:
        return prob(cell["coin"])
    return "none: never judged" if record["point"]["rule"] == "token" else "none: this rule throws no coin"  # fmt: skip


def prob(value: float) -> str:
    """Three decimals, and never 0 or 1 where it is neither."""
    if 0 < value < 0.0005:
        return "< .001"
    return "> .999" if 0.9995 <= value < 1 else f"{value:.3f}"


@dataclass
class _Steps:
    """Walks a record once, counting as it goes."""

    record: dict
    steps: list[dict] = field(default_factory=list)
    target: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    thrown: int = 0
    emitted: int = 0

    def __post_init__(self) -> None:
        result = self.record["result"]
        self.c = result["c"]["weights"]
        done = totals(self.record)
        # one scale for both bars, at every step of the run
        self.scale = max(done.rounds + self.c * done.draft_passes, done.emitted)

    def all(self) -> list[dict]:
        rounds = self.record["result"]["rounds"]
        self.add(0, "start", "." * len(_row(rounds[0])), "The prompt. Nothing is drafted yet.")
        for number, one in enumerate(rounds):
            self.round(number, one)
        return self.steps

    def round(self, number: int, one: dict) -> None:
        row, n = _row(one), len(one["drafted"])
        states = ["."] * len(row)
        for i, cell in enumerate(one["drafted"]):
            states[i] = "d"
            self.drafted += 1
            self.drafts += one["draft_passes"] > i
            self.add(number, "draft", states, f"The draft proposes {byte(cell['token'])}, with q = {prob(cell['q'])}.", i)  # fmt: skip
        self.drafts += max(0, one["draft_passes"] - n)
        states[:n] = "v" * n
        self.target += 1
        places = n + 1
        self.add(number, "verify", states, f"One target pass reads all {n} and gives p at {places} places.", 0)  # fmt: skip
        for i, cell in enumerate(one["drafted"][: one["checked"]]):
            self.judge(number, states, i, cell)
        self.append(number, one, states)

    def judge(self, number: int, states: list[str], i: int, cell: dict) -> None:
        states[i] = LETTER[cell["fate"]]
        kept = cell["fate"] == "accepted"
        self.accepted += kept
        self.rejected += not kept
        self.add(number, "compare", states, _judgement(cell, self.record["point"]["rule"]), i)

    def append(self, number: int, one: dict, states: list[str]) -> None:
        behind = [i for i, cell in enumerate(one["drafted"]) if cell["fate"] == "thrown away"]
        for i in behind:
            states[i] = "t"
        self.thrown += len(behind)
        self.emitted += len(one["emitted"])
        if one["final"]:
            states[-1] = LETTER[one["final"]["fate"]]
        self.add(number, "append", states, _appended(one, len(behind)), len(states) - 1)

    def add(
        self, number: int, phase: str, states: list[str] | str, say: str, at: int | None = None
    ) -> None:
        """at: the place in the round's row of the token that this step is about."""
        spent = self.target + self.c * self.drafts
        of = len(self.record["result"]["rounds"])
        self.steps.append(
            {
                "round": number,
                "phase": phase,
                "where": "before the first round"
                if phase == "start"
                else f"round {number + 1} of {of}: {phase}",
                "states": "".join(states),
                "shown": self.emitted,
                "say": say,
                "at": at,
                "panel": self.panel(spent),
                "bars": [f"{100 * t / self.scale:.2f}%" for t in (spent, self.emitted)],
            }
        )

    def panel(self, spent: float) -> list[str]:
        """In the order of PANEL."""
        judged = self.accepted + self.rejected
        counts = (self.target, self.drafts, self.drafted, self.accepted, self.rejected, self.thrown, self.emitted)  # fmt: skip
        return [
            *map(str, counts),
            f"{self.accepted / judged:.3f}" if judged else "–",
            f"{self.emitted / self.target:.2f}" if self.emitted else "–",
            f"{spent:.2f}",
            f"{self.emitted}",
            f"{self.emitted / spent:.2f}" if self.emitted else "–",
        ]


def _judgement(cell: dict, rule: str) -> str:
    shown, kept = byte(cell["token"]), cell["fate"] == "accepted"
    if rule == "token" and cell["coin"] is not None:
        sign, end = ("<", "accepted") if kept else ("≥", "rejected")
        return (
            f"{shown}: coin {cell['coin']:.4f} {sign} min(1, p / q) = {cell['accept']:.4f}: {end}."
        )
    if rule in ("match", "coupled"):
        return f"{shown}: the target's own draw is {'the same: accepted' if kept else 'another: rejected'}."
    return f"{shown}: {'accepted' if kept else 'rejected'}."


def _appended(one: dict, thrown: int) -> str:
    n, final = len(one["emitted"]), one["final"]
    words = [f"{n} {'token joins' if n == 1 else 'tokens join'} the text"]
    if final:
        words.append(f"the last is the target's own {byte(final['token'])}, a {final['fate']}")
    if thrown:
        words.append(f"{thrown} thrown away")
    return "; ".join(words) + "."
