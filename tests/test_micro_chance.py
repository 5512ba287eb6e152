"""Chance: one stream per name, no token of probability zero, every branch walked once, shared noise for equal keys."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
import torch

from micro.chance import (
    EnumeratingChance,
    KeyedChance,
    SeededChance,
    every_branch,
    generator_for,
    inverse_cdf,
)

LAW = torch.tensor([0.5, 0.0, 0.3, 0.2])
BELOW_ONE = np.nextafter(1.0, 0.0)


def stream(seed: int, name: str = "", count: int = 32) -> list[int]:
    chance = SeededChance(seed, name)
    return [chance.draw(torch.ones(256) / 256, place) for place in range(count)]


def test_a_stream_belongs_to_its_seed_and_name_and_to_nothing_else():
    first = stream(7, "prompt")
    torch.rand(3), np.random.random(3), random.random()  # noqa: NPY002 - stray draws on purpose
    assert stream(7, "prompt") == first
    assert len({tuple(stream(seed)) for seed in range(1, 21)}) == 20
    assert len({tuple(stream(1, name)) for name in ("", "a", "b", "ab")}) == 4
    assert generator_for(1, "a", "b").random() != generator_for(1, "ab").random()


def test_interleaved_streams_do_not_disturb_each_other():
    a, b = SeededChance(1, "a"), SeededChance(1, "b")
    law, mixed = torch.ones(256) / 256, []
    for place in range(32):
        mixed.append(a.draw(law, place))
        b.accept(0.5), b.draw(law, place)
    assert mixed == stream(1, "a")


def test_no_global_generator_is_drawn_from_or_set():
    state = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    for chance in (SeededChance(1), KeyedChance(1)):
        chance.draw(LAW, 0), chance.accept(0.5)
    assert torch.equal(torch.get_rng_state(), state[0]) and random.getstate() == state[1]
    assert np.array_equal(np.random.get_state()[1], state[2])  # noqa: NPY002


def test_acceptance_is_certain_at_the_ends():
    chance = SeededChance(3)
    assert not any(chance.accept(0.0) for _ in range(1000))
    assert all(chance.accept(1.0) for _ in range(1000))


def test_acceptance_has_its_rate():
    """40,000 coins: a deviation of .01 is 4.4 standard errors, a false alarm in 1e5; the seed is fixed besides."""
    chance = SeededChance(3)
    assert abs(sum(chance.accept(0.3) for _ in range(40_000)) / 40_000 - 0.3) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_inverse_meets_each_token_on_its_own_stretch(dtype):
    law = torch.tensor([0.5, 0.0, 0.25, 0.25], dtype=dtype)
    uniforms = [0.0, 0.49, 0.5, 0.74, 0.75, BELOW_ONE]
    assert [inverse_cdf(law, u) for u in uniforms] == [0, 0, 2, 2, 3, 3]


def test_a_token_of_probability_zero_is_never_drawn():
    edges = [0.0, 5e-324, BELOW_ONE, 1.0]
    for law in ([0, 0, 1.0], [1.0, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 1e-30, 0]):
        law = torch.tensor(law)
        for uniform in [*edges, *np.linspace(0, 1, 101)]:
            assert law[inverse_cdf(law, uniform)] > 0
    # float32 laws rarely add up to 1: neither a sum below (the last stretch) nor above may reach a zero
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        law = torch.rand(64, generator=generator).pow(8)
        law[torch.rand(64, generator=generator) < 0.5] = 0
        law[-1] = law[0] = 0
        law = law / law.sum()
        assert all(law[inverse_cdf(law, uniform)] > 0 for uniform in edges)


@pytest.mark.parametrize("law", [torch.zeros(3), torch.tensor([math.nan, 1.0, 0.0])])
@pytest.mark.parametrize("chance", [SeededChance(1), KeyedChance(1)], ids=["seeded", "keyed"])
def test_a_law_without_mass_is_refused(chance, law):
    with pytest.raises(ValueError, match="without mass"):
        chance.draw(law, 0)


def test_every_branch_adds_up_and_matches_the_closed_form():
    """A coin of 1/4; heads draws from one law, tails coins again with 1/2: each outcome's chance by hand."""

    def run(chance) -> str:
        if chance.accept(0.25):
            return "heads", chance.draw(torch.tensor([0.2, 0.0, 0.8], dtype=torch.float64), 0)
        return "tails", chance.accept(0.5)

    found = {result: probability for probability, result in every_branch(run)}
    assert found == pytest.approx(
        {("heads", 0): 0.05, ("heads", 2): 0.2, ("tails", True): 0.375, ("tails", False): 0.375}
    )
    assert sum(found.values()) == pytest.approx(1, abs=1e-15)


def test_every_branch_counts_the_ways_to_one_result():
    """The sum of four fair coins is binomial; 16 branches, none twice."""
    branches = list(every_branch(lambda chance: sum(chance.accept(0.5) for _ in range(4))))
    assert len(branches) == 16
    chances = Counter()
    for probability, heads in branches:
        chances[heads] += probability
    assert chances == {heads: math.comb(4, heads) / 16 for heads in range(5)}


def test_a_certain_choice_opens_no_branch():
    chance = EnumeratingChance()
    assert chance.accept(1.0) and chance.accept(1.7) and not chance.accept(0.0)
    assert chance.draw(torch.tensor([0.0, 1.0]), 0) == 1
    assert chance.open == [] and chance.probability == 1


def test_equal_laws_under_one_key_give_equal_tokens():
    target, draft = KeyedChance(1, "p"), KeyedChance(1, "p")
    draft.accept(0.5)  # the coins of one do not shift its draws
    for position in range(200):
        assert target.draw(LAW, position) == draft.draw(LAW, position)
    other = [KeyedChance(2, "p"), KeyedChance(1, "q")]
    mine = [target.draw(LAW, position) for position in range(64)]
    for chance in other:
        assert [chance.draw(LAW, position) for position in range(64)] != mine


def frequencies(draws) -> np.ndarray:
    return np.bincount(draws, minlength=len(LAW)) / len(draws)


@pytest.mark.parametrize("kind", [SeededChance, KeyedChance])
def test_draws_follow_their_law(kind):
    """20,000 draws over K = 4: by Weissman's bound |p^ - p|_1 exceeds sqrt(2 (K ln 2 + ln 1/a) / n) = .037 at a = 1e-5.

    A total variation of .037 (that bound, twice over, halved) would be seen. Keyed: each position is one draw.
    """
    chance, n = kind(5), 20_000
    bound = math.sqrt(2 * (4 * math.log(2) + math.log(1e5)) / n)
    assert bound < 0.04
    found = frequencies([chance.draw(LAW, position) for position in range(n)])
    assert np.abs(found - LAW.numpy()).sum() < bound
    assert found[1] == 0


def test_keyed_draws_of_two_laws_meet_as_often_as_the_closed_form_says():
    """P(match) = sum_i 1 / sum_j max(p_j / p_i, q_j / q_i) (Daliri et al. 2024), for p, q over three tokens.

    20,000 pairs: one standard error is .0033; 5 of them are allowed, a false alarm in 2e6.
    """
    p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    expected = sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in range(3)) for i in range(3))
    a, b = KeyedChance(1), KeyedChance(1)
    matches = sum(a.draw(p, n) == b.draw(q, n) for n in range(20_000)) / 20_000
    assert abs(matches - expected) < 5 * 0.0033
    assert (1 - 0.3) / (1 + 0.3) - 1e-12 <= expected <= 1 - 0.3  # TV = .3
