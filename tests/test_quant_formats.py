"""Laws that every format keeps: shapes, short groups, zeros, tiny and huge weights, bytes, names. A newcomer in the table is held to them."""

from __future__ import annotations

import pytest
import torch

from quant.formats import FORMATS, Format, parse_format
from quant.scales import SCALES
from quant.tensor import QuantizedTensor, quantize

# those of the table, and what only parsing reaches
MORE = ("nf2", "nf8", "fp4-g64", "minmax8-g16", "mse3+act", "rtn3+gptq", "minmax3+gptq", "mxfp4+gptq",
        "nf3-fp8+gptq", "had+mse2-g16-fp8+act+gptq", "absmax3-e8m0+gptq", "had+rtn4-fp8")  # fmt: skip
NAMES = [*FORMATS, *MORE]
SHAPES = [(7, 33), (5, 31), (1, 1), (3, 96), (64, 50), (2, 300)]
SMALLEST = 2.0**-25  # half the smallest step of an fp16 scale


def gaussian(*shape: int, seed: int = 0, size: float = 0.02) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size


def moment_of(width: int) -> torch.Tensor:
    """Second moments of correlated inputs."""
    inputs = gaussian(4 * width, width, seed=5, size=1.0).cumsum(1)
    return (inputs.T @ inputs).double() / len(inputs)


def quantized(x: torch.Tensor, format: Format) -> QuantizedTensor:
    return quantize(x, format, moment=moment_of(x.shape[1]) if format.needs_inputs else None)


def same(a: QuantizedTensor, b: QuantizedTensor) -> bool:
    return a.parts.keys() == b.parts.keys() and all(
        torch.equal(part, b.parts[name]) for name, part in a.parts.items()
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_shape_size_and_input_survive(name, shape):
    """The size on disk is the accounting; errors are smaller than the weights themselves."""
    x, format = gaussian(*shape), parse_format(name)
    before = x.clone()
    q = quantized(x, format)
    decoded = q.dequantize()
    assert decoded.shape == shape and decoded.is_contiguous() and decoded.dtype == torch.float32
    assert decoded.isfinite().all() and torch.equal(x, before)
    assert q.bytes == format.stored_bytes(shape)
    assert {n: tuple(part.shape) for n, part in q.parts.items()} == format.stored_shapes(shape)
    # the worst are 2 bits: .36 of the power is lost (the table's mean; 1 is decoding to zeros)
    if x.numel() > 90 and not format.needs_inputs:
        assert (x - decoded).square().mean() < 0.75 * x.square().mean()


@pytest.mark.parametrize("name", NAMES)
def test_bits_per_weight_are_what_a_large_matrix_takes(name):
    format = parse_format(name)
    tensor_wide = 32 if SCALES[format.scale].has_unit else 0
    assert (8 * format.stored_bytes((64, 384)) - tensor_wide) / (64 * 384) == format.bits_per_weight


@pytest.mark.parametrize("rest", [1, 3, 14])
@pytest.mark.parametrize("name", [n for n in NAMES if not parse_format(n).needs_inputs])
def test_a_short_last_group_is_rounded_as_if_it_stood_alone(name, rest):
    format = parse_format(name)
    full = 2 * format.group
    x = gaussian(5, full + rest)
    q, alone = quantized(x, format), quantized(x[:, full:], format)
    has_unit = SCALES[format.scale].has_unit  # taken from the whole tensor
    assert has_unit or torch.equal(q.dequantize()[:, full:], alone.dequantize())
    # and it does not reach into the groups before it
    x[:, full:] = 0.0
    again = quantized(x, format).dequantize()
    assert has_unit or torch.equal(again[:, :full], q.dequantize()[:, :full])
    assert (again[:, full:] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_input_gives_the_same_bytes_whatever_memory_holds(name):
    x, format = gaussian(7, 33), parse_format(name)
    first = quantized(x, format)
    torch.full((1 << 16,), float("nan"))  # garbage for the next buffers to land on
    for again in (x, x.T.contiguous().T, x.repeat(1, 2)[:, :33]):
        assert same(quantized(again, format), first)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_are_exact(name):
    format = parse_format(name)
    x = gaussian(4, 3 * format.group)
    x[:, format.group : 2 * format.group] = 0
    if not format.compensated:  # which passes other groups' errors on to the zeros
        decoded = quantized(x, format).dequantize()
        assert (decoded[:, format.group : 2 * format.group] == 0).all()
    x = torch.zeros(3, 2 * format.group + 2)
    assert (quantized(x, format).dequantize() == 0).all()


@pytest.mark.parametrize("size", [1e-6, 5e-8, 1e-9, 1e-38, 1e-40, 1e-45])
@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_group_stays_finite(name, size):
    """Below about 6e-8 an fp16 scale is zero; below 3e-39, 1 / scale is infinite. All errors are of the weights' own size."""
    x = gaussian(3, 64, size=1.0) * size
    decoded = quantized(x, parse_format(name)).dequantize()
    assert decoded.isfinite().all()
    # 4: the largest of these weights is 3.2; up to 256 steps of an fp16 scale's own rounding; compensation may pass on more
    room = 4 if not parse_format(name).compensated else 40
    assert (decoded - x).abs().max() <= room * size + SMALLEST * 256 + 2.0**-126


@pytest.mark.parametrize("name", NAMES)
def test_large_weights_are_encoded_or_refused_by_name(name):
    """1e30 is finite in float32 and beyond float16: what is not refused must decode to numbers of that size."""
    x, format = gaussian(4, 64, size=1e30), parse_format(name)
    if format.scale == "fp16":
        with pytest.raises(ValueError, match="layers.3.up needs a scale beyond float16's 65504"):
            quantize(x, format, "layers.3.up", moment_of(64))
    else:
        decoded = quantized(x, format).dequantize()
        assert decoded.isfinite().all() and decoded.abs().max() > 1e30


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_is_refused_naming_the_tensor(name, value):
    x = gaussian(4, 64)
    x[2, 40] = value
    with pytest.raises(ValueError, match="layers.3.up holds NaN or infinity"):
        quantize(x, parse_format(name), "layers.3.up", moment_of(64))


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4), (4, 0)], ids=str)
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(ValueError, match="only matrices are quantized"):
        quantize(torch.zeros(shape), FORMATS["rtn4"])


