"""Caches in `selfdraft exact`: what target and draft hold after each round, and what is left from one call to the next.

A hole in a draft's cache leaves the law alone, since q is still what was drawn from; it costs acceptance, and shows here. Table
caches are compared token by token, real ones with a fresh pass over the same text, up to rounding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from experiments.exact.check import Check, Reading, near_and_far, steps, texts
from experiments.exact.enumeration import COOL, PROMPT, target_of
from experiments.exact.small_model import small_micro
from experiments.exact.statistics import MICRO_DRAFTS
from micro.cache import KVCache
from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.accept import RULES, chance_for
from specdec.drafts import make_draft
from specdec.drafts.base import Draft
from specdec.drafts.confidence import LeastProbability
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TreeDraft
from specdec.model import Model
from specdec.table import TableModel

# float32 sums in another order, through two layers: some hundred times 6e-8 of a number's size; a wrong token's keys differ by
# as much as the keys are large
ROUNDED = 1e-4


def tables(
    target: TableModel, draft: Draft, gamma: int, count: int, rule="token", stops=(), seeds=6
) -> Reading:
    """How often, after a round of some sampled texts, a cache does not hold what it should.

    The target's holds all but the last token. A draft's holds all it has read of the text: what it knew before and what it
    drafted but the last, as far as that was kept.
    """
    wrong = 0
    for seed in range(seeds):
        length = len(PROMPT)
        for one, state in steps(target, draft, PROMPT, count, gamma, sampling=COOL, rule=rule,
                                chance=chance_for(rule, seed), stop=stops):  # fmt: skip
            wrong += state.cache.tokens != state.tokens[:-1]
            if isinstance(draft, ModelDraft):
                held = draft.cache.tokens
                wrong += held != state.tokens[: len(held)]
                read = length + one.proposed - 1 if one.proposed else len(held)
                wrong += len(held) != min(read, len(state.tokens) - 1)
            length = len(state.tokens)
    return Reading(wrong, 0, "one token")


def real(name: str, lanes: int, gamma: int = 4, count: int = 24) -> Reading:
    """Largest distance of a real cache's entries from those of a fresh pass, relative to their size."""
    target = small_micro(context=64)
    draft, worst = make_draft(target, MICRO_DRAFTS[name]), 0.0
    for _, state in steps(
        target, draft, [1, 2, 3], count, gamma, sampling=Sampling(0.8), lanes=lanes
    ):
        if state.cache.length != len(state.tokens) - 1:
            return Reading(np.inf, ROUNDED)
        worst = max(worst, distance(target, state.cache, state.tokens, lanes))
        worst = max(worst, distance(draft.model, draft.cache, state.tokens, 0))
    return Reading(worst, ROUNDED)  # fmt: skip


@torch.inference_mode()
def distance(model: Model, cache: KVCache, tokens: Sequence[int], lanes: int) -> float:
    """Of what a cache holds from keys and values that one pass over the same tokens leaves."""
    fresh, n = model.new_cache(1, lanes), cache.length
    model.forward(torch.tensor([tokens[:n]]), fresh)
    return max(relative(a[..., :n, :], b[..., :n, :])
               for a, b in ((cache.keys, fresh.keys), (cache.values, fresh.values)))  # fmt: skip


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.detach() - b.detach()).abs().max() / b.detach().abs().max())


def left_over(target: Model, draft_of, rule: str, vocab: int = 3, lanes: int = 0) -> Reading:
    """Texts that come out otherwise from a draft that has served before, and that a broken-off text has used, than from a new one."""
    requests = [([0, 1], 9), ([2], 4), ([0, 1, 1, 2, 0], 7), ([1] * 6, 5), ([0, 1], 9)]
    options = {"sampling": COOL, "rule": rule, "lanes": lanes}
    shared, different = draft_of(), 0
    for place, (prompt, count) in enumerate(requests):
        chance = partial(chance_for, rule, 4)
        want = texts(target, draft_of(), prompt, count, 3, chance=chance(), **options)
        different += texts(target, shared, prompt, count, 3, chance=chance(), **options) != want
        broken = [(place + i) % vocab for i in range(4)]
        next(steps(target, shared, broken, 9, 3, chance=chance_for(rule, 8), **options))
    return Reading(different, 0, "one token or count")


