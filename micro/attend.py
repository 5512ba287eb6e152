"""Attention spelled out, in blocks of keys, so that a row's bits depend on what it sees and on nothing else.

The fused kernel shares rows out over threads and cuts the sum over keys by how many there are: with two threads the halves of a
batch differed in bits, and so did half of all rows once 256 masked keys more or fewer stood behind them. Here every product
has a shape that is fixed by the block alone, blocks are added first to last, and a block that a row does not see adds exact
zeros. So a pass need not read the whole cache, only the blocks up to its last row.

Shapes: B rows  T new tokens  S keys  H heads  K key-value heads  d head width
"""

from __future__ import annotations

import torch
from torch import Tensor

SPAN = 256  # keys in a block; fewer cost more calls, more read further beyond the text


def spread(mask: Tensor, rows: int, heads: int, kv_heads: int) -> Tensor:
    """An additive mask (T, S) or (B, T, S) as attend_in_blocks reads it: (BK, H/K T, S), a view where B = 1 and H = K."""
    T, S = mask.shape[-2:]
    shape = (rows, kv_heads, heads // kv_heads, T, S)
    return mask.view(-1, 1, 1, T, S).expand(shape).reshape(rows * kv_heads, -1, S)


def attend_in_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax(q k' / sqrt(d) + mask) v. q (B, H, T, d), k and v (B, K, S, d), mask as `spread` gives it.

    Cost against the fused kernel, for 16 rows of micro on one thread: a tenth more for equal S.
    """
    B, H, T, d = q.shape
    K, S = k.shape[1:3]
    q, k, v = (
        q.reshape(B * K, -1, d),
        k.flatten(0, 1),
        v.flatten(0, 1),
    )  # (BK, H/K T, d), (BK, S, d)
    blocks = [slice(start, start + SPAN) for start in range(0, S, SPAN)]
    scores = [torch.baddbmm(mask[..., b], q, k[:, b].mT, alpha=d**-0.5) for b in blocks]
    weights = torch.cat(scores, dim=-1).softmax(-1)  # (BK, H/K T, S)
    y = torch.bmm(weights[..., blocks[0]], v[:, blocks[0]])
    for b in blocks[1:]:
        y = torch.baddbmm(y, weights[..., b], v[:, b])
    return y.view(B, H, T, d)
