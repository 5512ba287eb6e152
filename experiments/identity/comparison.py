"""One prompt decoded twice, plainly and with a draft, compared bit for bit: at temperature 0, or at any under coupled noise.

Three things are compared: the tokens; the row of target logits that decided each of them; and at the end the keys and
values both caches hold. A fork is the first token that differs: behind it the two texts have different pasts, so nothing
further is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite
from typing import NamedTuple

from torch import Tensor

from experiments.identity.counts import Counts
from micro.cache import KVCache
from micro.chance import Chance, SeededChance
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


class Compared(NamedTuple):
    """Counts, the fork where there is one, and the largest distance between two logits in each row that differs."""

    counts: Counts
    fork: Fork | None
    gaps: list[float]


def plain_text(
    model: Transformer,
    prompt: Sequence[int],
    new_tokens: int,
    lanes: int,
    sampling: Sampling = GREEDY,
    chance: Chance | None = None,
) -> Plain:
    """The reference. chance: needed above temperature 0. Raises ValueError as micro.generate.stream."""
    steps = list(stream(model, prompt, new_tokens, sampling, chance or SeededChance(0), lanes))
    tokens, logits, caches = zip(*steps)
    return Plain(tuple(prompt), tokens, logits, caches[-1])


def compare(plain: Plain, decoding: Iterable[tuple[Round, Decoding]]) -> Compared:
    """Follow a speculative decoding (specdec.decode.rounds) of the same prompt beside the plain one."""
    place = rows = rows_differing = rows_dead = 0
    fork, state, gaps = None, None, []
    reference = zip(plain.tokens, plain.logits)
    for expected, step in zip_longest(reference, _steps(decoding)):
        found, state = (step[0], step[2]) if step else (None, state)
        if expected and step:
            rows += 1
            rows_dead += bool((expected[1] == expected[1][0]).all())
            if unequal(expected[1], step[1]):
                rows_differing += 1
                gaps.append(float((expected[1].double() - step[1].double()).abs().max()))
        if expected is None or expected[0] != found:
            fork = _fork(place, expected, found)
            break
        place += 1
    # after a fork only what stands before it has the same past
    same_past = len(plain.prompt) + place
    entries, entries_differing, vectors_dead = _caches(plain.cache, state.cache, same_past)
    counts = Counts(
        texts=1,
        texts_differing=int(fork is not None),
        texts_dead=int(_frozen(plain.logits)),
        tokens=place,
        rows=rows,
        rows_differing=rows_differing,
        rows_dead=rows_dead,
        entries=entries,
        entries_differing=entries_differing,
        vectors_dead=vectors_dead,
    )
    return Compared(counts, fork, gaps)


def unequal(a: Tensor, b: Tensor) -> int:
    """How many numbers differ in any bit, or are not finite on either side."""
    strange = ~(a.isfinite() & b.isfinite())
    if not strange.any():
        return differing(a, b)
    return int(strange.sum()) + differing(a.masked_fill(strange, 0), b.masked_fill(strange, 0))


def margin(logits: Tensor) -> float | None:
    """Distance of the two largest logits (V,), None where one is not finite."""
    first, second = logits.double().topk(2).values.tolist()
    return first - second if isfinite(first - second) else None


def _steps(decoding) -> Iterator[tuple[int, Tensor, Decoding]]:
    """(token, the target's logits row that decided it, the state) of each emitted token."""
    for done, state in decoding:
        deciding = [0, *(node + 1 for node in done.kept)]  # the row behind each token's parent
        for row, token in zip(deciding, done.emitted):
            yield token, state.last_logits[row], state


def _fork(place: int, expected: tuple[int, Tensor] | None, found: int | None) -> Fork:
    if expected is None:
        return Fork(place, None, found, None)
    return Fork(place, expected[0], found, margin(expected[1]))


def _frozen(rows: Sequence[Tensor]) -> bool:
    """Whether two rows or more are all the same: an engine that does not look at its text."""
    return len(rows) > 1 and not any(differing(rows[0], row) for row in rows[1:])


def _caches(a: KVCache, b: KVCache, most: int) -> tuple[int, int, int]:
    """(numbers compared, numbers that differ, vectors of zeros in `a`) of keys and values over the length both hold, `most`
    slots at most."""
    length = min(a.length, b.length, most)
    pairs = [(t[:, :, :, :length], u[:, :, :, :length]) for t, u in _tensors(a, b)]
    zeros = [(t == 0).all(dim=4).all(dim=2) for t, _ in pairs]  # (layers, 1, length)
    return (
        sum(t.numel() for t, _ in pairs),
        sum(unequal(t, u) for t, u in pairs),
        sum(int(z.sum()) for z in zeros),
    )


def _tensors(a: KVCache, b: KVCache):
    return (a.keys, b.keys), (a.values, b.values)
