"""Replay a draft: what speculation would have done with every gamma at once, on text that the target wrote.

The text is drawn from the target alone, scored once by the draft, and the expected rounds follow without a coin (rounds that
start in the window count whole). Printed for every gamma: expected counts over all texts; tokens per pass with two standard
errors, that of text and coins given the prompts and that over prompts; alpha; M, the share of rounds accepted whole; how far
the formula is off, with the measured alpha and with the mean overlap beta. Then what is accepted by depth in the round and by
position in the text. Given fewer texts, tokens per pass are known best with the next token's luck taken out, which the two
distributions tell: at the best gamma that is printed too (not for block). It holds for a single chain whose draft reads the prefix alone; a confidence stop is measured in the loop.

tokens per pass = 1 + alpha (1 - M) / (1 - alpha) must hold in every row; exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import json
import sys

from experiments.options import (
    add_model,
    add_prompts,
    add_rule,
    add_threads,
    add_window,
    check_rule,
    real,
    set_threads,
    whole,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draft", default="rtn3", metavar="FORMAT",
                        help="the copy that drafts (default: %(default)s)")  # fmt: skip
    parser.add_argument("-T", "--temperature", type=real(0), default=1.0, metavar="T",
                        help="0 is greedy (default: 1)")  # fmt: skip
    add_rule(parser)
    parser.add_argument("--most-gamma", type=whole(1, 64), default=16, metavar="N",
                        help="gamma 1 to N (default: 16)")  # fmt: skip
    add_prompts(parser)
    parser.add_argument("--first", type=whole(1), metavar="N",
                        help="only the first N prompts (default: all)")  # fmt: skip
    add_window(parser)
    parser.add_argument("--seeds", type=whole(1, 100), default=3, metavar="N",
                        help="texts drawn from each prompt at T > 0 (default: 3)")  # fmt: skip
    parser.add_argument("--json", action="store_true",
                        help="write everything, curves for every gamma included, as one JSON object")  # fmt: skip
    add_model(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    set_threads(args.threads)
    rule = check_rule(args.rule)
    from experiments.estimate import replayed, scored
    from experiments.prompts import load_prompts
    from experiments.replay_table import identity_holds, lines, summary
    from experiments.setting import Setting

    setting = Setting(
        args.model,
        load_prompts(args.prompts)[: args.first],
        window=args.window,
        seeds=tuple(range(1, args.seeds + 1)),
        most_gamma=args.most_gamma,
        rule=rule,
        by_prompt=True,
        progress=lambda text: print(f"selfdraft replay: {text}", file=sys.stderr, flush=True),
    )
    setting.check()
    point = {"draft": args.draft, "temperature": args.temperature}
    setting.draft(args.draft)  # a wrong name is told before any text is drawn
    texts, q = scored(point, setting)
    result = summary(point, setting, texts, q, replayed(rule, texts, q, setting))
    print(json.dumps(result, allow_nan=False) if args.json else "\n".join(lines(result)))
    broken = [row["gamma"] for row in result["gammas"] if not identity_holds(row)]
    if broken:
        print(f"selfdraft replay: counts contradict each other at gamma {broken}", file=sys.stderr)
    return 1 if broken else 0
