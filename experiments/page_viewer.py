"""The round viewer: recorded runs as a list of steps, each with all that the page shows at it, as strings.

A round's steps: draft (one a token), verify (the target's one pass), compare (one a judged token), append. The page's script
steps through the list; it counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.page_parts import legend, text
from experiments.page_text import byte, pieces, token_piece
from experiments.rounds_text import check_text, title, totals

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
        "rounds": [[_cell(cell, record) for cell in _row(one)] for one in result["rounds"]],
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


def _cell(cell: dict, record: dict) -> dict:
    """A token with what hovering it shows: facts, then bars of the law that stood behind it."""
    own = "q" not in cell
    facts = [["p, of the target", prob(cell["p"])]]
    if not own:  # in the order in which they become known
        facts = [
            ["q, of the draft", prob(cell["q"])],
            *facts,
            ["min(1, p / q)", prob(cell["accept"])],
            ["coin", _coin(cell, record)],
        ]
    law, bars = ("target", "what the target would draw") if own else ("residual", "residual, drawn from after a refusal")  # fmt: skip
    return {
        "token": byte(cell["token"]),
        "facts": facts,
        "bars": [bars, [[byte(t), f"{share:.1%}", prob(share)] for t, share in cell[law]]],
    }


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


def viewer_html(records: list[dict]) -> str:
    """The viewer's frame, for the script to fill."""
    options = "\n".join(
        f'<option value="{i}">{text(title(record))}</option>' for i, record in enumerate(records)
    )
    panel = "\n".join(
        f'<div><dt>{text(name)}</dt><dd id="panel-{i}"></dd></div>' for i, name in enumerate(PANEL)
    )
    buttons = "\n".join(
        f'<button type="button" id="{name}" title="{text(hint)}">{words}</button>'
        for name, words, hint in BUTTONS
    )
    return f"""<div id="viewer" role="group" aria-label="round viewer" tabindex="-1">
<div class="control"><label for="run">run</label> <select id="run">
{options}
</select></div>
<div class="buttons" role="toolbar" aria-label="steps">
{buttons}
</div>
<p class="hint">Keys: ← → one step, Shift + ← → one round, space plays.</p>
<ol class="phases" aria-hidden="true">{PHASES}</ol>
<p id="viewer-where" class="where"></p>
<div id="round" class="round" role="group" aria-label="tokens of this round"></div>
<p id="viewer-said" class="said" role="status"></p>
<div class="columns">
<div class="inspector"><h3 id="inspected"></h3><dl id="facts"></dl>
<p id="bars-title"></p><ul id="bars" class="bars"></ul></div>
<div class="costs"><h3>What it cost</h3><dl class="readouts">
{panel}
</dl>
<div class="times" aria-hidden="true"><span>speculative</span><div class="time"><i id="time-0"></i></div>
<span>plain</span><div class="time plain"><i id="time-1"></i></div></div></div>
</div>
<h3 id="text-title">The text so far</h3>
<pre id="text" class="text" role="group" aria-labelledby="text-title" tabindex="0"></pre>
<p id="check" class="check" role="status"></p>
</div>
{legend()}"""


BUTTONS = (
    ("first", "start", "to the start"),
    ("back-round", "« round", "one round back (Shift + ←)"),
    ("back", "‹ step", "one step back (←)"),
    ("play", "▶ play", "play or pause (space)"),
    ("next", "step ›", "one step on (→)"),
    ("next-round", "round »", "one round on (Shift + →)"),
    ("last", "end", "to the end"),
)
PHASES = "".join(
    f'<li id="phase-{name}">{name}</li>' for name in ("draft", "verify", "compare", "append")
)
