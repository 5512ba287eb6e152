"""Plain decoding beside speculation, bit for bit: in fixed lanes, and without, where texts fork.

A point is a number type, a count of threads, and a lane width with the draft lengths it has room for; width 0 is no lanes, every
pass as wide as it is. Each text is decoded plainly once and beside every draft length, at temperature 0. Counts are kept by draft
length; distances of logits, and of each row's two largest (the top-2 margin), by quarters of a power of ten.

The texts start all over the context, and the last ones run into its end.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property

import torch

from experiments.identity.comparison import GREEDY, compare, margin, plain_text
from experiments.identity.counts import Counts
from experiments.identity.remembering import RememberingDraft
from experiments.lanes.points import DRAFT, NAME, POINTS, VERSION  # noqa: F401 - an Experiment's
from experiments.options import set_threads
from experiments.prompts import Prompt
from experiments.setting import Setting
from micro.chance import SeededChance
from micro.lanes import probe
from micro.model import Transformer
from specdec.decode import rounds

TEXTS, NEW_TOKENS = 16, 128
SHORTEST = 16  # bytes of the first text's prompt


@dataclass
class LaneSetting(Setting):
    """`prompts` are the texts' own, from `starts`; `repeats`: turns of the timed jobs."""

    new_tokens: int = NEW_TOKENS
    repeats: int = 31

    @cached_property
    def greedy_draft(self) -> RememberingDraft:
        """In float32 for every target, and asked once about each text: its tokens are what is needed, not its time."""
        packed = self.draft(DRAFT)
        return RememberingDraft(packed.module, packed.bytes_per_pass)


def starts(prompts: list[Prompt], texts: int, new_tokens: int, context: int) -> list[Prompt]:
    """`texts` prompts whose lengths are spread over the context, and four that leave less than `new_tokens` of room.

    Each is the bytes of the file's prompts from a place of its own on, the file read round and round. Raises ValueError where
    `new_tokens` do not fit.
    """
    last = context - new_tokens
    if last < 1:
        raise ValueError(f"--tokens {new_tokens} do not fit a context of {context}; 1 to {context - 1} do")  # fmt: skip
    first = min(SHORTEST, last)
    lengths = [first + (last - first) * i // max(texts - 1, 1) for i in range(texts)]
    lengths += [context - room for room in (max(new_tokens // 2, 1), max(new_tokens // 8, 1), 4, 1)]
    return [
        _start(prompts, i * len(prompts) // len(lengths), max(length, 1))
        for i, length in enumerate(lengths)
    ]


def _start(prompts: list[Prompt], first: int, length: int) -> Prompt:
    text, place = b"", first
    while len(text) < length:
        text += prompts[place % len(prompts)].text
        place += 1
    return Prompt(f"{prompts[first].id}, {length} bytes", prompts[first].kind, text[:length])


def identity(point: dict, setting: LaneSetting) -> dict:
    """Everything the result depends on."""
    return setting.identity(version=VERSION, draft=DRAFT, new_tokens=setting.new_tokens, **point)


def run(point: dict, setting: LaneSetting) -> dict:
    """Counts by draft length, the forks, and how far logits and top-2 margins lie apart."""
    set_threads(point["threads"])
    target, draft = in_type(setting.model, point["dtype"]), setting.greedy_draft
    counts = {gamma: Counts() for gamma in point["gammas"]}
    forks, gaps, margins = [], Counter(), Counter()
    for number, prompt in enumerate(setting.prompts):
        setting.progress(_where(point, number, len(setting.prompts)))
        plain = plain_text(target, prompt.tokens, setting.new_tokens, point["lanes"])
        margins.update(quarter(margin(row)) for row in plain.logits)
        for gamma in point["gammas"]:
            decoding = rounds(
                target, draft, prompt.tokens, max_new_tokens=setting.new_tokens, gamma=gamma,
                sampling=GREEDY, chance=SeededChance(0), lanes=point["lanes"],
            )  # fmt: skip
            found = compare(plain, decoding)
            counts[gamma] += found.counts
            gaps.update(map(quarter, found.gaps))
            if found.fork:
                forks.append([gamma, number, found.fork.place, found.fork.margin])
    return {
        "lengths": [len(prompt.tokens) for prompt in setting.prompts],
        "unsafe": list(probe(target, point["lanes"])) if point["lanes"] else [],
        "counts": {str(gamma): asdict(one) for gamma, one in counts.items()},
        "forks": forks,
        "gaps": dict(gaps),
        "margins": dict(margins),
    }


def in_type(model: Transformer, dtype: str) -> Transformer:
    """A copy that computes in `dtype`: weights, rotary table, cache and logits. The table's angles come from float32."""
    return copy.deepcopy(model).to(getattr(torch, dtype))


def _where(point: dict, number: int, texts: int) -> str:
    lanes = f"{point['lanes']} lanes" if point["lanes"] else "no lanes"
    return f"{point['dtype']}, {point['threads']} threads, {lanes}, text {number + 1} of {texts}"


def quarter(x: float | None) -> str:
    """The quarter of a power of ten that x lies in, by its lower edge's exponent: 0.002 is in "-2.75". "zero", "none": no number."""
    if x is None or not math.isfinite(x):
        return "none"
    return f"{math.floor(4 * math.log10(x)) / 4:g}" if x > 0 else "zero"
