"""Tier 2 of `selfdraft exact`: the real loop, walked through every way it can go.

The joint law of the first gamma + 2 tokens must be the target's, to 1e-12: one token alone would miss a p shifted by a row, one
uniform shared by a round, or a bonus from the draft. Whole walks go through generate() from its start; where they would be
too many, one round from every reachable (text, length of the draft's cache) is walked and combined by dynamic programming.

Coupled noise is continuous and cannot be enumerated: there the text must equal plain decoding's under the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

from experiments.exact.check import (
    ROUNDING,
    Check,
    Reading,
    near_and_far,
    pairs_of,
    texts,
)
from experiments.exact.laws import gap, law_of, loop_law, target_law, walks
from micro.chance import KeyedChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.drafts.base import Draft
from specdec.drafts.confidence import LeastProbability, MostEntropy
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TreeDraft
from specdec.table import TableModel, constant_model, random_model

PROMPT = [1, 0]
COOL = Sampling(0.8)
SAMPLINGS = {
    "T 0": Sampling(0.0),
    "T 1e-9": Sampling(1e-9),
    "T 0.5": Sampling(0.5),
    "T 1.5": Sampling(1.5),
    "top-k 2": Sampling(1.0, top_k=2),
    "top-p 0.7": Sampling(1.3, top_p=0.7),
    "top-k 2 top-p 0.6": Sampling(0.7, top_k=2, top_p=0.6),
}
STOPS = {"a token": ((2,),), "a pair": ((0, 1),), "two": ((2, 2), (1,))}
HOWS = ("with", "without", "points", "mixed")
CHAIN_RULES = tuple(RULES)
TREE_RULES = tuple(rule for rule in RULES if rule != "block")  # block judges chains


@lru_cache
def target_of(vocab: int, seed: int, context: int = 64) -> TableModel:
    return random_model(vocab, seed, context=context)


def by_program(
    target: TableModel, draft: Draft, count: int, gamma: int, sampling=COOL, **options
) -> Reading:
    """Dynamic programming over rounds against the target's own law."""
    law = loop_law(target, draft, PROMPT, count, gamma, sampling=sampling, **options)
    want = target_law(target, PROMPT, count, sampling, options.get("stops", ()))
    return Reading(gap(law, want), ROUNDING)


def by_walks(
    target: TableModel,
    draft: Draft,
    count: int,
    gamma: int,
    sampling=COOL,
    stops: Sequence[Sequence[int]] = (),
    rule: str = "token",
) -> Reading:
    """Whole walks of generate() against the target's own law."""
    runs = walks(target, draft, PROMPT, max_new_tokens=count, gamma=gamma,
                 sampling=sampling, stop=stops, rule=rule)  # fmt: skip
    want = target_law(target, PROMPT, min(count, target.context - len(PROMPT)), sampling, stops)
    return Reading(gap(law_of(runs), want), ROUNDING)


def keyed(target: TableModel, draft: Draft, sampling: Sampling, seeds: int = 5) -> Reading:
    """How many texts under shared noise differ from plain decoding's."""
    differing = 0
    for seed in range(seeds):
        want = plain(target, PROMPT, 24, sampling, KeyedChance(seed))
        done = texts(target, draft, PROMPT, 24, 4, sampling, KeyedChance(seed), rule="coupled")
        differing += list(done.tokens) != want
    return Reading(differing, 0, f"one token of {24 * seeds}")


def checks() -> Iterator[Check]:
    yield from _probes()
    yield from _loops()
    yield from _trees()
    yield from _coupled()


def _probes() -> Iterator[Check]:
    """Small and through generate() itself: what every fault is tried on."""
    two, three = target_of(2, 3), target_of(3, 3)
    for name in ("near", "far"):
        for rule in CHAIN_RULES:
            case = partial(Check, draft=name, family=rule, level="probe")
            yield case(f"{rule}, 3 tokens, gamma 1, dynamic programming",
                       _program(three, name, 3, 1, rule=rule))  # fmt: skip
            yield case(f"{rule}, 2 tokens, gamma 2, whole walks",
                       _walked(two, name, 4, 2, rule=rule))  # fmt: skip
            yield case(f"{rule}, 3 tokens, gamma 2, dynamic programming",
                       _program(three, name, 4, 2, rule=rule))  # fmt: skip
        case = partial(Check, draft=name, level="probe")
        yield case("stop inside a block, whole walks",
                   _walked(two, name, 3, 2, stops=[(0,)]), family="stop")  # fmt: skip
        yield case("a limit below gamma, whole walks", _walked(three, name, 2, 3), family="limit")
        for how in HOWS:
            yield case(f"two siblings {how}", _tree(three, name, (-1, -1), how, 2), family="tree")
        yield case("a child of the second sibling, whole walks",
                   _tree(two, name, (-1, -1, 1, 1), "with", 4), family="tree")  # fmt: skip
    tied = constant_model([0.4, 0.4, 0.2])
    yield Check("ties go to the lowest id", lambda: _lowest(tied), family="greedy", level="probe")


def _program(target: TableModel, name: str, *args, **options) -> Callable[[], Reading]:
    return lambda: by_program(target, pairs_of(target)[name], *args, **options)


def _walked(target: TableModel, name: str, *args, **options) -> Callable[[], Reading]:
    return lambda: by_walks(target, pairs_of(target)[name], *args, **options)


