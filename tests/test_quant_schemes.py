"""Each scheme by hand, beside GGUF's bytes where it has the format, and its error on normal weights beside the literature's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quant import mse
from quant.codebook import E2M1, code_fp, decode_fp, normal_float
from quant.formats import parse_format
from quant.packing import unpack
from quant.scales import SCALES
from quant.scheme import inverse
from quant.tensor import QuantizedTensor, quantize


def gaussian(*shape: int, seed: int = 0, size: float = 0.02) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size


def encoded(values: list[float], name: str) -> QuantizedTensor:
    return quantize(torch.tensor([values]), parse_format(name))


# --- by hand ------------------------------------------------------------------------------------------


def test_minmax_by_hand():
    q = encoded([-1.0, 0.0, 0.9, 2.0], "minmax2-g4")
    assert unpack(q.codes, 2, 4).tolist() == [0, 2, 1, 3]  # packed in the order 0, 2, 1, 3
    assert (q.scales.tolist(), q.minima.tolist()) == ([[1.0]], [[-1.0]])
    assert q.dequantize().tolist() == [[-1, 0, 1, 2]]


def test_minmax_takes_a_group_that_leans_to_one_side():
    x = 5 + gaussian(8, 64, size=0.1)
    near, far = (quantize(x, parse_format(n)).dequantize() for n in ("minmax3", "rtn3"))
    assert (x - near).abs().max() < 0.05 < (x - far).abs().max()


def test_the_searched_scale_by_hand():
    x = [-2.0, -1.5, 1.0, 1.0]
    q = encoded(x, "mse2-g4")
    # .9 in fp16
    assert q.scales[0, 0] == torch.tensor(0.9).half()
    assert q.dequantize()[0].tolist() == pytest.approx([-1.8, -1.8, 0.9, 0.9], abs=1e-3)
    plain = encoded(x, "rtn2-g4").dequantize()
    assert plain.tolist() == [[-2, -1, 1, 1]] and (plain - torch.tensor(x)).square().sum() == 0.25


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_no_other_scale_is_much_better(bits):
    """A search 40 times as fine finds at most 2% less error over all groups."""
    groups = gaussian(400, 32, size=1.0)
    found = mse.squared_error(groups, mse.fit(groups, bits)[0], bits, None)
    first, _ = mse.fit_rtn(groups, bits)
    fine = [
        mse.squared_error(groups, f * first, bits, None) for f in torch.linspace(-1.3, 1.3, 2001)
    ]
    least = torch.stack(fine).amin(0)
    assert float(found.sum() / least.sum()) < 1.02


def test_importance_moves_the_scale_towards_what_matters():
    groups = gaussian(50, 32, size=1.0)
    importance = torch.ones(50, 32)
    importance[:, :4] = 100.0
    plain, weighed = (mse.fit(groups, 3, w)[0] for w in (None, importance))
    for w, better, worse in ((importance, weighed, plain), (None, plain, weighed)):
        assert (
            mse.squared_error(groups, better, 3, w).sum()
            < mse.squared_error(groups, worse, 3, w).sum()
        )
    same = mse.fit(groups, 3, torch.full((50, 32), 4.0))[0]  # equal weights change nothing
    assert torch.allclose(same, plain, rtol=1e-5)


NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0)  # fmt: skip


def test_the_normal_float_table_is_the_published_one():
    """QLoRA, appendix E. Its authors computed in double and stored in float32; 2e-7 allows for another library's quantile."""
    assert normal_float(4).tolist() == pytest.approx(NF4, abs=2e-7)
    for bits in range(2, 9):
        table = normal_float(bits)
        assert len(table.unique()) == 1 << bits and (table == 0).sum() == 1
        assert (table.min(), table.max()) == (-1, 1)


def test_normal_float_by_hand():
    q = encoded([-2.0, 0.2, 1.0, 0.0], "nf4-g4")
    assert q.dequantize()[0].tolist() == pytest.approx([-2, 0.15916, 0.88142, 0], abs=1e-4)


def test_the_four_bit_float_by_hand():
    one = torch.tensor(1.0)
    x = torch.tensor([6.0, -2.4, 2.5, 0.25, -0.25, -0.26, 100.0])
    codes = code_fp(x, one, None, 4)
    assert codes.tolist() == [
        7,
        12,
        4,
        0,
        0,
        9,
        7,
    ]  # ties go to the smaller; no negative zero; the end is clipped
    assert decode_fp(codes, one, None, 4).tolist() == [6, -2, 2, 0, 0, -0.5, 6]
    every = decode_fp(torch.arange(16, dtype=torch.uint8), one, None, 4)
    assert every[:8].tolist() == list(E2M1) and torch.equal(every[8:], -every[:8])


# --- scales -------------------------------------------------------------------------------------------


def test_scales_of_a_byte_by_hand():
    fp8, e8m0 = SCALES["fp8"], SCALES["e8m0"]
    scales = torch.tensor([[0.7, 44.8]])
    unit = fp8.unit(scales)
    assert unit.tolist() == pytest.approx([0.1]) and unit.dtype == torch.float32
    assert fp8.load(fp8.store(scales, unit), unit).tolist()[0] == pytest.approx([0.7, 44.8])
    stored = e8m0.store(torch.tensor([0.7, 1.0, 1.34, 0.0, 2.0**-127]), None)
    assert stored.tolist() == [127, 127, 128, 0, 0]
    assert e8m0.load(stored, None)[:3].tolist() == [1, 1, 2]


