"""Options that several commands share, and checks that name the option."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from experiments.paths import DATA, WEIGHTS


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A type for argparse: a whole number from `low` to `high`."""
    wanted = f"{low} or above" if high is None else f"{low} to {high}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{value} is out of range, it must be {wanted}")
        return value

    return parse


def real(low: float, high: float = math.inf, above: bool = False) -> Callable[[str], float]:
    """A type for argparse: a finite number from `low` (or above it) to `high`."""
    wanted = f"{'above' if above else 'at least'} {low:g}" + (
        "" if high == math.inf else f" and at most {high:g}"
    )

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if not (math.isfinite(value) and low <= value <= high) or (above and value == low):
            raise argparse.ArgumentTypeError(f"{text} is out of range, it must be {wanted}")
        return value

    return parse


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=Path,
        default=WEIGHTS,
        metavar="DIR",
        help="folder with config.json and model.safetensors (default: the micro that ships)",
    )


def add_prompts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=Path, default=DATA / "prompts.jsonl", metavar="FILE",
                        help="JSONL with id, kind and text (default: the course's)")  # fmt: skip


def add_window(parser: argparse.ArgumentParser, default: int = 64, least: int = 16) -> None:
    parser.add_argument("--window", type=whole(least, 256), default=default, metavar="N",
                        help="start positions counted behind each prompt (default: %(default)s)")  # fmt: skip


def add_every(parser: argparse.ArgumentParser, default: int) -> None:
    """For experiments on experiments/halves.py's thinned prompts."""
    parser.add_argument("--every", type=whole(1, 8), default=default, metavar="N",
                        help="use every N-th prompt of each plate: faster, wider intervals (default: %(default)s)")  # fmt: skip


def add_sampling(parser: argparse.ArgumentParser, temperature: float = 1.0) -> None:
    parser.add_argument("-T", "--temperature", type=real(0), default=temperature, metavar="T",
                        help="0 is greedy (default: %(default)s)")  # fmt: skip
    parser.add_argument("--top-k", type=whole(0), default=0, metavar="K",
                        help="keep the K likeliest tokens; 0 keeps all (default: 0)")  # fmt: skip
    parser.add_argument("--top-p", type=real(0, 1, above=True), default=1.0, metavar="P",
                        help="keep the likeliest tokens that make up P (default: 1, all)")  # fmt: skip
    parser.add_argument("--seed", type=whole(0), default=1, help="of all chance (default: 1)")


def add_rule(parser: argparse.ArgumentParser, default: str = "token") -> None:
    parser.add_argument("--rule", default=default, metavar="NAME",
                        help="acceptance rule: token, block, match, coupled (`selfdraft list`; default: %(default)s)")  # fmt: skip


def check_rule(name: str) -> str:
    """The rule's name. Raises ValueError where there is no such rule."""
    from specdec.accept import RULES

    if name not in RULES:
        raise ValueError(f"--rule {name!r} is unknown; there are {', '.join(RULES)}")
    return name


def add_draft_stop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draft-stop", metavar="KIND:X",
                        help="end a round's drafting behind a token that the draft was not sure of: prob:0.4 where it gave it "
                        "less than 0.4, entropy:2 where its law had more than 2 nats, overlap:... where more is not expected to pay, with the "
                        "numbers that `selfdraft run lengths` fits (default: draft gamma always)")  # fmt: skip


def draft_stop(text: str | None):
    """The confidence stop that --draft-stop asks for, None where it asks for none. Raises ValueError naming the option."""
    from specdec.drafts.confidence import parse_stop

    try:
        return None if text is None else parse_stop(text)
    except ValueError as error:
        raise ValueError(f"--draft-stop {error}") from None


def add_lanes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lanes",
        type=lanes,
        default=16,
        metavar="N|off",
        help="rows every target pass is padded to, so that plain and speculative text have the same bits "
        "(default: 16; at least gamma + 1)",
    )


def lanes(text: str) -> int:
    return 0 if text == "off" else whole(2, 256)(text)


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=whole(1, 256), default=None, metavar="N",
                        help="processor threads torch may use (default: torch's own choice)")  # fmt: skip


def set_threads(count: int | None) -> None:
    if count is not None:
        import torch

        torch.set_num_threads(count)
