"""Time decoding against transformers, paired and interleaved, in one process.

One sequence, float32, the same weights, prompts and token counts. Every job takes its turn (A B C A B C ...), after warm-ups; a
ratio is the median of the turns' ratios with a 95% interval, times are medians with quartiles. Measured speed-ups are a clock's and
are shown as they are, below 1 too: they are no estimate of what a model that is bound by memory would gain.

What is compared: plain decoding, padded to lanes or not, with transformers' generate; speculation with its assisted generation;
our speculation with our own plain decoding; one target pass with and without lanes; the time of N and 2 N tokens; a draft
that is the target itself, which can gain nothing; the start of `selfdraft --help`.

--precision asks something else: how long replay, our loop and assisted generation would take to know the plate's whole grid to a
standard error of 0.01, each extrapolated from a text's measured seconds and spread.

Exit code 1: greedy speculative text differed from plain text. A missed target of speed is only reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from experiments.options import add_model, add_rule, add_threads, set_threads, whole
from experiments.paths import DATA

FULL = {"tokens": 128, "repeats": 15, "warmups": 2}
DRAFT, GAMMA, LANES = "rtn4", 4, 16
QUICK = {"tokens": 48, "repeats": 6, "warmups": 1}  # 6: the fewest pairs that have a 95% interval


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true",
                        help="fewer tokens and repeats: half a minute, wider intervals")  # fmt: skip
    parser.add_argument("--precision", action="store_true",
                        help="time to a standard error of 0.01 over the plate's grid, by replay and by decoding, instead")  # fmt: skip
    for name, what in (("tokens", "new tokens a text"), ("repeats", "turns that are timed"),
                       ("warmups", "turns before them that are not")):  # fmt: skip
        parser.add_argument(f"--{name}", type=whole(0 if name == "warmups" else 1), metavar="N",
                            help=f"{what} (default: {FULL[name]}; {QUICK[name]} with --quick)")  # fmt: skip
    parser.add_argument("--draft", default=DRAFT, metavar="FORMAT",
                        help="the copy that drafts (default: rtn4)")  # fmt: skip
    add_rule(parser)
    parser.add_argument("--gamma", type=whole(1), default=GAMMA, metavar="N",
                        help="tokens drafted a round (default: 4)")  # fmt: skip
    parser.add_argument("--lanes", type=whole(2, 256), default=LANES, metavar="N",
                        help="lane width; without lanes is always timed too (default: 16)")  # fmt: skip
    parser.add_argument("--prompts", type=Path, default=DATA / "prompts.jsonl", metavar="FILE",
                        help="the first prompt of each kind is used, in turn (default: the course's)")  # fmt: skip
    parser.add_argument("--json", action="store_true",
                        help="write the whole result as one JSON object, on the last line")  # fmt: skip
    add_model(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    if args.precision:
        refuse_others(args)
    for name, value in (QUICK if args.quick else FULL).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    set_threads(args.threads)

    def say(text: str) -> None:
        print(f"bench: {text}", file=sys.stderr, flush=True)

    if args.precision:
        return _precision(args, say)
    from experiments.bench.card import card
    from experiments.bench.jobs import measure_all

    result = measure_all(args, say)
    print("\n".join(card(result)))
    if args.json:
        print(json.dumps(result, allow_nan=False))
    return 0 if result["identical"] else 1


def refuse_others(args: argparse.Namespace) -> None:
    """Raises ValueError at an option of the timed decoding, which --precision does not heed."""
    without = {
        "quick": False,
        "draft": DRAFT,
        "rule": "token",
        "gamma": GAMMA,
        "lanes": LANES,
    } | dict.fromkeys(FULL)
    for name, value in without.items():
        if getattr(args, name) != value:
            raise ValueError(
                f"--{name} does not go with --precision, which measures the plate's whole grid"
            )


def _precision(args: argparse.Namespace, say: Callable[[str], None]) -> int:
    from experiments.bench.precision import card, measure_precision

    result = measure_precision(args, say)
    print("\n".join(card(result)))
    if args.json:
        print(json.dumps(result, allow_nan=False))
    return 0
