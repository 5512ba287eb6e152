"""Copying: what followed the last time the text stood where it stands now. No model, no table, no bytes.

The longest run of tokens, n at most and m at least, that ends the text and stands somewhere before is looked for, and what
follows it there is proposed, as point masses. Where the run reaches into what is being copied the copy goes on from itself,
as in LZ77: after abab comes ababab... Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding);
copying spans from a reference: Yang et al. 2023 (arXiv 2304.04487).

With k > 1 the k best runs that are continued differently become a tree that shares what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from micro.chance import Chance
from micro.sampling import Sampling
from specdec.drafts.spec import Spec
from specdec.drafts.table import TextDraft
from specdec.model import Model
from specdec.proposal import Proposal

# On micro's own text m = 1 emits 6% more tokens a pass than m = 2 and drafts 60% more of them; n matters little beyond 4, and the
# latest of equally long matches is better than the first at temperature 0, no worse at 1 (experiments/LOG.md, 2026-11-30)
DEFAULTS = {"n": 8, "m": 1, "k": 1}


def matches(text: Sequence[int], longest: int, shortest: int) -> Iterator[int]:
    """Places p such that what ends at p also ends the text, by at least `shortest` tokens: those with most agreeing first (of
    which no more than `longest` count), then the latest first."""
    lengths = {}
    for place in range(len(text) - 1, shortest - 1, -1):
        length = 0
        while length < min(longest, place) and text[place - 1 - length] == text[-1 - length]:
            length += 1
        if length >= shortest:
            lengths[place] = length
    return iter(sorted(lengths, key=lambda place: -lengths[place]))  # stable: the latest stay first


def copied(text: Sequence[int], place: int, count: int) -> tuple[int, ...]:
    """`count` tokens from `place` on, going on with the copy itself where the text ends."""
    period = len(text) - place
    return tuple(text[place + i % period] for i in range(count))


def merged(runs: Sequence[tuple[int, ...]], budget: int) -> tuple[list[int], list[int]]:
    """Tokens and parents of the tree of `runs`, at most `budget` nodes: all runs equally deep, as far as it reaches.

    The first run is laid out first, so it lies contiguous in the target's pass.
    """
    depth = max(map(len, runs), default=0)
    prefixes = dict.fromkeys(run[:d] for d in range(1, depth + 1) for run in runs)
    chosen = set(list(prefixes)[:budget])
    places: dict[tuple[int, ...], int] = {(): -1}
    tokens, parents = [], []
    for run in runs:
        for d in range(1, depth + 1):
            if run[:d] in chosen and run[:d] not in places:
                places[run[:d]] = len(tokens)
                tokens.append(run[d - 1])
                parents.append(places[run[: d - 1]])
    return tokens, parents


class LookupDraft(TextDraft):
    """Point masses copied from the text so far: nothing where no run of `shortest` tokens stands in it twice.

    continuations: how many different ones are proposed at once; 1 makes a chain.
    """

    def __init__(self, longest: int = 8, shortest: int = 1, continuations: int = 1) -> None:
        self.longest, self.shortest, self.continuations = longest, shortest, continuations

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        runs: dict[tuple[int, ...], None] = {}
        for place in matches(self.text, self.longest, self.shortest):
            runs[copied(self.text, place, gamma)] = None
            if len(runs) == self.continuations:
                break
        tokens, parents = merged(list(runs), gamma)
        return Proposal(tuple(tokens), tuple(parents), (None,) * len(tokens))


def lookup_draft(target: Model, spec: Spec, make: Callable) -> LookupDraft:
    """Copies of what followed the longest earlier match (`lookup`, `lookup:n=8,m=2`), or a tree of k of them (`lookup:k=3`).

    n, m: the most and the fewest tokens of a match. Raises ValueError on another option, a value below 1, m above n, or a format.
    """
    spec.refuse_format()
    options = spec.options(DEFAULTS)
    n, m, k = options["n"], options["m"], options["k"]
    if m > n:
        raise ValueError(
            f"draft {spec.text!r}: the fewest tokens m={m} are more than the most, n={n}"
        )
    return LookupDraft(n, m, k)
