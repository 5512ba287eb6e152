"""From logits to a law: temperature, top-k, top-p, ties, and the values that are refused."""

from __future__ import annotations

import math

import pytest
import torch

from micro.sampling import Sampling, first_argmax

LOGITS = torch.tensor([28.0, 29.0, 11.0])
TYPES = [torch.float32, torch.float16, torch.bfloat16]


def law_of(*probabilities: float) -> torch.Tensor:
    """Logits in float64 whose law at temperature 1 is this."""
    return torch.tensor(probabilities, dtype=torch.float64).log()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("temperature", [0, 1e-300, 1e-50, 1e-45, 1e-38, 1e-12, 1e-5, 1e-3])
def test_a_temperature_near_zero_tends_to_the_likeliest_token(temperature, dtype):
    law = Sampling(temperature).probs(LOGITS.to(dtype))
    assert law.dtype == torch.float32
    assert law.tolist() == [0, 1, 0]


@pytest.mark.parametrize("temperature", [-1, -1e-9, math.nan, math.inf, "1", None, True])
def test_a_temperature_out_of_range_is_refused_by_name(temperature):
    with pytest.raises(ValueError, match="temperature must be"):
        Sampling(temperature)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("top_p", [1e-300, 1e-8, 1e-4, 1e-3])
def test_a_tiny_top_p_keeps_the_likeliest_token(top_p, dtype):
    logits = torch.randn(50, 256, generator=torch.Generator().manual_seed(1)).to(dtype)
    law = Sampling(top_p=top_p).probs(logits)
    assert torch.equal(law.max(-1).values, torch.ones(50))
    assert torch.equal(law.argmax(-1), first_argmax(logits))


@pytest.mark.parametrize("top_p", [-0.1, 0, 1.5, math.nan, "1", None])
def test_a_top_p_out_of_range_is_refused_by_name(top_p):
    with pytest.raises(ValueError, match="top_p must be"):
        Sampling(top_p=top_p)


@pytest.mark.parametrize("top_k", [-1, 1.5, 2.0, math.nan, math.inf, True, None])
def test_a_top_k_out_of_range_is_refused_by_name(top_k):
    with pytest.raises(ValueError, match="top_k must be"):
        Sampling(top_k=top_k)


def test_values_that_keep_all_change_nothing():
    plain = Sampling(0.7).probs(LOGITS)
    for top_k in (0, 3, 4, 1000):
        assert torch.equal(Sampling(0.7, top_k, 1.0).probs(LOGITS), plain)
    assert torch.allclose(plain, (LOGITS / 0.7).softmax(-1))


def test_ties_keep_the_lowest_ids():
    level = torch.zeros(4)
    assert Sampling(0).probs(level).tolist() == [1, 0, 0, 0]
    assert Sampling(1, top_k=2).probs(level).tolist() == [0.5, 0.5, 0, 0]
    assert Sampling(1, top_p=0.5).probs(level).tolist() == [0.5, 0.5, 0, 0]
    assert Sampling(1, top_p=0.51).probs(level).tolist() == pytest.approx([1 / 3] * 3 + [0])
    assert Sampling(0).probs(torch.tensor([1.0, 3.0, 3.0])).tolist() == [0, 1, 0]
    many = torch.zeros(256)  # a sort that is not stable shows on more entries than a few
    assert Sampling(1, top_k=100).probs(many).nonzero().flatten().tolist() == list(range(100))


def test_top_k_comes_first_and_top_p_counts_what_it_left():
    logits = law_of(0.4, 0.3, 0.2, 0.1)
    # behind top-k 2 the law is 4/7, 3/7: the first alone makes up .5. Top-p first would keep two
    assert Sampling(1, 2, 0.5).probs(logits).tolist() == [1, 0, 0, 0]
    assert Sampling(1, 0, 0.5).probs(logits).tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0])


def test_temperature_comes_before_top_p():
    # at T = 1/2 the law is p^2 / sum: (.64, .16, .01 ...): the first alone makes up .75; at T = 1 it does not
    logits = law_of(0.6, 0.3, 0.1)
    assert Sampling(0.5, 0, 0.75).probs(logits).tolist() == [1, 0, 0]
    assert Sampling(1.0, 0, 0.75).probs(logits).tolist() == pytest.approx([2 / 3, 1 / 3, 0])


def test_float64_goes_in_and_comes_out():
    logits = law_of(0.5, 0.25, 0.25)
    for sampling in (Sampling(), Sampling(0), Sampling(1, 2), Sampling(1, 0, 0.6)):
        assert sampling.probs(logits).dtype == torch.float64
    # to the last places of float64: a detour through float32 would be off by 1e-8
    assert Sampling().probs(logits).tolist() == pytest.approx([0.5, 0.25, 0.25], abs=1e-15)


def test_every_leading_shape_is_served_row_by_row():
    logits = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    for sampling in (Sampling(0), Sampling(0.8, 3, 0.7)):
        laws = sampling.probs(logits)
        assert laws.shape == (2, 3, 8)
        assert torch.allclose(laws.sum(-1), torch.ones(2, 3))
        assert torch.equal(laws[1, 2], sampling.probs(logits[1, 2]))


def test_the_logits_are_left_as_they_were():
    logits = LOGITS.clone()
    for sampling in (Sampling(0), Sampling(0.5, 1, 0.5)):
        sampling.probs(logits)
    assert torch.equal(logits, LOGITS)
