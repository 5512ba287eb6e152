"""Lookahead decoding: Jacobi iterations run ahead of the text, and what they happen to say is kept as n-grams to be checked.

A window of w columns, each with the last n - 1 tokens of one trajectory, level 0 the oldest, rides along in the target's pass.
The answer to a column's last level ends an n-gram and becomes its last level in the next round, level 0 drops out. n-grams go into
a pool; those that begin with the text's last token are proposed as a tree of point masses, in the same pass. Fu et al. 2024
(arXiv 2402.02057), section 3. No pass is made and nothing read for it: all it costs is rows.

Level l of column j stands j + l places behind the root, which itself is level 0 of column 0. It sees the root, level 0 of the
columns 1 ... j, and what is below it in its own column: as many tokens as it has places. With w = 3 and n = 3:

                 root  a1  a2  b0  b1  b2
    a1  place 1    x    x
    a2        2    x    x   x
    b0        1    x            x
    b1        2    x    x           x
    b2        3    x    x   x           x

Two things are done otherwise than in the paper, which leaves them open or to chance. The window starts with every level as
`repeated` goes on with the prompt, where the authors' program draws tokens of the prompt and fills one level a round. And where a round's
budget is below what w, n and g ask for, rows go first to the candidate seen last, then to columns from the left, then to older
candidates; a column that was not fed stands still. As in that program the window moves by one column a round, however many tokens
were accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from micro.chance import Chance
from micro.sampling import Sampling, first_argmax
from specdec.drafts.base import Draft
from specdec.drafts.jacobi import repeated
from specdec.drafts.spec import Spec
from specdec.drafts.table import TextDraft
from specdec.model import Model
from specdec.proposal import Proposal, Step, Window

Ngram = tuple[int, ...]
DEFAULTS = {"w": 5, "n": 4, "g": 5}


class Pool:
    """n-grams by their first token, of each the `most` that were seen last."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._behind: dict[int, list[Ngram]] = {}  # seen last stands last

    def add(self, ngram: Ngram) -> None:
        behind, rest = self._behind.setdefault(ngram[0], []), ngram[1:]
        if rest in behind:
            behind.remove(rest)
        behind.append(rest)
        del behind[: -self.most]

    def behind(self, first: int) -> list[Ngram]:
        """What followed `first`, n - 1 tokens each, seen last stands first."""
        return self._behind.get(first, [])[::-1]


def tree_of(candidates: Sequence[Ngram], most: int) -> tuple[list[int], list[int]]:
    """Tokens and parents of at most `most` nodes: one candidate after the other, what they begin with in common once."""
    tokens, parents, places = [], [], {(): -1}
    for candidate in candidates:
        for end in range(1, len(candidate) + 1):
            path = candidate[:end]
            if path not in places and len(tokens) < most:
                places[path] = len(tokens)
                parents.append(places[path[:-1]])
                tokens.append(path[-1])
    return tokens, parents


def window_of(columns: Sequence[Ngram], nodes: int) -> Window:
    """The rows of C columns of L levels, level by level and without the root, behind `nodes` drafted tokens: C L - 1 of them."""
    C, L = len(columns), len(columns[0])
    rows = [(level, column) for level in range(L) for column in range(C)]
    place = {row: nodes + number for number, row in enumerate(rows)} | {(0, 0): 0}  # in the pass
    visible = torch.zeros(C * L - 1, nodes + C * L, dtype=torch.bool)
    for own, (level, column) in zip(visible, rows[1:]):
        seen = [(0, other) for other in range(column + 1)]
        seen += [(other, column) for other in range(1, level + 1)]
        own[[place[row] for row in seen]] = True
    tokens = tuple(columns[column][level] for level, column in rows[1:])
    return Window(tokens, tuple(level + column for level, column in rows[1:]), visible)


class LookaheadDraft(TextDraft):
    """Drafts for a target of `vocab` tokens with w columns, n-grams of n >= 2 and at most g candidates a round.

    The whole of it takes w (n - 1) - 1 rows and g (n - 1) nodes; below a gamma of n - 2 the pool stays empty. extra_bytes: of a full
    pool; none of it is learned. `columns`, of n - 1 tokens each, and `pool` may be read between rounds.
    """

    def __init__(self, w: int, n: int, g: int, vocab: int) -> None:
        self.w, self.n, self.g = w, n, g
        bytes_per_token = -(-(vocab - 1).bit_length() // 8)
        self.extra_bytes = vocab * g * (n - 1) * bytes_per_token

    def start(self, prompt: Sequence[int], target: Model) -> None:
        super().start(prompt, target)
        ahead = [prompt[-1], *repeated(prompt, self.w + self.n - 3)]
        self.columns = [tuple(ahead[j : j + self.n - 1]) for j in range(self.w)]
        self.pool, self._fed = Pool(self.g), 0

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """At most gamma nodes and window rows together."""
        L, candidates = self.n - 1, self.pool.behind(self.text[-1])
        first = min(L, gamma) if candidates else 0
        self._fed = min(self.w, (gamma - first + 1) // L)
        beside = max(0, self._fed * L - 1)
        tokens, parents = tree_of(candidates, gamma - beside)
        window = window_of(self.columns[: self._fed], len(tokens)) if beside else None
        laws = (None,) * len(tokens)
        return Proposal(tuple(tokens), tuple(parents), laws, passes=0, window=window)

    def commit(self, step: Step) -> None:
        """The fed columns gain a level and the pool their n-grams, from the left."""
        root, L = self.text[-1], self.n - 1
        super().commit(step)
        if not self._fed:
            return
        answers = first_argmax(step.logits).tolist()
        of_window = [answers[0], *answers[len(answers) - self._fed * L + 1 :]]
        self.columns[0] = (root, *self.columns[0][1:])
        for column, answer in enumerate(of_window[-self._fed :]):
            ngram = (*self.columns[column], answer)
            self.pool.add(ngram)
            self.columns[column] = ngram[1:]


def lookahead_draft(target: Model, spec: Spec, make: Callable[..., Draft]) -> LookaheadDraft:
    """Runs that the target's own guesses left in a pool, tried beside a window of new guesses (`lookahead:w=5,n=4,g=5`).

    Raises ValueError naming the option that is wrong.
    """
    spec.refuse_format()
    options = spec.options(DEFAULTS)
    if options["n"] < 2:
        raise ValueError(f"draft {spec.text!r}: n must be 2 or above, a pair of tokens")
    if options["w"] + options["n"] > target.context:
        raise ValueError(
            f"draft {spec.text!r}: w + n must not exceed the target's context of {target.context}"
        )
    return LookaheadDraft(**options, vocab=target.vocab)
