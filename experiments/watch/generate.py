"""Continue a prompt, drafting at low precision, and stream the text.

The prompt and its continuation go to stdout as they come. One line on stderr closes: rounds, alpha (accepted /
checked), tokens per pass, and whether the text is that of plain decoding. At temperature 0, and at any with --rule coupled, plain
decoding is run too and the two are compared; otherwise the text is drawn from exactly the target's distribution, whatever the
draft.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import zip_longest

from experiments.watch.request import Request, add_request, open_request
from experiments.watch.stream_text import StreamText, write_safely


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the text to continue")
    # block never accepts less than token over a chain (experiments/LOG.md): at gamma 8 and above by several percent
    add_request(parser, draft="rtn4", new_tokens=120, t=1.0, rule="block")
    parser.add_argument("--json", action="store_true",
                        help="write one JSON object (token ids, text, counts) instead of streaming")  # fmt: skip
    parser.epilog = "--draft none decodes plainly, without a draft."


def run(args: argparse.Namespace) -> int:
    request = open_request(args)
    show = (lambda text: None) if args.json else (lambda text: write_safely(sys.stdout, text))
    decoder = StreamText()
    show(decoder.feed(request.prompt))
    tokens, rounds = [], []
    for emitted, done in _steps(request):
        tokens += emitted
        rounds += done
        show(decoder.feed(emitted))
    show(decoder.finish() + "\n")
    result = _result(args.draft, args.draft_stop, request, tokens, rounds)
    if args.json:
        print(json.dumps(result, allow_nan=False))
    else:
        print(_closing_line(result), file=sys.stderr)
    return 0


def _steps(request: Request):
    """(new tokens, the round behind them in a list), as they come."""
    if request.draft is None:
        yield from (([token], []) for token in request.plain())
    else:
        yield from ((done.emitted, [done]) for done, _ in request.rounds())


def _result(
    draft: str, stop: str | None, request: Request, tokens: list[int], rounds: list
) -> dict:
    """Everything about the finished text, for the closing line and for --json."""
    from specdec.record import Totals

    totals = Totals.of(rounds)
    result = {
        "prompt_ids": request.prompt,
        "tokens": tokens,
        "text": bytes(tokens).decode("utf-8", "replace"),
        "draft": draft,
        "temperature": request.sampling.temperature,
        "seed": request.seed,
    }
    if request.draft is None:
        return result
    result |= {
        "gamma": request.gamma,
        "rule": request.rule,
        "draft_stop": stop,
        "rounds": totals.rounds,
        "alpha": totals.alpha,
        "tokens_per_pass": totals.tokens_per_pass,
        "identical": None,
        "fork": None,
    }
    if request.comparable:
        plain = list(request.plain())
        forks = (i for i, (a, b) in enumerate(zip_longest(plain, tokens)) if a != b)
        result |= {"fork": next(forks, None), "identical": plain == tokens}
    return result


def _closing_line(result: dict) -> str:
    if result["draft"] == "none":
        return f"plain decoding: {len(result['tokens'])} tokens, one target pass each"
    line = (
        f"{result['draft']}, rule {result['rule']}, gamma {result['gamma']}, T {result['temperature']:g}: "
        f"{result['rounds']} rounds, alpha {_ratio(result['alpha'])}, "
        f"{_ratio(result['tokens_per_pass'])} tokens per pass; "
    )
    if result["identical"] is None:
        return line + "the text is drawn from exactly the target's distribution"
    if result["identical"]:
        return line + "identical to plain decoding: yes"
    return line + f"identical to plain decoding: no, from new token {result['fork'] + 1} on"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
