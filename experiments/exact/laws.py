"""Exact laws of texts: the target's own from its table, and the loop's by walking every branch that it can take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import torch

from experiments.exact.metered import Metered
from micro.chance import every_branch
from micro.sampling import Sampling
from specdec import decode
from specdec.decode import Decoding
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import TextDraft
from specdec.model import Model
from specdec.record import Generation, Round
from specdec.table import TableModel, table_law

Law = dict[tuple[int, ...], float]


def target_law(
    model: TableModel,
    prompt: Sequence[int],
    count: int,
    sampling: Sampling | None = None,
    stops: Iterable[Sequence[int]] = (),
) -> Law:
    """The law of the target's next `count` tokens; fewer where a stop (a run of tokens) was completed."""
    sampling, law, open_ = sampling or Sampling(), {}, {(): 1.0}
    for _ in range(count):
        longer: Law = {}
        for text, mass in open_.items():
            for token, p in enumerate(table_law(model, (*prompt, *text), sampling).tolist()):
                if p > 0:
                    new = (*text, token)
                    ended = any(new[-len(stop) :] == tuple(stop) for stop in stops)
                    (law if ended else longer)[new] = mass * p
        open_ = longer
    return law | open_


def walks(
    target: Model, draft: Draft, prompt: Sequence[int], max_new_tokens: int, **options
) -> Iterator[tuple[float, Generation]]:
    """(probability, Generation) of every way generate() can go; state left from one walk would show in the next.

    Raises RuntimeError where a walk takes more passes than two prefills, the loop's and one of a draft's that wants to know the
    target's states, and one for each token: its branches would have no end.
    """
    options = {"sampling": Sampling(), "max_new_tokens": max_new_tokens} | options
    return every_branch(
        lambda chance: decode.generate(
            Metered(target, max_new_tokens + 2), draft, prompt, chance=chance, **options
        )
    )


def law_of(runs: Iterable[tuple[float, Generation]]) -> Law:
    law: Law = defaultdict(float)
    for probability, generation in runs:
        law[generation.tokens] += probability
    return dict(law)


def gap(a: Law, b: Law) -> float:
    """Largest difference of any text's probability."""
    return max(abs(a.get(text, 0.0) - b.get(text, 0.0)) for text in a.keys() | b.keys())


def one_rounds(
    target: TableModel,
    draft: ModelDraft | TextDraft,
    prompt: Sequence[int],
    text: tuple[int, ...],
    read: int,
    limit: int,
    gamma: int,
    sampling: Sampling,
    stops: tuple[tuple[int, ...], ...],
    rule: str,
) -> Iterator[tuple[float, tuple[Round, Decoding, int]]]:
    """Every outcome of one round behind `text`, the draft's cache, if it has one, holding the first `read` tokens of it all.

    Raises RuntimeError where a cache is left otherwise than the next round's start assumes.
    """
    tokens = [*prompt, *text]
    has_cache = isinstance(draft, ModelDraft)

    def run(chance):
        cache = target.new_cache()
        cache.tokens = tokens[:-1]
        state = Decoding(target, list(tokens), len(prompt), limit, stops, cache)
        draft.start(tokens, target)
        if has_cache:
            draft.cache.tokens = tokens[:read]
        done = decode.one_round(state, draft, gamma, sampling, chance, rule)
        held = draft.cache.tokens if has_cache else []
        if state.cache.tokens != state.tokens[:-1] or held != state.tokens[: len(held)]:
            raise RuntimeError(f"after {state.tokens} the caches hold {state.cache.tokens}, {held}")
        return done, state, len(held)

    with torch.inference_mode():
        yield from every_branch(run)


def loop_law(
    target: TableModel,
    draft: ModelDraft | TextDraft,
    prompt: Sequence[int],
    count: int,
    gamma: int,
    *,
    limit: int | None = None,
    sampling: Sampling | None = None,
    stops: tuple[tuple[int, ...], ...] = (),
    rule: str = "token",
) -> Law:
    """The law of the loop's first `count` tokens, out of at most `limit`, by dynamic programming.

    A round depends on the text and on what the draft's cache holds, a prefix of it: one walk from each reachable
    (text, length of that prefix) is enough, where whole walks would grow exponentially.
    """
    limit, sampling = limit or count, sampling or Sampling()
    open_: dict[tuple[tuple[int, ...], int], float] = {((), 0): 1.0}
    law: Law = defaultdict(float)
    while open_:
        text, read = min(open_, key=lambda state: len(state[0]))  # nothing shorter can reach it
        mass = open_.pop((text, read))
        for probability, (_, state, held) in one_rounds(
            target, draft, prompt, text, read, limit, gamma, sampling, stops, rule
        ):
            new = tuple(state.tokens[len(prompt) :])
            if state.ended or len(new) >= count:
                law[new[:count]] += mass * probability
            elif len(new) == len(text):
                raise RuntimeError(f"a round behind {state.tokens} emitted nothing")
            else:
                open_[new, held] = open_.get((new, held), 0.0) + mass * probability
    return dict(law)
