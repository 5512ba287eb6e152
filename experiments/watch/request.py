"""What a person asks to be continued: a model, a prompt, a draft and limits, checked before anything is written.

Shared by the commands that decode one text. Prompts are bytes: from the command line as the shell passed them, from a file
as it lies on disk, its last newline included.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.options import (
    add_draft_stop,
    add_lanes,
    add_model,
    add_rule,
    add_sampling,
    add_threads,
    check_rule,
    draft_stop,
    set_threads,
    whole,
)
from micro.files import FileFault, read_bytes

if TYPE_CHECKING:  # these import torch, which --help need not wait for
    from micro.model import Transformer
    from micro.sampling import Sampling
    from specdec.drafts.base import Draft

BYTES = 256  # the vocabulary of a byte-level model


def add_request(
    parser: argparse.ArgumentParser, draft: str, new_tokens: int, t: float, rule: str = "token"
) -> None:
    """The options every command of this kind has; the prompt itself is the command's own."""
    parser.add_argument("--prompt-file", type=Path, metavar="FILE",
                        help="read the prompt's bytes from a file, exactly")  # fmt: skip
    parser.add_argument("--draft", default=draft, metavar="DRAFT",
                        help="what drafts: the model's own copy by its format, as in rtn3, or any other of `selfdraft list`, as in "
                        "ngram:5 (default: %(default)s)")  # fmt: skip
    parser.add_argument("--gamma", type=whole(1), default=4, metavar="N",
                        help="tokens drafted a round (default: 4)")  # fmt: skip
    parser.add_argument("--max-new-tokens", type=whole(1), default=new_tokens, metavar="N",
                        help="stop after so many; the context is another limit (default: %(default)s)")  # fmt: skip
    parser.add_argument("--stop", action="append", default=[], metavar="STR",
                        help="end behind this string; may be given more than once")  # fmt: skip
    add_rule(parser, rule)
    add_draft_stop(parser)
    add_sampling(parser, t)
    add_lanes(parser)
    add_model(parser)
    add_threads(parser)


@dataclass(frozen=True)
class Request:
    """A checked request. `draft` None asks for plain decoding."""

    model: Transformer
    prompt: list[int]
    draft: Draft | None
    sampling: Sampling
    gamma: int
    max_new_tokens: int
    stop: tuple[bytes, ...]
    lanes: int
    rule: str
    seed: int

    def chance(self):
        """The chance of this text, from its start: the same for plain decoding."""
        from specdec.accept import chance_for

        return chance_for(self.rule, self.seed, "prompt")

    @property
    def comparable(self) -> bool:
        """Whether the text must be that of plain decoding, token by token, and not only in distribution."""
        return self.sampling.temperature == 0 or self.rule == "coupled"

    def rounds(self):
        """specdec.decode.rounds of this request."""
        from specdec.decode import rounds

        return rounds(
            self.model,
            self.draft,
            self.prompt,
            max_new_tokens=self.max_new_tokens,
            gamma=self.gamma,
            sampling=self.sampling,
            chance=self.chance(),
            stop=self.stop,
            lanes=self.lanes,
            rule=self.rule,
        )

    def plain(self):
        """The tokens of plain decoding, one by one, up to and with the first stop."""
        from micro.generate import stream

        text = bytearray()
        options = (self.max_new_tokens, self.sampling, self.chance(), self.lanes)
        for token, _, _ in stream(self.model, self.prompt, *options):
            text.append(token)
            yield token
            if text.endswith(self.stop):
                return


def open_request(args: argparse.Namespace) -> Request:
    """Load and check. Raises ValueError or FileFault in one line that says what would be right."""
    prompt = read_prompt(args.prompt, args.prompt_file)
    stop = tuple(os.fsencode(text) for text in args.stop)
    if not all(stop):
        raise ValueError("--stop is empty; give the string that ends the text")
    set_threads(args.threads)
    from micro.generate import check_request
    from micro.sampling import Sampling
    from specdec.drafts import make_draft

    rule, ends = check_rule(args.rule), draft_stop(args.draft_stop)
    model = open_model(args.model)
    check_request(prompt, args.max_new_tokens, model.context, model.vocab)
    check_gamma(args.gamma, args.lanes, model.context)
    return Request(
        model,
        prompt,
        None if args.draft == "none" else make_draft(model, args.draft, ends),
        Sampling(args.temperature, args.top_k, args.top_p),
        args.gamma,
        args.max_new_tokens,
        stop,
        args.lanes,
        rule,
        args.seed,
    )


def read_prompt(text: str | None, file: Path | None) -> list[int]:
    """The prompt's bytes from one of two places. Raises ValueError, FileFault where it is missing or empty."""
    if (text is None) == (file is None):
        raise ValueError("give one prompt, as text or with --prompt-file")
    if text is not None:
        return list(os.fsencode(text))  # also bytes that are no UTF-8, as the shell passed them
    data = read_bytes(file)
    if not data:
        raise FileFault(f"{file} is empty; a prompt needs at least one byte")
    return list(data)


def open_model(folder: Path) -> Transformer:
    """A byte-level model. Raises FileFault where it is none: these commands read and write bytes."""
    from micro.checkpoint import load_model

    model = load_model(folder)
    if model.vocab > BYTES:
        raise FileFault(
            f"{folder} has {model.vocab} tokens; here text is bytes, at most {BYTES} tokens"
        )
    return model


def check_gamma(gamma: int, lanes: int, context: int) -> None:
    """Raises ValueError where a round of `gamma` drafted tokens fits neither the context nor the lanes."""
    if gamma >= context:
        raise ValueError(
            f"--gamma {gamma} is beyond the context of {context}; 1 to {context - 1} fit"
        )
    if lanes and gamma + 1 > lanes:
        raise ValueError(
            f"--gamma {gamma} needs {gamma + 1} lanes and there are {lanes}; "
            f"give --lanes {gamma + 1} or above, or --lanes off"
        )
