"""Rotation and error compensation: by hand, against brute force, and what they must not change."""

from __future__ import annotations

import itertools

import pytest
import torch

from quant.formats import parse_format
from quant.gptq import compensated, inverse_factor
from quant.hadamard import rotate, rotate_both
from quant.tensor import quantize


def gaussian(*shape: int, seed: int = 0, size: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size


def moment(width: int, seed: int = 1) -> torch.Tensor:
    """Second moments of inputs that go up and down together."""
    inputs = gaussian(8 * width, width, seed=seed) + 2 * gaussian(8 * width, 1, seed=seed + 1)
    return inputs.double().T @ inputs.double() / len(inputs)


def output_error(x: torch.Tensor, name: str, m: torch.Tensor) -> float:
    """Mean over rows of e M e^T: what the layer's output loses."""
    e = (x - quantize(x, parse_format(name), moment=m).dequantize()).double()
    return float((e @ m * e).sum(1).mean())


# --- rotation -----------------------------------------------------------------------------------------


def test_a_block_is_spread_evenly():
    assert rotate(torch.tensor([[4.0, 0, 0, 0]]), 4).tolist() == [[2, 2, 2, 2]]
    assert rotate(torch.tensor([[0.0, 4, 0, 0]]), 4).tolist() == [[2, -2, 2, -2]]


@pytest.mark.parametrize("width", [64, 50, 5])
def test_turning_twice_gives_the_matrix_back_and_a_short_group_stays(width):
    x = gaussian(7, width).double()
    turned = rotate(x, 16)
    torch.testing.assert_close(rotate(turned, 16), x, rtol=0, atol=1e-14)
    full = width - width % 16
    assert torch.equal(turned[:, full:], x[:, full:])
    # orthonormal: lengths and products stay
    torch.testing.assert_close(turned.norm(dim=1), x.norm(dim=1), rtol=1e-14, atol=0)


def test_turned_moments_are_those_of_turned_inputs():
    inputs = gaussian(100, 64).double()
    turned = rotate(inputs, 32)
    direct = turned.T @ turned
    torch.testing.assert_close(rotate_both(inputs.T @ inputs, 32), direct, rtol=0, atol=1e-10)


def test_rotation_helps_where_there_are_outliers_and_not_on_normal_weights():
    x = gaussian(256, 256)
    outliers = x.clone()
    outliers[:, ::32] *= 8

    def error(weight, name):
        return float((weight - quantize(weight, parse_format(name)).dequantize()).square().mean())

    assert error(outliers, "had+mse3") < 0.6 * error(outliers, "mse3")
    # a rotated normal matrix is a normal matrix: 2,048 groups, standard error 1%
    assert error(x, "had+mse3") == pytest.approx(error(x, "mse3"), rel=0.05)


# --- compensation -------------------------------------------------------------------------------------


def whole_numbers(columns, where):
    return torch.ones(len(columns)), None


def to_whole(x, scale, minimum):
    codes = (x.round() + 8).clamp(0, 15)
    return codes.to(torch.uint8), codes - 8


def test_the_second_of_two_equal_inputs_makes_good_the_first_by_hand():
    x, together = torch.tensor([[1.4, 1.4]]), torch.ones(2, 2, dtype=torch.float64)
    codes = compensated(x, together, 2, whole_numbers, to_whole)
    assert (codes.int() - 8).tolist() == [[1, 2]]
    apart = torch.eye(2, dtype=torch.float64)
    assert (compensated(x, apart, 2, whole_numbers, to_whole).int() - 8).tolist() == [[1, 1]]


def test_what_is_passed_on_is_the_best_answer_to_an_error():
    """After column 0 is rounded, the other columns as left by U must be the least-squares optimum: closed form."""
    m, identity = moment(6), torch.eye(6, dtype=torch.float64)
    factor, damped = inverse_factor(m), m + 0.01 * m.diagonal().mean() * identity
    torch.testing.assert_close(factor.T @ factor @ damped, identity)
    error = 0.3
    passed = -error / factor[0, 0] * factor[0, 1:]
    # what column 0 lost, made good by the rest: M_rest passed = error m_0
    best = torch.linalg.solve(damped[1:, 1:], damped[1:, 0]) * error
    torch.testing.assert_close(passed, best)


def test_it_finds_nearly_the_best_of_all_roundings():
    """Four columns of 16 levels: all 16^4 roundings are tried. It is greedy and may miss the best; nearest is far off."""
    m = moment(4)
    x = gaussian(40, 4, size=2.0)
    every = torch.tensor(list(itertools.product(range(-8, 8), repeat=4))).double()

    def loss(decoded):
        e = x.double() - decoded
        return (e @ m * e).sum(1)

    errors = (row.double() - every for row in x)
    best = torch.stack([((e @ m) * e).sum(1).min() for e in errors])
    ours = loss(compensated(x, m, 4, whole_numbers, to_whole).double() - 8)
    nearest = loss(x.round().double())
    assert (ours >= best - 1e-9).all()
    assert ours.mean() < 2.5 * best.mean() < nearest.mean()


@pytest.mark.parametrize(
    "name", ["rtn3", "mse3", "mse2", "minmax3", "nf4", "mxfp4", "had+mse3", "mse2-g16-fp8", "absmax4"]
)  # fmt: skip
def test_the_output_s_error_falls_for_every_scheme(name):
    x, m = gaussian(64, 128, size=0.02), moment(128)
    assert output_error(x, f"{name}+gptq", m) < 0.6 * output_error(x, name, m)


def test_uncorrelated_inputs_pass_nothing_on():
    """bfloat16 weights have scales that fp16 holds exactly, so both take their codes from the same number."""
    x = gaussian(16, 96, size=0.02).bfloat16().float()
    plain, q = (quantize(x, parse_format(n), moment=torch.eye(96)) for n in ("rtn3", "rtn3+gptq"))
    assert torch.equal(q.codes, plain.codes) and torch.equal(q.scales, plain.scales)


def test_weighing_by_inputs_lowers_the_output_s_error():
    """Inputs of very unequal sizes, uncorrelated: the case +act is for."""
    x = gaussian(64, 128, size=0.02)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(0))
    m = torch.diag(torch.logspace(-2, 2, 128, dtype=torch.float64)[order])
    assert output_error(x, "mse3+act", m) < 0.9 * output_error(x, "mse3", m)


def test_scales_are_weighed_where_errors_are_passed_on_too():
    """Inputs without correlation: nothing is passed on, so the scales are those of +act alone."""
    x, m = gaussian(16, 96, size=0.02), torch.diag(torch.logspace(-1, 1, 96))
    both, act, plain = (
        quantize(x, parse_format(f"mse3{more}"), moment=m) for more in ("+act+gptq", "+act", "")
    )
    assert torch.equal(both.scales, act.scales) and not torch.equal(act.scales, plain.scales)


def test_inputs_that_never_vary_or_are_always_zero_do_no_harm():
    x = gaussian(8, 64, size=0.02)
    for m in (torch.zeros(64, 64), torch.ones(64, 64), torch.diag(torch.arange(64.0))):
        decoded = quantize(x, parse_format("mse3+gptq"), moment=m).dequantize()
        assert decoded.isfinite().all() and (x - decoded).abs().max() < 0.1