def stale(target: TableModel, draft: ModelDraft) -> Reading:
    """Tokens of the text before in the draft's cache, two texts of one length and nothing else in common."""
    wrong = 0
    for prompt in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0]):
        for _, state in steps(target, draft, prompt, 4, 2, sampling=COOL):
            held = draft.cache.tokens
            wrong += sum(a != b for a, b in zip(held, state.tokens)) + (
                len(held) >= len(state.tokens)
            )
    return Reading(wrong, 0, "one token")  # fmt: skip


def one_stream() -> Reading:
    """Chance comes from the seed alone: the same text again after stray draws, another for another seed, and no global draw."""
    target = small_micro(context=64)
    draft, sampling = make_draft(target, "rtn3"), Sampling(0.9)

    def text(seed: int) -> tuple[int, ...]:
        return texts(target, draft, [1, 2], 24, 4, sampling, SeededChance(seed)).tokens

    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = [text(seed) for seed in range(12)]
    wrong = len(set(first)) < 10
    wrong += not torch.equal(torch.get_rng_state(), states[0])
    wrong += not np.array_equal(np.random.get_state()[1], states[1])
    wrong += random.getstate() != states[2]
    wrong += [text(seed) for seed in range(12)] != first
    return Reading(wrong, 0)


def unaltered() -> Reading:
    """Numbers of the target that making and using drafts has changed."""
    target = small_micro(context=64)
    before = [p.clone() for p in target.state_dict().values()]
    for format in MICRO_DRAFTS.values():
        texts(target, make_draft(target, format), [1], 12, 4)
    after = target.state_dict().values()
    return Reading(sum(int((a != b).sum()) for a, b in zip(before, after)), 0, "one number")


def checks() -> Iterator[Check]:
    target = target_of(3, 5)
    for name, model in near_and_far(target).items():
        draft = ModelDraft(model, 1)
        yield Check("tokens in both caches", partial(tables, target, draft, 3, 17), name,
                    level="probe")  # fmt: skip
        yield Check("tokens in both caches, stops",
                    partial(tables, target, draft, 6, 17, stops=((2, 1), (0,))),
                    name, "stop", "probe")  # fmt: skip
        yield Check("tokens in both caches, a limit below gamma",
                    partial(tables, target, draft, 9, 6), name, "limit", "probe")  # fmt: skip
        for how, parents in (("with", (-1, -1, 0, 1, 1, 3)), ("mixed", (-1, -1, 1, 1))):
            tree = TreeDraft(model, parents, how)
            yield Check(f"tokens in the target's cache, tree {how}",
                        partial(tables, target, tree, 6, 17), name, "tree", "probe")  # fmt: skip
        yield Check("nothing stale in the draft's cache", partial(stale, target, ModelDraft(model, 1)),
                    name, level="probe")  # fmt: skip
        for rule in RULES:
            yield Check(f"{rule}, tokens in both caches",
                        partial(tables, target, draft, 4, 17, rule), name, rule,
                        "quick" if rule == "token" else "probe")  # fmt: skip
            of = partial(ModelDraft, model, 1)
            yield Check(f"{rule}, no call remembers another", partial(left_over, target, of, rule),
                        name, rule, "probe")  # fmt: skip
        stopping = ModelDraft(model, 1, LeastProbability(0.4))
        yield Check("tokens in both caches, a draft that stops",
                    partial(tables, target, stopping, 4, 17), name)  # fmt: skip
        for lanes in (0, 8):
            yield Check(f"real caches against a fresh pass, {lanes or 'no'} lanes",
                        partial(real, name, lanes), name, level="quick" if lanes else "probe")  # fmt: skip
    equal = ModelDraft(target, 1)
    yield Check("tokens in both caches, equal draft", partial(tables, target, equal, 3, 17),
                level="probe")  # fmt: skip
    script = ScriptedDraft([0, 1, 2] * 8)
    yield Check(
        "tokens in the target's cache, point masses", partial(tables, target, script, 4, 17)
    )
    micro = small_micro(context=64)
    yield Check(
        "no call remembers another, micro",
        partial(left_over, micro, partial(make_draft, micro, "rtn3"), "token", 64, 8),
    )
    yield Check("chance comes from the seed alone", one_stream)
    yield Check("the target is not altered", unaltered)  # fmt: skip
