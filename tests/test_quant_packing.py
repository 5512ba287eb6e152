"""Codes to bytes and back, for every width."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quant.packing import pack, packed_size, unpack

# values -> bytes at 3 bits, computed by hand: 32 x 3 / 8 = 12; 1000 x 3 / 8 = 375
THREE_BITS = {32: 12, 64: 24, 80: 30, 96: 36, 288: 108, 1000: 375}


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 9, *THREE_BITS])
def test_every_code_survives(bits, count):
    order = torch.randperm(max(count, 1 << bits), generator=torch.Generator().manual_seed(count))
    codes = (order % (1 << bits)).to(torch.uint8)[:count]
    packed = pack(codes, bits)
    assert packed.dtype == torch.uint8 and len(packed) == packed_size(count, bits)
    assert torch.equal(unpack(packed, bits, count), codes)


@pytest.mark.parametrize(("count", "size"), THREE_BITS.items())
def test_three_bits_take_their_share_of_bytes(count, size):
    assert packed_size(count, 3) == size
    assert len(pack(torch.full((count,), 7, dtype=torch.uint8), 3)) == size


@given(st.integers(1, 8), st.data())
def test_any_codes_survive_in_the_least_bytes(bits, data):
    codes = data.draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=70))
    packed = pack(torch.tensor(codes, dtype=torch.uint8), bits)
    assert len(packed) == -(-len(codes) * bits // 8)
    assert unpack(packed, bits, len(codes)).tolist() == codes


@given(st.integers(1, 8), st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_the_stream_is_little_endian(bits, raw):
    """Read as one whole number, the bytes are sum of code_i x 2^(i b)."""
    codes = [bit * ((1 << bits) - 1) for bit in raw]
    packed = bytes(pack(torch.tensor(codes, dtype=torch.uint8), bits).tolist())
    assert int.from_bytes(packed, "little") == sum(c << i * bits for i, c in enumerate(codes))


def test_four_bits_put_the_first_code_low():
    assert pack(torch.tensor([0x3, 0xA, 0xF], dtype=torch.uint8), 4).tolist() == [0xA3, 0x0F]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="code 8 does not fit 3 bits"):
        pack(torch.tensor([0, 8, 1], dtype=torch.uint8), 3)
    with pytest.raises(ValueError, match="code -1 does not fit 3 bits"):
        pack(torch.tensor([0, -1]), 3)
    for bits in (0, 9):
        with pytest.raises(ValueError, match="1 to 8 bits"):
            pack(torch.zeros(8, dtype=torch.uint8), bits)
    for size in (11, 13):
        with pytest.raises(ValueError, match=f"take 12 bytes, not {size}"):
            unpack(torch.zeros(size, dtype=torch.uint8), 3, 32)