def test_moments_that_are_missing_or_another_matrix_s_are_refused_by_name():
    x, format = gaussian(4, 64), parse_format("rtn3+gptq")
    with pytest.raises(ValueError, match="layers.3.up: rtn3.gptq needs the second moments"):
        quantize(x, format, "layers.3.up")
    for moment in (moment_of(32), moment_of(64) * float("nan")):
        with pytest.raises(ValueError, match=r"layers.3.up: moments must be finite and \(64, 64\)"):
            quantize(x, format, "layers.3.up", moment)


# --- names --------------------------------------------------------------------------------------------


def test_names_parse():
    assert parse_format("rtn3-g64") == Format("rtn3-g64", 3, group=64)
    assert parse_format("absmax5").bits == 5
    assert all(parse_format(name) is format for name, format in FORMATS.items())
    whole = parse_format("had+mse3-g64-fp8+act+gptq")
    assert whole == Format("had+mse3-g64-fp8+act+gptq", 3, 64, "mse", "fp8", True, True, True)
    assert parse_format("mxfp4") == Format("mxfp4", 4, 32, "fp", "e8m0")
    assert parse_format("nvfp4") == Format("nvfp4", 4, 16, "fp", "fp8")


EXPECTED = {"rtn8": 8.5, "rtn4": 4.5, "rtn3": 3.5, "rtn2": 2.5, "absmax3": 3.5, "minmax4": 5.0, "minmax3": 4.0, "nf4": 4.5,
            "mxfp4": 4.25, "nvfp4": 4.5, "mse2-g16": 3.0, "mse3-g128": 3.125, "mse3-fp8": 3.25, "mse2-g16-fp8": 2.5}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_bits_per_weight_are_the_published_ones(name):
    assert parse_format(name).bits_per_weight == EXPECTED[name]


@pytest.mark.parametrize(
    "name",
    ["", "rtn", "rtn9", "rtn1", "rtn3-g", "rtn3-g0", "xyz4", "RTN4", "rtn4 ", "rtn3+gptq+act", "gptq", "had+"],
)  # fmt: skip
def test_other_names_are_refused_and_the_error_lists_what_exists(name):
    with pytest.raises(ValueError, match="unknown format") as error:
        parse_format(name)
    text = str(error.value)
    assert "\n" not in text
    assert all(word in text for word in ("rtn4", "mxfp4", "minmax", "fp8", "e8m0", "+gptq"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rtn3-g7", "group must be even"),
        ("rtn3-fp7", "scale 'fp7' is none of fp16, fp8, e8m0"),
        ("rtn3-e8m0", "scale e8m0 holds no sign"),
        ("minmax3-fp8", "scale and minimum of minmax are fp16"),
        ("fp3", "bits of fp must be 4, not 3"),
        ("had+mse3-g48", "group must be a power of two"),
        ("rtn3+act", "weighs a search of the scale, as mse makes"),
    ],
)
def test_what_does_not_go_together_is_refused(name, why):
    with pytest.raises(ValueError, match=why):
        parse_format(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [("bits", 1), ("bits", 9), ("bits", 3.0), ("group", 0), ("group", 7), ("scheme", "x"), ("scale", "x")],
)  # fmt: skip
def test_a_format_that_cannot_be_is_refused_by_field(field, value):
    with pytest.raises(ValueError, match=f"{field}"):
        Format(**({"name": "mine", "bits": 4} | {field: value}))
