"""Tier 3 of `selfdraft exact`: the real generate() with real caches and seeded chance. Are its texts distributed as the target's?

With K cells and n draws, |frequencies - law|_1 > sqrt(2 (K ln 2 + ln 1/a) / n) happens with chance at most a (Weissman et al.
2003). An error of total variation d is 2 d in this norm, and noise hides at most one bound of it: so that bound itself is
the smallest total variation that is surely seen. A coin's rate is judged by n KL(rate, probability) <= ln 2/a (Chernoff),
which is sharp where probabilities are small. Every comparison spends a = 1e-6: the chance that a clean run fails is
at most that times the number of comparisons. Seeds are fixed: a failure repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np
import torch

from experiments.exact.check import Check, Reading, near_and_far, pairs_of, texts
from experiments.exact.enumeration import PROMPT, target_of
from experiments.exact.laws import Law, target_law
from experiments.exact.small_model import small_micro
from micro.chance import Chance, KeyedChance, SeededChance, generator_for
from micro.generate import generate as plain
from micro.model import Transformer
from micro.sampling import Sampling
from specdec import accept
from specdec.accept import RULES, chance_for
from specdec.drafts import make_draft
from specdec.drafts.base import Draft
from specdec.drafts.confidence import LeastProbability
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import TreeDraft
from specdec.proposal import Proposal
from specdec.table import TableModel

FALSE_ALARM = 1e-6  # of each comparison
SAMPLINGS = (Sampling(), Sampling(0.5), Sampling(1.5), Sampling(1.0, 2), Sampling(1.3, 0, 0.8))


def seen(cells: int, draws: int) -> float:
    """What noise exceeds with chance FALSE_ALARM, and the smallest total variation that is surely seen."""
    return math.sqrt(2 * (cells * math.log(2) + math.log(1 / FALSE_ALARM)) / draws)


def frequencies(counts: np.ndarray, law: np.ndarray) -> Reading:
    """Counts of n draws (cells,) against their law (cells,). Draws in cells of probability 0 are an error of any size."""
    draws = counts.sum()
    limit = seen(len(law), draws)
    if counts[law == 0].sum():
        return Reading(2.0, limit)
    return Reading(np.abs(counts / draws - law).sum(), limit, f"total variation {limit:.3f}")


def nats(rate: float, probability: float) -> float:
    """KL divergence of two coins."""
    total = 0.0
    for found, wanted in ((rate, probability), (1 - rate, 1 - probability)):
        if found > 0:
            total += found * math.log(found / wanted) if wanted > 0 else math.inf
    return total


def coin(successes: int, draws: int, probability: float) -> Reading:
    """How far a rate is from its probability, in nats over all draws."""
    evidence, limit = draws * nats(successes / draws, probability), math.log(2 / FALSE_ALARM)
    return Reading(evidence, limit, f"total variation {coin_seen(probability, draws):.2g}")


def coin_seen(probability: float, draws: int) -> float:
    """The smallest error of a coin's rate that is seen nine times in ten, towards the middle.

    Two bounds one behind the other: the rate at which the limit is met, and the one from which noise falls short of that
    with chance 1/10.
    """
    p = min(probability, 1 - probability)
    met = _above(p, lambda rate: nats(rate, p), math.log(2 / FALSE_ALARM) / draws)
    return _above(met, lambda rate: nats(met, rate), math.log(10) / draws) - p


def _above(low: float, distance: Callable[[float], float], wanted: float) -> float:
    """The rate above `low` at which a distance that rises with it reaches `wanted`, to the last bit of interest."""
    high = 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if distance(middle) < wanted else (low, middle)
    return high


# --- joint laws of table models


def counted(law: Law, draw: Callable[[int], Sequence[int]], draws: int, first_seed: int = 0):
    """Counts (cells + 1,) of draw(seed)'s texts by the law's cells, what is in none of them last; and the law (cells + 1,)."""
    places = {text: place for place, text in enumerate(law)}
    found = [
        places.get(tuple(draw(seed)), len(law)) for seed in range(first_seed, first_seed + draws)
    ]
    return np.bincount(found, minlength=len(law) + 1), np.array([*law.values(), 0.0])


def joint(
    target: TableModel,
    draft: Draft,
    gamma: int,
    draws: int,
    sampling: Sampling = SAMPLINGS[0],
    rule: str = "token",
    stops: Sequence[Sequence[int]] = (),
    count: int | None = None,
    first_seed: int = 0,
) -> Reading:
    """The joint of gamma + 2 tokens (or `count`) from `draws` texts of generate()."""
    count = count or gamma + 2
    law = target_law(target, PROMPT, count, sampling, stops)

    def draw(seed: int) -> Sequence[int]:
        return texts(target, draft, PROMPT, count, gamma, sampling, chance_for(rule, seed, "exact"),
                     rule=rule, stop=stops).tokens  # fmt: skip

    return frequencies(*counted(law, draw, draws, first_seed))


def joint_plain(target: TableModel, chance: Callable[[int], Chance], draws: int) -> Reading:
    """Plain decoding's joint of 3 tokens: does the chance itself draw what it should, position by position?"""
    law = target_law(target, PROMPT, 3)
    return frequencies(
        *counted(law, lambda s: plain(target, PROMPT, 3, Sampling(), chance(s)), draws)
    )


