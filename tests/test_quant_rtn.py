"""Rounding to nearest: the formula by hand, GGUF's bytes, error bounds. Laws of every format: test_quant_formats.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quant.formats import FORMATS
from quant.packing import unpack
from quant.tensor import QuantizedTensor, quantize

NAMES = ["rtn8", "rtn4", "rtn3", "rtn2", "absmax4", "absmax3"]
SHAPES = [(7, 33), (5, 31), (1, 1), (3, 96), (64, 50), (2, 1000)]
# what an fp16 scale loses: half a last place of 11 bits, or half the smallest step near zero
SCALE_ROUNDING, SMALLEST = 2.0**-11, 2.0**-25


def gaussian(*shape: int, seed: int = 0, size: float = 0.02) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size


def codes_of(q: QuantizedTensor, group: int = 32) -> torch.Tensor:
    """(O, I) codes of a matrix whose width `group` divides, in the weights' own order."""
    rows, width = q.shape
    flat = unpack(q.codes, q.format.bits, rows * width).reshape(-1, group // 2, 2)
    return flat.transpose(1, 2).reshape(rows, width)


# --- by hand ------------------------------------------------------------------------------------------


def test_the_formula_worked_by_hand():
    """x = (-4, 1.2, 3.6) at 3 bits: d = -4 / -4 = 1; codes 0, trunc(1.2 + 4.5) = 5, trunc(3.6 + 4.5) = 8 -> 7."""
    x = torch.zeros(1, 32)
    x[0, :3] = torch.tensor([-4.0, 1.2, 3.6])
    q = quantize(x, FORMATS["rtn3"])
    assert codes_of(q)[0].tolist() == [0, 5, 7] + [4] * 29
    assert q.scales.tolist() == [[1.0]]
    assert q.dequantize()[0].tolist() == [-4, 1, 3] + [0] * 29


def test_the_first_of_two_largest_gives_the_sign():
    x = torch.zeros(2, 32)
    x[0, 4], x[0, 9] = 8.0, -8.0
    x[1, 4], x[1, 9] = -8.0, 8.0
    q = quantize(x, FORMATS["rtn4"])
    assert q.scales.tolist() == [[-1.0], [1.0]]
    # the first is exact; its mirror image lies one step beyond the last code
    assert q.dequantize()[:, [4, 9]].tolist() == [[8, -7], [-8, 7]]


def test_the_naive_scheme_worked_by_hand():
    x = torch.zeros(1, 32)
    x[0, :3] = torch.tensor([-3.0, 1.2, 2.6])  # scale 3 / 3 = 1 at 3 bits; codes 0 ... 6, 3 is zero
    q = quantize(x, FORMATS["absmax3"])
    assert codes_of(q)[0].tolist() == [0, 4, 6] + [3] * 29
    assert q.dequantize()[0].tolist() == [-3, 1, 3] + [0] * 29


@pytest.mark.parametrize("name", ["rtn2", "rtn3", "rtn4", "rtn8"])
def test_all_codes_are_used(name):
    bits = FORMATS[name].bits
    codes = codes_of(quantize(gaussian(512, 320), FORMATS[name]))
    assert codes.unique().tolist() == list(range(1 << bits))


# --- GGUF ---------------------------------------------------------------------------------------------


def q4_0(x: torch.Tensor) -> np.ndarray:
    """The bytes of the gguf package's Q4_0: 18 per group of 32."""
    gguf = pytest.importorskip("gguf")
    return gguf.quants.quantize(x.numpy(), gguf.GGMLQuantizationType.Q4_0).reshape(-1, 18)


def as_gguf(q: QuantizedTensor) -> np.ndarray:
    """Our scales and codes laid side by side, (groups, 18), as Q4_0 stores them."""
    scales = q.scales.reshape(-1, 1).contiguous().view(torch.uint8).numpy()
    return np.concatenate((scales, q.codes.reshape(-1, 16).numpy()), axis=1)


def tied_groups() -> torch.Tensor:
    """Values of few sizes and both signs: the largest stands several times in a group, and halves must round."""
    steps = torch.randint(-8, 9, (64, 64), generator=torch.Generator().manual_seed(1))
    return steps * 0.125


ORACLE = {
    "float32": gaussian(64, 192),
    "bfloat16": gaussian(64, 192, seed=1).bfloat16().float(),
    "2e-5 in size": gaussian(64, 192, seed=2, size=2e-5),
    "all zero": torch.zeros(4, 64),
    "tied": tied_groups(),
    "one group zero": gaussian(1, 96).index_fill(1, torch.arange(32, 64), 0.0),
    "large": gaussian(16, 64, seed=3, size=1e4),
}


@pytest.mark.parametrize("case", ORACLE)
def test_rtn4_is_q4_0_byte_for_byte(case):
    x = ORACLE[case]
    q = quantize(x, FORMATS["rtn4"])
    assert q.bytes == x.numel() // 32 * 18
    assert np.array_equal(as_gguf(q), q4_0(x))


@pytest.mark.parametrize("case", ORACLE)
def test_rtn4_decodes_as_q4_0_does(case):
    gguf = pytest.importorskip("gguf")
    x = ORACLE[case]
    theirs = gguf.quants.dequantize(q4_0(x), gguf.GGMLQuantizationType.Q4_0).reshape(x.shape)
    assert torch.equal(quantize(x, FORMATS["rtn4"]).dequantize(), torch.from_numpy(theirs))


def rounded_too_early(x: torch.Tensor) -> torch.Tensor:
    """Codes (groups, 32) as rtn4 would have them if d were rounded to fp16 before 1/d: the fault to be caught."""
    groups = x.reshape(-1, 32)
    d = groups.gather(1, groups.abs().argmax(1, keepdim=True)) / -8
    return (groups / d.half().float() + 8.5).trunc().clamp(0, 15)


def test_a_scale_rounded_too_early_would_be_caught():
    """On float32 weights it moves codes; bfloat16 weights cannot show it: their d is exact in fp16."""
    x = ORACLE["float32"]
    low, high = (part.numpy() for part in rounded_too_early(x).to(torch.uint8).split(16, dim=1))
    faulty = low | high << 4
    assert (faulty != q4_0(x)[:, 2:]).any()
    ours = codes_of(quantize(x, FORMATS["rtn4"])).reshape(-1, 32)
    assert (rounded_too_early(x) != ours).sum() > 0
    x = ORACLE["bfloat16"]
    ours = codes_of(quantize(x, FORMATS["rtn4"])).reshape(-1, 32)
    assert torch.equal(rounded_too_early(x), ours.float())


# --- errors -------------------------------------------------------------------------------------------


def step(q: QuantizedTensor) -> torch.Tensor:
    """|d| beside each weight, (O, I)."""
    return q.scales.float().abs().repeat_interleave(q.format.group, dim=1)[:, : q.shape[1]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_errors_stay_within_half_a_step_and_a_step_where_clipped(name, shape):
    x, format = gaussian(*shape), FORMATS[name]
    before = x.clone()
    q = quantize(x, format)
    decoded, d = q.dequantize(), step(q)
    assert decoded.shape == shape and decoded.isfinite().all() and torch.equal(x, before)
    # the scale's own rounding, times at most 2^(b-1) steps; 1e-6 for the float32 product and sum
    rounding = d * (1 << (format.bits - 1)) * (SCALE_ROUNDING + 1e-6) + SMALLEST * 256
    error = (x - decoded).abs()
    group = torch.arange(shape[1]) // format.group
    for number in range(int(group[-1]) + 1):  # the short last group among them
        columns = group == number
        mine, theirs = x[:, columns], (error - rounding)[:, columns]
        extreme = mine.gather(1, mine.abs().argmax(1, keepdim=True))
        may_clip = (mine.sign() != extreme.sign()) & format.name.startswith("rtn")
        bound = torch.where(may_clip, d[:, columns], d[:, columns] / 2)
        assert (theirs <= bound).all()


def test_the_clipped_side_really_loses_up_to_a_step():
    """Opposite an extreme of the same size sits the worst case: a whole |d|."""
    x = torch.zeros(1, 32)
    x[0, 0], x[0, 1] = 4.0, -4.0
    for name in ("rtn3", "rtn4"):
        q = quantize(x, FORMATS[name])
        assert (x - q.dequantize()).abs().max() == step(q)[0, 0]


@pytest.mark.parametrize(
    ("name", "beside", "ratio", "margin"),
    [
        ("rtn4", "absmax4", 0.78, 0.01),
        ("rtn3", "absmax3", 0.59, 0.01),
        ("absmax3", "absmax4", 5.5, 0.1),
    ],
)
def test_squared_errors_on_gaussian_weights_are_those_of_the_literature(
    name, beside, ratio, margin
):
    """65,536 groups: the ratio's standard error is below .003 (.02 for 5.5), the published figure rounded at its last digit."""
    x = gaussian(4096, 512, size=1.0)

    def error(format: str) -> float:
        return float((x - quantize(x, FORMATS[format]).dequantize()).double().square().mean())

    assert error(name) / error(beside) == pytest.approx(ratio, abs=margin)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "largest"), [("rtn3", 65504 * 4), ("absmax3", 65504 * 3)])
def test_a_scale_beyond_fp16_is_refused_naming_the_tensor(name, largest):
    x = torch.zeros(1, 32)
    x[0, 0] = largest
    assert quantize(x, FORMATS[name]).dequantize()[0, 0].abs() == largest
    x[0, 0] = largest * 1.01
    with pytest.raises(ValueError, match="layers.3.up needs a scale beyond float16's 65504"):
        quantize(x, FORMATS[name], "layers.3.up")