def test_fp8_saturates():
    """A scale fitted later (by gptq) may exceed the unit's 448. Some versions of torch's cast saturate too, some give NaN."""
    fp8, unit = SCALES["fp8"], torch.ones(1)
    beyond = torch.tensor([449.0, 1e5, -1e5])
    assert fp8.load(fp8.store(beyond, unit), unit).tolist() == [448, 448, -448]


@pytest.mark.parametrize("name", ["rtn4-fp8", "mse3-fp8", "nvfp4", "absmax4-e8m0", "mxfp4"])
def test_a_scale_of_a_byte_is_within_its_type_s_rounding(name):
    """E4M3 keeps 3 bits of fraction, so it errs by 1/16 at most; the power of two is 3/4 to 3/2 of the scale."""
    f = parse_format(name)
    x = gaussian(64, 128)
    q = quantize(x, f)
    beside = quantize(x, parse_format(f"{f.scheme}{f.bits}-g{f.group}")).scale_values()
    ratio = q.scale_values() / beside
    low, high = (15 / 16, 17 / 16) if f.scale == "fp8" else (3 / 4, 3 / 2)
    # .001: the fp16 scale's own rounding
    assert ((ratio >= low - 0.001) & (ratio <= high + 0.001)).all()
    assert ratio.std() > 0  # and it is rounded at all


# --- GGUF ---------------------------------------------------------------------------------------------


def gguf_blocks(x: torch.Tensor, kind: str, size: int) -> np.ndarray:
    """The gguf package's bytes, (groups of 32, size)."""
    gguf = pytest.importorskip("gguf")
    return gguf.quants.quantize(x.numpy(), gguf.GGMLQuantizationType[kind]).reshape(-1, size)


def gguf_decoded(blocks: np.ndarray, kind: str, shape: tuple) -> torch.Tensor:
    gguf = pytest.importorskip("gguf")
    found = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    return torch.from_numpy(found.reshape(shape))


def as_bytes(tensor: torch.Tensor) -> np.ndarray:
    """(groups, bytes each)."""
    return tensor.reshape(-1, 1).contiguous().view(torch.uint8).numpy()


def tied_groups() -> torch.Tensor:
    steps = torch.randint(-8, 9, (64, 64), generator=torch.Generator().manual_seed(1))
    return steps * 0.125


ORACLE = {
    "float32": gaussian(64, 192),
    "bfloat16": gaussian(64, 192, seed=1).bfloat16().float(),
    "2e-5 in size": gaussian(64, 192, seed=2, size=2e-5),
    "all zero": torch.zeros(4, 64),
    "tied": tied_groups(),
    "one group zero": gaussian(1, 96).index_fill(1, torch.arange(32, 64), 0.0),
    "large": gaussian(16, 64, seed=3, size=1e3),
}


@pytest.mark.parametrize("case", ORACLE)
def test_minmax4_is_q4_1_byte_for_byte(case):
    x = ORACLE[case]
    q = quantize(x, parse_format("minmax4"))
    theirs = gguf_blocks(x, "Q4_1", 20)
    ours = [as_bytes(q.scales), as_bytes(q.minima), q.codes.reshape(-1, 16).numpy()]
    assert np.array_equal(np.concatenate(ours, axis=1), theirs)
    assert torch.equal(q.dequantize(), gguf_decoded(theirs, "Q4_1", x.shape))


@pytest.mark.parametrize("case", ORACLE)
def test_mxfp4_is_gguf_s_byte_for_byte(case):
    x = ORACLE[case]
    q = quantize(x, parse_format("mxfp4"))
    theirs = gguf_blocks(x, "MXFP4", 17)
    ours = [as_bytes(q.scales), q.codes.reshape(-1, 16).numpy()]
    assert np.array_equal(np.concatenate(ours, axis=1), theirs)
    assert torch.equal(q.dequantize(), gguf_decoded(theirs, "MXFP4", x.shape))


@pytest.mark.parametrize("case", ORACLE)
def test_absmax8_is_q8_0_but_for_exact_halves(case):
    """Those Q8_0 rounds away from zero and absmax to even. Q8_0's order of codes is the plain one."""
    x = ORACLE[case]
    q = quantize(x, parse_format("absmax8"))
    theirs = gguf_blocks(x, "Q8_0", 34)
    codes = unpack(q.codes, 8, x.numel()).reshape(-1, 16, 2).transpose(1, 2).reshape(-1, 32)
    ours = codes.numpy().astype(np.int16) - 127
    scaled = x.reshape(-1, 32) * inverse(x.reshape(-1, 32).abs().amax(1, keepdim=True) / 127)
    halves = (scaled.abs() % 1 == 0.5).numpy()
    away = np.where(halves, np.sign(scaled.numpy()) * np.ceil(scaled.abs().numpy()), ours)
    assert np.array_equal(away, theirs[:, 2:].view(np.int8))
    assert np.array_equal(as_bytes(q.scales), theirs[:, :2])
    assert halves.sum() == 0 or case in ("bfloat16", "tied")


# --- errors on normal weights ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "beside", "ratio"),
    [
        ("mse4", "absmax4", 0.69),
        ("minmax4", "absmax4", 0.65),
        ("mse3", "absmax3", 0.51),
        ("minmax3", "absmax3", 0.55),
    ],
)
def test_squared_errors_on_normal_weights_are_those_of_the_literature(name, beside, ratio):
    """65,536 groups: the ratio's standard error is below .003; .01 is the last digit of the published figures."""
    x = gaussian(4096, 512, size=1.0)

    def error(format: str) -> float:
        decoded = quantize(x, parse_format(format)).dequantize()
        return float((x - decoded).double().square().mean())

    assert error(name) / error(beside) == pytest.approx(ratio, abs=0.01)
