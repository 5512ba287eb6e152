"""A counting draft: the next byte by how often it followed the last n - 1, n - 2, ... bytes of a text that was counted before.

Orders are blended by Witten and Bell's rule (1991, IEEE Transactions on Information Theory 37; interpolated as in Chen and Goodman
1998, TR-10-98, section 2). With N the number of times a context h was counted, T how many different bytes followed it and
h' the same context without its oldest byte:

    p(x | h) = (count(h x) + T p(x | h')) / (N + T),    a context never seen: p(x | h')

down to the empty context, blended with 1 / V. A context that much may follow trusts its own counts less.

Stored is a tree of counts, level k holding the different k-grams in sorted order: the last byte of each, its count, and
where its children begin in level k + 1. A row, the children of one context, is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from micro.chance import Chance
from micro.sampling import Sampling
from micro.text import read_texts
from specdec.course import held_in
from specdec.drafts.spec import Spec
from specdec.drafts.table import TextDraft
from specdec.model import Model
from specdec.proposal import Proposal

DEFAULT = 5  # of orders 1 to 8 the one that predicts the course's validation plates best: 2.09 bits a byte
LONGEST = 8  # bytes of an n-gram: one 64-bit number while it is counted


class NGram:
    """Counts of the 1- to n-grams of `text`, and the law of the next token that follows from them.

    symbols[k], counts[k] (grams of k + 1,): the last byte and the count of each; starts[k]: where the children of each begin in
    symbols[k + 1], one more entry ending the last. Counts take as few bytes as the largest needs. Raises ValueError on an
    order outside 1 ... 8, or a text without tokens or with one beyond `vocab`, at most 256.
    """

    def __init__(self, text: bytes, order: int, vocab: int = 256) -> None:
        if not 1 <= order <= LONGEST:
            raise ValueError(f"an n-gram's order is 1 to {LONGEST}, not {order}")
        if not text or not max(text) < vocab <= 256:
            raise ValueError(f"a text of bytes below {vocab} is needed, to count them")
        self.order, self.vocab = order, vocab
        self.symbols: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self.starts: list[np.ndarray] = []
        self._count(np.frombuffer(text, dtype=np.uint8).astype(np.uint64))

    def _count(self, tokens: np.ndarray) -> None:
        grams, shorter = tokens, None  # gram i as one number, its oldest byte the highest
        for k in range(min(self.order, len(tokens))):
            if k:
                grams = (grams[:-1] << np.uint64(8)) | tokens[k:]
            known, counts = np.unique(grams, return_counts=True)
            self.symbols.append((known & np.uint64(255)).astype(np.uint8))
            self.counts.append(counts.astype(np.min_scalar_type(counts.max())))
            if k:
                ends = np.searchsorted(known >> np.uint64(8), shorter, side="right")
                self.starts.append(np.concatenate(([0], ends)).astype(np.uint32))
            shorter = known

    @property
    def bytes(self) -> int:
        """Of all that is stored."""
        return sum(a.nbytes for a in (*self.symbols, *self.counts, *self.starts))

    @property
    def numbers(self) -> int:
        """How many counts there are."""
        return sum(map(len, self.counts))

    @property
    def look_up_bytes(self) -> int:
        """The most that one law reads: of every level its longest row, and the way to it from the top.

        A step of a way reads where the next row begins and ends, 4 bytes each, and the symbols that a bisection looks at.
        """
        longest = [len(self.symbols[0]), *(int(np.diff(starts).max()) for starts in self.starts)]
        total = way = 0
        for row, counts in zip(longest, self.counts):
            total += way + row * (1 + counts.itemsize)
            way += 8 + row.bit_length()
        return total

    def row(self, context: Sequence[int]) -> tuple[int, int] | None:
        """Where in level len(context) the children of `context` lie; None where it was never followed by anything."""
        low, high = 0, len(self.symbols[0])
        for level, token in enumerate(context):
            place = low + int(np.searchsorted(self.symbols[level][low:high], token))
            if place == high or self.symbols[level][place] != token or level == len(self.starts):
                return None
            low, high = map(int, self.starts[level][place : place + 2])
        return (low, high) if high > low else None

    def law(self, text: Sequence[int]) -> np.ndarray:
        """(V,) float64 after `text`, of which the last n - 1 tokens count."""
        law = np.full(self.vocab, 1 / self.vocab)
        for length in range(min(self.order, len(text) + 1)):
            row = self.row(text[len(text) - length :])
            if row is None:  # and then no longer context was seen either
                break
            counts = self.counts[length][slice(*row)].astype(np.float64)
            total, kinds = counts.sum(), len(counts)
            law *= kinds / (total + kinds)
            law[self.symbols[length][slice(*row)]] += counts / (total + kinds)
        return law


class NGramDraft(TextDraft):
    """A chain drawn from the counts' law, warped as the target's. A pass is one look-up; the table lies beside the target."""

    def __init__(self, counted: NGram) -> None:
        self.counted = counted
        self.bytes_per_pass = counted.look_up_bytes
        self.extra_bytes, self.extra_parameters = counted.bytes, counted.numbers

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Raises ValueError where the target's tokens are not those that were counted."""
        if self.counted.vocab != target.vocab:
            raise ValueError(
                f"the draft counts {self.counted.vocab} tokens, the target has {target.vocab}"
            )
        super().start(prompt, target)

    def law(self, text: Sequence[int], sampling: Sampling) -> Tensor:
        """(V,) float64 after `text`, warped."""
        return sampling.probs(torch.from_numpy(np.log(self.counted.law(text))))

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        text, laws = list(self.text), []
        for _ in range(gamma):
            laws.append(self.law(text, sampling))
            text.append(chance.draw(laws[-1], len(text)))
        return Proposal.chain(text[len(self.text) :], laws, passes=gamma)


@lru_cache
def counted(order: int, path: str) -> NGram:
    """n-grams of the course's training plates, or of a file's or folder's text; once a process. Raises FileFault naming what is wrong."""
    text = read_texts([Path(path)], block=1).joined("train") if path else held_in()
    return NGram(text, order)


def ngram_draft(target: Model, spec: Spec, make: Callable) -> NGramDraft:
    """Counts of runs of 1 to 8 bytes (`ngram:5`), on the course's training plates or on another text (`ngram:5:PATH`).

    Alone, `ngram` has the order 5. Raises ValueError on another order or on a format behind it, FileFault as `counted`.
    """
    order, _, path = spec.rest.partition(":")
    if not path:
        spec.refuse_format()
    number = spec.number(order, "the order") if spec.rest else DEFAULT
    if number > LONGEST:
        raise ValueError(f"draft {spec.text!r}: the order is 1 to {LONGEST}, not {number}")
    return NGramDraft(counted(number, path))
