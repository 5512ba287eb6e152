"""Show round by round what was accepted, rejected and thrown away, then what it cost.

Each round is a row of tokens, with the target's probability p and the draft's q of each under it. A mark before the token
says what became of it, so nothing is lost without colours:

    + accepted    x rejected    - thrown away    > correction    * bonus

Thrown away means drafted for nothing: it stood behind a rejection or behind the end of the text. A correction is the target's
token at a rejection, a bonus its token after a round that was accepted whole.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict

from experiments.drawing.palette import FATES, fate_entries, legend, paint
from experiments.watch.cells import Cell, cells
from experiments.watch.cost_panel import cost_panel, panel_lines
from experiments.watch.request import add_request, open_request
from experiments.watch.stream_text import StreamText, colours_wanted, show_byte, write_safely

CELL = 8  # columns of a token with its mark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", metavar="TEXT", help="the text to continue")
    add_request(parser, draft="rtn4", new_tokens=40, t=1.0)
    parser.add_argument("--json", action="store_true",
                        help="write the rounds (token ids) and the costs as one JSON object")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    if args.draft == "none":
        raise ValueError("--draft none has no rounds to show; give a format, as in rtn3")
    request = open_request(args)
    coloured = not args.json and colours_wanted(sys.stdout)
    rounds, tokens, ended = [], list(request.prompt), ""
    for done, state in request.rounds():
        rounds.append(done)
        ended = state.ended
        if not args.json:
            heading = f"round {len(rounds)}, behind {len(tokens)} tokens"
            _write([heading, *grid(cells(done), _width(), coloured), ""])
        tokens += done.emitted
    costs = cost_panel(request, args.draft, rounds)
    if args.json:
        print(json.dumps(_as_json(request, args, rounds, ended, costs), allow_nan=False))
        return 0
    _write([legend(fate_entries(), coloured), ""])
    text = StreamText()
    write_safely(sys.stdout, text.feed(tokens) + text.finish() + "\n\n")
    _write(panel_lines(costs, rounds, coloured))
    return 0


def grid(row: list[Cell], width: int, coloured: bool) -> list[str]:
    """Three lines (token, p, q) for as many cells as fit `width`, then three more."""
    a_line = max(1, (width - 4) // CELL)
    lines = []
    for start in range(0, len(row), a_line):
        part = row[start : start + a_line]
        lines.append("    " + "".join(_paint(cell, coloured) for cell in part).rstrip())
        for name in ("p", "q"):
            values = "".join(_probability(getattr(cell, name)) for cell in part)
            lines.append(f"  {name} {values}".rstrip())
    return lines


def _paint(cell: Cell, coloured: bool) -> str:
    fate = FATES[cell.fate]
    text = fate.mark + show_byte(cell.token)
    return paint(text, fate.colour, coloured) + " " * (CELL - len(text))


def _probability(value: float | None) -> str:
    return " " * CELL if value is None else f" {value:<{CELL - 1}.3f}"


def _width() -> int:
    return shutil.get_terminal_size().columns


def _write(lines: list[str]) -> None:
    """ASCII by construction, escapes included."""
    sys.stdout.write("\n".join(lines) + "\n")


def _as_json(request, args, rounds, ended: str, costs: dict) -> dict:
    return {
        "prompt_ids": request.prompt,
        "draft": args.draft,
        "draft_stop": args.draft_stop,
        "gamma": request.gamma,
        "temperature": request.sampling.temperature,
        "seed": request.seed,
        "rule": request.rule,
        "rounds": [{**asdict(r), "fates": [cell.fate for cell in cells(r)]} for r in rounds],
        "ended": ended,
        "costs": costs,
    }