def _tree(target, name, parents, how, count, rule="token", **options) -> Callable[[], Reading]:
    def run() -> Reading:
        draft = TreeDraft(near_and_far(target)[name], parents, how)
        return by_walks(target, draft, count, len(parents), rule=rule, **options)

    return run


def _lowest(tied: TableModel) -> Reading:
    """Greedy text of a model with two equal largest logits: token 0 throughout, which no code of ours decides."""
    draft = ModelDraft(constant_model([0.3, 0.35, 0.35]), 1)
    done = texts(tied, draft, PROMPT, 8, 3, Sampling(0.0))
    return Reading(sum(token != 0 for token in done.tokens), 0)


def _loops() -> Iterator[Check]:
    """gamma 1 ... 3 over 3 tokens, warpings, limits, stops, the context's end, points, drafts that stop."""
    for gamma in (1, 2, 3):
        target = target_of(3, 6 + gamma)
        others = {"equal": target, "unrelated": random_model(3, seed=99)}
        for rule in CHAIN_RULES:
            # match draws every place twice, 27 x 81 walks a round at gamma 3
            level = "whole" if gamma == 3 or rule in ("match", "coupled") else "quick"
            for name, model in (near_and_far(target) | others).items():
                draft = ModelDraft(model, 1)
                yield Check(f"{rule}, gamma {gamma}, joint of {gamma + 2}, {name} draft",
                            partial(by_program, target, draft, gamma + 2, gamma, rule=rule),
                            name if name in ("near", "far") else "any", rule, level)  # fmt: skip
    target = target_of(3, 20)
    for rule in CHAIN_RULES:
        level = "quick" if rule in ("token", "block") else "whole"
        for (warp, sampling), name in zip(SAMPLINGS.items(), ["near", "far"] * 4):
            yield Check(f"{rule}, {warp}", _program(target, name, 4, 2, sampling, rule=rule),
                        name, rule, level)  # fmt: skip
        for limit in (1, 2, 3, 4, 5):
            yield Check(f"{rule}, limit {limit}",
                        _program(target, "near", min(limit, 3), 2, limit=limit, rule=rule),
                        "near", "limit", level)  # fmt: skip
        for what, stops in STOPS.items():
            yield Check(f"{rule}, stop: {what}",
                        _program(target, "far", 4, 2, stops=stops, rule=rule),
                        "far", "stop", level)  # fmt: skip
        for stop in (LeastProbability(0.45), MostEntropy(0.9)):
            draft = ModelDraft(near_and_far(target)["near"], 1, stop)
            yield Check(f"{rule}, draft that stops: {stop}",
                        partial(by_program, target, draft, 4, 3, rule=rule),
                        "near", rule, "quick")  # fmt: skip
        script = ScriptedDraft([*PROMPT, 0, 2, 1, 1])
        yield Check(f"{rule}, point masses, then nothing",
                    partial(by_walks, target, script, 4, 3, rule=rule), "any", rule)  # fmt: skip
        short = target_of(3, 20, context=5)
        draft = pairs_of(short)["near"]
        yield Check(f"{rule}, the context's end", partial(by_walks, short, draft, 50, 2, rule=rule),
                    "near", "limit", level)  # fmt: skip


def _trees() -> Iterator[Check]:
    """Trees of at most 6 sampled nodes; four siblings over 4 tokens."""
    two, three, four = target_of(2, 11), target_of(3, 4), target_of(4, 2)
    for how in HOWS:
        for name, parents in (("near", (-1, -1, 0)), ("far", (-1, -1, 1, 1))):
            for rule in TREE_RULES:
                level = "quick" if rule == "token" else "whole"
                yield Check(f"{rule}, tree {parents}, {how}",
                            _tree(two, name, parents, how, 4, rule), name, "tree", level)  # fmt: skip
        six = TreeDraft(near_and_far(two)["near"], (-1, -1, 0, 0, 1, 1), how)
        yield Check(f"tree of six nodes, {how}", partial(by_program, two, six, 3, 6), "near",
                    "tree", "whole")  # fmt: skip
        for name, model in near_and_far(four).items():
            siblings = TreeDraft(model, (-1, -1, -1, -1), how)
            yield Check(f"four siblings over 4 tokens, {how}",
                        partial(by_program, four, siblings, 1, 4, limit=9),
                        name, "tree", "quick" if name == "near" else "whole")  # fmt: skip
        yield Check(f"three siblings, top-p, {how}",
                    _tree(three, "near", (-1, -1, -1), how, 2, sampling=Sampling(0.8, 2, 0.9)),
                    "near", "tree")  # fmt: skip


def _coupled() -> Iterator[Check]:
    target = target_of(6, 3)
    for place, (t, p) in enumerate(((1.0, 1.0), (0.0, 1.0), (0.5, 1.0), (1.5, 0.95))):
        level = "quick" if place else "probe"
        for name, draft in pairs_of(target).items():
            yield Check(f"keyed text at T {t:g} is plain text",
                        partial(keyed, target, draft, Sampling(t, top_p=p)),
                        name, "coupled", level)  # fmt: skip
        for draft in (ScriptedDraft([1, 2, 3] * 12),
                      TreeDraft(near_and_far(target)["near"], (-1, -1, 0, 1), "with")):  # fmt: skip
            yield Check(f"keyed text at T {t:g} is plain text, {type(draft).__name__}",
                        partial(keyed, target, draft, Sampling(t, top_p=p)),
                        "any", "coupled", "quick")  # fmt: skip