# --- a Transformer with its real caches, through projections to few classes

PROJECTIONS = {  # four new tokens (n, 4) -> classes (n,)
    "parities of tokens 2 to 4": (8, lambda x: (x[:, 1:] % 2) @ np.array([1, 2, 4])),
    "sum of all four, by eighths": (8, lambda x: x.sum(1) % 8),
    "first and last, halves and thirds": (6, lambda x: (x[:, 0] >= 8) * 3 + x[:, 3] % 3),
}
MICRO_PROMPT = [3, 7]
MICRO_SAMPLING = Sampling(0.7, top_k=12, top_p=0.95)
MICRO_DRAFTS = {"near": "rtn4", "far": "rtn2"}


@lru_cache
def micro_target() -> Transformer:
    return small_micro(vocab=16, context=32)


@lru_cache
@torch.inference_mode()
def micro_law(length: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Every continuation (V^length, length) of MICRO_PROMPT and its probability, from passes without a cache."""
    texts, mass = torch.tensor([MICRO_PROMPT]), torch.ones(1, dtype=torch.float64)
    for _ in range(length):
        p = MICRO_SAMPLING.probs(micro_target()(texts)[0][:, -1]).double()  # (n, V)
        n, V = p.shape
        texts = torch.cat((texts.repeat_interleave(V, 0), torch.arange(V).repeat(n)[:, None]), 1)
        mass = (mass[:, None] * p).flatten()
    return texts[:, len(MICRO_PROMPT) :].numpy(), mass.numpy() / mass.sum().numpy()


def micro_joint(name: str, draws: int, rule: str = "token", first_seed: int = 0) -> Reading:
    """gamma 2, vocabulary 16: the joint of 4 tokens in the projection that shows most."""
    target = micro_target()
    draft = make_draft(target, MICRO_DRAFTS[name])
    drawn = np.array([
        texts(target, draft, MICRO_PROMPT, 4, 2, MICRO_SAMPLING, chance_for(rule, seed, "micro"),
              rule=rule).tokens
        for seed in range(first_seed, first_seed + draws)
    ])  # fmt: skip
    readings = projected(drawn)
    return max(readings, key=lambda reading: reading.evidence / reading.limit)


def projected(drawn: np.ndarray) -> list[Reading]:
    """Texts (n, 4) against the law, one reading a projection."""
    every, law = micro_law()
    return [
        frequencies(
            np.bincount(classes(drawn), minlength=cells),
            np.bincount(classes(every), weights=law, minlength=cells),
        )
        for cells, classes in PROJECTIONS.values()
    ]


# --- chance and verify alone, many draws


def coins(probability: float, draws: int) -> Reading:
    chance = SeededChance(1, f"coin {probability}")
    return coin(sum(chance.accept(probability) for _ in range(draws)), draws, probability)


def draws_of(chance: Callable[[int], Chance], draws: int) -> Reading:
    """One draw each of `draws` chances, positions in turn, over 8 tokens of which 3 cannot be drawn."""
    law = generator_for(2, "draws").dirichlet([1.0] * 8) * np.array([0, 1, 1, 0, 1, 1, 1, 0])
    law /= law.sum()
    table = torch.from_numpy(law)
    drawn = [chance(seed).draw(table, seed % 7) for seed in range(draws)]
    return frequencies(np.bincount(drawn, minlength=8), law)


def verified(rule: str, draws: int) -> Reading:
    """The first token out of a chain of two over 4 tokens, verify() alone."""
    rng = generator_for(5, "verify")
    p, q = (torch.from_numpy(rng.dirichlet([1.0] * 4, size=3)) for _ in range(2))
    counts = np.zeros(4)
    shared = SeededChance(1)
    for seed in range(draws):
        chance = chance_for(rule, seed) if rule == "coupled" else shared
        tokens = [chance.draw(law, place) for place, law in enumerate(q[:2])]
        verdict = accept.verify(Proposal.chain(tokens, list(q[:2]), 2), p, chance, rule=rule)
        counts[tokens[0] if verdict.kept else verdict.token] += 1
    return frequencies(counts, p[0].numpy())


def checks() -> Iterator[Check]:
    yield from _chances()
    yield from _tables()
    yield from _micro()


def _chances() -> Iterator[Check]:
    stream = SeededChance(2, "draws")
    for probability in (0.0005, 0.3, 0.9995, 1.0):
        yield Check(f"20,000 coins of {probability:g}", partial(coins, probability, 20_000),
                    level="probe")  # fmt: skip
    yield Check("20,000 draws of one stream", partial(draws_of, lambda seed: stream, 20_000))
    yield Check("2,000 draws of streams of their own",
                partial(draws_of, lambda seed: SeededChance(1, str(seed)), 2_000))  # fmt: skip
    yield Check("20,000 keyed draws", partial(draws_of, KeyedChance, 20_000), family="coupled")
    plainly = partial(joint_plain, target_of(3, 2))
    yield Check("plain text, keyed", partial(plainly, KeyedChance, 2_000), family="coupled",
                level="probe")  # fmt: skip
    yield Check("plain text, seeded", partial(plainly, SeededChance, 2_000))
    for rule in RULES:
        yield Check(f"{rule}, verify alone, 20,000 draws", partial(verified, rule, 20_000),
                    family=rule, level="whole")  # fmt: skip


def _tables() -> Iterator[Check]:
    target = target_of(3, 2)
    for place, name in enumerate(("near", "far")):
        draft = pairs_of(target)[name]
        for rule in RULES:
            yield Check(f"{rule}, joint of 3 tokens, 2,000 draws",
                        partial(joint, target, draft, 1, 2_000, rule=rule),
                        name, rule, "probe")  # fmt: skip
        for number, rule in enumerate(RULES):
            sampling = SAMPLINGS[1:][(number + 2 * place) % 4]
            yield Check(f"{rule}, joint of 3 tokens, {warping(sampling)}, 1,500 draws",
                        partial(joint, target, draft, 1, 1_500, sampling, rule),
                        name, rule, "quick")  # fmt: skip
            yield Check(f"{rule}, joint of 5 tokens, 20,000 draws",
                        partial(joint, target, draft, 3, 20_000, rule=rule),
                        name, rule, "whole")  # fmt: skip
        yield Check("stops, 2,000 draws",
                    partial(joint, target, draft, 2, 2_000, stops=((2,), (0, 1))),
                    name, "stop", "probe")  # fmt: skip
        for how in ("without", "with"):
            tree = TreeDraft(near_and_far(target)[name], (-1, -1, -1), how)
            yield Check(f"three siblings {how}, 2 tokens, 2,000 draws",
                        partial(joint, target, tree, 3, 2_000, count=2),
                        name, "tree", "probe")  # fmt: skip
    for rule in RULES:
        draft = ModelDraft(near_and_far(target)["near"], 1, LeastProbability(0.4))
        yield Check(f"{rule}, a draft that stops, joint of 4 tokens, 2,000 draws",
                    partial(joint, target, draft, 2, 2_000, rule=rule), "near", rule, "whole")  # fmt: skip


def _micro() -> Iterator[Check]:
    for name in ("near", "far"):
        for rule in RULES:
            for draws, level in ((300, "probe" if rule == "token" else "quick"), (1_500, "whole")):
                yield Check(f"{rule}, micro with real caches, {draws:,} draws",
                            partial(micro_joint, name, draws, rule), name, rule, level)  # fmt: skip


def warping(sampling: Sampling) -> str:
    """T 0.5, top-p 0.8"""
    parts = [f"T {sampling.temperature:g}"]
    parts += [f"top-k {sampling.top_k}"] * (sampling.top_k > 0)
    parts += [f"top-p {sampling.top_p:g}"] * (sampling.top_p < 1)
    return ", ".join(parts)
