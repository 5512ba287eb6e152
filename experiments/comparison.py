"""One prompt decoded twice at temperature 0, plainly and with a draft, compared bit for bit.

Three things are compared: the tokens; the row of target logits that decided each of them; and at the end the keys and
values both caches hold. A fork is the first token that differs: behind it the two texts have different pasts, so nothing
further is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest

from torch import Tensor

from micro.cache import KVCache
from micro.chance import SeededChance
from micro.generate import stream
from micro.lanes import differing
from micro.model import Transformer
from micro.sampling import Sampling
from specdec.decode import Decoding
from specdec.record import Round

GREEDY = Sampling(0)


@dataclass(frozen=True)
class Plain:
    """Plain decoding of a prompt: N new tokens, the logits (V,) each came from, the cache at the end."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logits: tuple[Tensor, ...]
    cache: KVCache


@dataclass(frozen=True)
class Fork:
    """Where two texts part: place of the new token from 0, both tokens (None: that text had ended), and the distance of
    plain decoding's two largest logits there."""

    place: int
    plain: int | None
    speculative: int | None
    margin: float | None


@dataclass(frozen=True)
class Counts:
    """How much was compared, and how much of it differed. Cache entries are single numbers."""

    texts: int = 0
    texts_differing: int = 0
    tokens: int = 0
    rows: int = 0
    rows_differing: int = 0
    entries: int = 0
    entries_differing: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def identical(self) -> bool:
        return not (self.texts_differing or self.rows_differing or self.entries_differing)


def plain_text(model: Transformer, prompt: Sequence[int], new_tokens: int, lanes: int) -> Plain:
    """The reference. Raises ValueError as micro.generate.stream."""
    steps = list(stream(model, prompt, new_tokens, GREEDY, SeededChance(0), lanes))
    tokens, logits, caches = zip(*steps)
    return Plain(tuple(prompt), tokens, logits, caches[-1])


def compare(plain: Plain, decoding: Iterable[tuple[Round, Decoding]]) -> tuple[Counts, Fork | None]:
    """Follow a speculative decoding (specdec.decode.rounds) of the same prompt beside the plain one."""
    place = rows_differing = 0
    fork, state = None, None
    reference = zip(plain.tokens, plain.logits)
    for expected, step in zip_longest(reference, _steps(decoding)):
        found, state = (step[0], step[2]) if step else (None, state)
        if expected and step:
            rows_differing += differing(expected[1], step[1]) > 0
        if expected is None or expected[0] != found:
            fork = _fork(place, expected, found)
            break
        place += 1
    # after a fork only what stands before it has the same past
    same_past = len(plain.prompt) + place
    entries, entries_differing = _caches(plain.cache, state.cache, same_past)
    rows = place + (fork is not None and None not in (fork.plain, fork.speculative))
    counts = Counts(
        1, int(fork is not None), place, rows, rows_differing, entries, entries_differing
    )
    return counts, fork


def _steps(decoding) -> Iterator[tuple[int, Tensor, Decoding]]:
    """(token, the target's logits row that decided it, the state) of each emitted token."""
    for done, state in decoding:
        deciding = [0, *(node + 1 for node in done.kept)]  # the row behind each token's parent
        for row, token in zip(deciding, done.emitted):
            yield token, state.last_logits[row], state


def _fork(place: int, expected: tuple[int, Tensor] | None, found: int | None) -> Fork:
    if expected is None:
        return Fork(place, None, found, None)
    first, second = expected[1].topk(2).values.tolist()
    return Fork(place, expected[0], found, first - second)


def _caches(a: KVCache, b: KVCache, most: int) -> tuple[int, int]:
    """(numbers compared, numbers that differ) of keys and values over the length both hold, `most` slots at most."""
    length = min(a.length, b.length, most)
    pairs = [(t[:, :, :, :length], u[:, :, :, :length]) for t, u in _tensors(a, b)]
    return sum(t.numel() for t, _ in pairs), sum(differing(t, u) for t, u in pairs)


def _tensors(a: KVCache, b: KVCache):
    return (a.keys, b.keys), (a.values, b.values)
