"""Rounding in groups: the formula by hand, GGUF's bytes, error bounds, shapes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quant.formats import FORMATS, Format, QuantizedTensor, parse_format, quantize
from quant.packing import unpack

NAMES = list(FORMATS)
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


# --- shapes and small groups --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_short_last_group_is_rounded_as_if_it_stood_alone(name, shape):
    x, format = gaussian(*shape), FORMATS[name]
    q = quantize(x, format)
    full = shape[1] - shape[1] % 32
    if full < shape[1]:
        alone = quantize(x[:, full:], format)
        assert torch.equal(q.dequantize()[:, full:], alone.dequantize())
    assert q.bytes == format.stored_bytes(shape) == q.codes.numel() + 2 * q.scales.numel()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_input_gives_the_same_bytes_whatever_memory_holds(name):
    x = gaussian(7, 33)
    first = quantize(x, FORMATS[name])
    torch.full((1 << 16,), float("nan"))  # garbage for the next buffers to land on
    wide = gaussian(33, 7)
    for again in (x, x.T.contiguous().T, x.repeat(1, 2)[:, :33]):
        q = quantize(again, FORMATS[name])
        assert torch.equal(q.codes, first.codes) and torch.equal(q.scales, first.scales)
    a, b = quantize(wide.T, FORMATS[name]), quantize(wide.T.contiguous(), FORMATS[name])
    assert torch.equal(a.codes, b.codes) and torch.equal(a.scales, b.scales)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_are_exact(name):
    x = gaussian(4, 96)
    x[:, 32:64] = 0
    assert (quantize(x, FORMATS[name]).dequantize()[:, 32:64] == 0).all()


@pytest.mark.parametrize("size", [1e-6, 5e-8, 1e-9, 1e-38, 1e-40, 1e-45])
@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_group_stays_finite(name, size):
    """Below about 6e-8 an fp16 scale is zero; below 3e-39, 1/d is infinite."""
    x = gaussian(3, 64, size=1.0) * size
    decoded = quantize(x, FORMATS[name]).dequantize()
    assert decoded.isfinite().all()
    assert (decoded - x).abs().max() <= 4 * size + SMALLEST * 256


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused_naming_the_tensor(value):
    x = gaussian(4, 64)
    x[2, 40] = value
    with pytest.raises(ValueError, match="layers.3.up holds NaN or infinity"):
        quantize(x, FORMATS["rtn4"], "layers.3.up")


@pytest.mark.parametrize(("name", "largest"), [("rtn3", 65504 * 4), ("absmax3", 65504 * 3)])
def test_a_scale_beyond_fp16_is_refused_naming_the_tensor(name, largest):
    x = torch.zeros(1, 32)
    x[0, 0] = largest
    assert quantize(x, FORMATS[name]).dequantize()[0, 0].abs() == largest
    x[0, 0] = largest * 1.01
    with pytest.raises(ValueError, match="layers.3.up needs a scale beyond float16's 65504"):
        quantize(x, FORMATS[name], "layers.3.up")


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4), (4, 0)], ids=str)
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(ValueError, match="only matrices are quantized"):
        quantize(torch.zeros(shape), FORMATS["rtn4"])


# --- names --------------------------------------------------------------------------------------------


def test_bits_per_weight_are_those_of_the_table():
    expected = {"rtn8": 8.5, "rtn4": 4.5, "rtn3": 3.5, "rtn2": 2.5, "absmax4": 4.5, "absmax3": 3.5}
    assert {name: format.bits_per_weight for name, format in FORMATS.items()} == expected
    for format in FORMATS.values():
        assert 8 * format.stored_bytes((64, 320)) / (64 * 320) == format.bits_per_weight


def test_names_parse():
    assert parse_format("rtn3-g64") == Format("rtn3-g64", 3, group=64)
    assert parse_format("absmax5").bits == 5
    assert all(parse_format(name) is format for name, format in FORMATS.items())


@pytest.mark.parametrize(
    "name", ["", "rtn", "rtn9", "rtn1", "rtn3-g", "rtn3-g0", "rtn3-g7", "xyz4", "RTN4", "rtn4 "]
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="unknown format|group must be even"):
        parse_format(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bits", 1),
        ("bits", 9),
        ("bits", 3.0),
        ("group", 0),
        ("group", 7),
        ("scheme", "x"),
        ("scale", "fp8"),
    ],
)
def test_a_format_that_cannot_be_is_refused_by_field(field, value):
    with pytest.raises(ValueError, match=f"{field}"):
        Format(**({"name": "mine", "bits": 4} | {field: value}))
