"""Rounding that is trained through: what a pass computes with is what is stored, and gradients are the learned-step-size ones."""

from __future__ import annotations

import pytest
import torch

from quant.formats import FORMATS, parse_format
from quant.packing import unpack
from quant.straight_through import StraightThrough
from quant.tensor import quantize

TUNABLE = [n for n in [*FORMATS, "mse3-fp8", "had+rtn4-fp8"] if not parse_format(n).needs_inputs]


def gaussian(*shape: int, seed: int = 0, size: float = 0.02) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size


@pytest.mark.parametrize("name", TUNABLE)
def test_a_pass_computes_with_what_is_stored_at_the_format_s_own_bytes(name):
    """After a step in a random direction, too; 40 is no multiple of a group, so the last one is short."""
    format, x = parse_format(name), gaussian(6, 40)
    matrix = StraightThrough(x, format, shrink=0.9)
    seen = []
    for _ in range(2):
        packed = matrix.packed()
        assert torch.equal(matrix().detach(), packed.dequantize())
        assert packed.bytes == format.stored_bytes((6, 40)) == quantize(x, format).bytes
        shapes = {part: tuple(t.shape) for part, t in packed.parts.items()}
        assert shapes == format.stored_shapes((6, 40))
        (matrix() * gaussian(6, 40, seed=1, size=1.0)).sum().backward()
        seen.append(packed.dequantize())
        with torch.no_grad():
            for parameter in matrix.parameters():
                parameter -= 0.3 * parameter.grad.sign()
    assert not torch.equal(*seen)


@pytest.mark.parametrize("name", TUNABLE)
def test_unshrunk_it_starts_as_plain_rounding(name):
    """Codes are taken from the stored scale and not from the exact one: at a tie of two levels they may differ, nowhere else."""
    format, x = parse_format(name), gaussian(8, 64)
    plain, start = quantize(x, format).dequantize(), StraightThrough(x, format, 1.0)().detach()
    errors = [(x - decoded).square().sum() for decoded in (plain, start)]
    assert errors[1] <= 1.01 * errors[0]
    assert (plain != start).float().mean() < 0.02 or format.rotated


def test_the_gradients_by_hand():
    """rtn at 2 bits, levels -2 ... 1, d = 1: the extreme -2 sets the scale. 1.4 lies above the highest level."""
    x = torch.tensor([[-2.0, 0.6, 1.4, 0.2]])
    matrix = StraightThrough(x, parse_format("rtn2-g4"), shrink=1.0)
    decoded = matrix()
    assert decoded.tolist() == [[-2, 1, 1, 0]] and matrix.scale.tolist() == [[1.0]]
    decoded.sum().backward()
    assert matrix.weight.grad.tolist() == [[1, 1, 0, 1]]  # none beyond the range
    # level - x inside: 0, .4, -.2; the level outside: 1
    assert matrix.factor.grad.item() == pytest.approx(0.0 + 0.4 + 1.0 - 0.2, abs=1e-6)


def test_a_weight_moves_by_shares_of_its_step_whatever_its_size():
    x = gaussian(4, 32)
    small, large = (StraightThrough(s * x, parse_format("rtn3"), 1.0) for s in (1.0, 64.0))
    assert torch.allclose(
        small.weight, large.weight, rtol=2e-3
    )  # fp16 scales round alike but for 2^-11
    levels = unpack(small.packed().codes, 3, 128).float() - 4
    assert (small.weight.abs().max() - levels.abs().max()).abs() < 0.01


def test_a_group_of_zeros_stays_zero_and_finite():
    x = gaussian(2, 64)
    x[:, :32] = 0
    matrix = StraightThrough(x, parse_format("rtn3"), 0.9)
    matrix().sum().backward()
    assert all(p.grad.isfinite().all() for p in matrix.parameters())
    assert (matrix()[:, :32] == 0).all() and (matrix.packed().dequantize()[:, :32] == 0).all()


def test_a_shrunk_minimum_keeps_the_middle():
    x = torch.tensor([[-1.0, 0.0, 0.9, 2.0]])
    decoded = StraightThrough(x, parse_format("minmax2-g4"), 0.5)().detach()
    assert decoded.tolist() == [[-0.25, 0.25, 0.75, 1.25]]  # the middle of -1 ... 2 is .5


@pytest.mark.parametrize("name", ["mse3+act", "rtn3+gptq"])
def test_a_format_that_looks_at_inputs_is_refused(name):
    with pytest.raises(ValueError, match="tune it without"):
        StraightThrough(gaussian(4, 32), parse_format(name), 1.0)


# --- slices: the top bits of a target stored at 8 bits


@pytest.mark.parametrize("bits", [2, 3, 4, 6])
def test_a_slice_is_the_top_of_what_the_target_stores(bits):
    """Nothing beside the 8-bit codes and scales is needed, also with a short last group."""
    x = gaussian(5, 70)
    whole, top = (quantize(x, parse_format(n)) for n in ("rtn8", f"slice{bits}"))
    codes = [unpack(q.codes, q.format.bits, x.numel()) for q in (whole, top)]
    assert torch.equal(codes[0] >> (8 - bits), codes[1])  # packed in the same order
    assert torch.equal(whole.scales.float() * 2 ** (8 - bits), top.scales.float())


def test_a_slice_by_hand():
    q = quantize(torch.tensor([[-1.28, 0.5, 0.004, 0.0]]), parse_format("slice2-g4"))
    assert unpack(q.codes, 2, 4).tolist() == [0, 2, 2, 2]
    middle = 0.63 / 2  # of the values 0 ... .63 that share code 2
    # the scale .64 is stored in fp16
    assert q.dequantize()[0].tolist() == pytest.approx([-0.965, middle, middle, middle], rel=5e-4)


def test_a_slice_decodes_to_the_middle_of_what_it_stands_for():
    """Over all 256 values of the word the error has mean zero: without the half it would not."""
    x = torch.arange(-128, 128).float()[None] / 128
    x[0, 0] = -1.0
    q = quantize(x, parse_format("slice4-g256"))
    assert (q.dequantize() - x).mean().abs() < 1e-6
