"""Keys and values of what was read so far, in one preallocated block.

A cache holds the tokens of slots 0 ... length - 1. Rows of one length advance together (`length` is an int); rows of
different lengths are `ragged` (`length` is a tensor, one entry a row). Slots behind the length may hold what a cut-off
draft or a padding row left there: every reader masks them, and the next write covers them. They start as zeros, because
a masked NaN still spoils the sum (0 x NaN is NaN).
"""

from __future__ import annotations

import torch
from torch import Tensor

from micro.attend import SPAN


class KVCache:
    """Keys and values (layers, rows, heads, slots, width) each.

    `context` is the most tokens it may hold; slots beyond it are room for `lanes` of padding.
    """

    def __init__(
        self,
        shape: tuple[int, int, int, int, int],
        context: int,
        lanes: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.context, self.lanes = context, lanes
        self.length: int | Tensor = 0

    @property
    def rows(self) -> int:
        return self.keys.shape[1]

    @property
    def slots(self) -> int:
        return self.keys.shape[3]

    @property
    def ragged(self) -> bool:
        return not isinstance(self.length, int)

    @property
    def longest(self) -> int:
        return int(self.length.max()) if self.ragged else self.length

    def check(self, rows: int, count: int) -> None:
        """Raises ValueError, changing nothing, where `count` more tokens in each of `rows` do not fit."""
        if rows != self.rows:
            raise ValueError(f"{rows} rows of tokens for a cache of {self.rows}")
        if self.longest + count > self.context:
            raise ValueError(
                f"{self.longest} + {count} tokens exceed the context of {self.context}"
            )

    def seen(self, count: int) -> int:
        """Slots that a pass of `count` rows attends over. In lanes and ragged: whole blocks, of which the mask hides the rest."""
        end = self.longest + count
        return min(self.slots, -(-end // SPAN) * SPAN) if self.lanes or self.ragged else end

    def write(self, layer: int, k: Tensor, v: Tensor, slots: slice | Tensor):
        """Put k, v (B, K, T, d) into `slots` of a layer; returns all keys and values (B, K, S, d) a pass may see."""
        keys, values = self.keys[layer], self.values[layer]
        if isinstance(slots, slice):
            keys[:, :, slots], values[:, :, slots] = k, v
        else:
            rows = torch.arange(self.rows, device=keys.device)[:, None]  # (B, 1)
            keys[rows, :, slots], values[rows, :, slots] = k.transpose(1, 2), v.transpose(1, 2)
        seen = self.seen(k.shape[2])
        return keys[:, :, :seen], values[:, :, :seen]

    def advance(self, count: int) -> None:
        """Count the last `count` written tokens as held."""
        self.length = self.length + count

    def truncate(self, length: int) -> None:
        """Forget everything from slot `length` on. Costs nothing: the numbers stay until written over."""
        if self.ragged or not 0 <= length <= self.length:
            raise ValueError(f"cannot cut a cache of length {self.length} to {length}")
        self.length = length

    def gather(self, start: int, kept: list[int]) -> None:
        """Keep of the slots from `start` on only start + kept[0], start + kept[1], ...: a tree's accepted path."""
        if kept != list(range(len(kept))):  # a first-child chain already lies in place
            source = torch.tensor(kept, device=self.keys.device) + start
            end = start + len(kept)
            self.keys[:, :, :, start:end] = self.keys[:, :, :, source]
            self.values[:, :, :, start:end] = self.values[:, :, :, source]
        self.truncate(start + len(kept))

    def copy_from(self, other: KVCache, start: int, end: int) -> None:
        """Hold `other`'s entries of the slots start ... end - 1 behind the own ones before them, and nothing further.

        Both hold one text a row, all of one length; `other` as many as this one, or a single one for all rows. Raises ValueError, changing nothing, where either holds too little.
        """
        if self.ragged or not 0 <= start <= self.length or not start <= end <= other.length:
            raise ValueError(
                f"cannot copy the slots {start} to {end} of {other.length} behind {self.length}"
            )
        self.keys[:, :, :, start:end] = other.keys[:, :, :, start:end]
        self.values[:, :, :, start:end] = other.values[:, :, :, start:end]
        self.length = end

    def load_row(self, row: int, other: KVCache) -> None:
        """Copy another cache's single text into `row`, making this one ragged."""
        if not self.ragged:
            self.length = torch.zeros(self.rows, dtype=torch.long, device=self.keys.device)
        n = other.length
        self.keys[:, row, :, :n] = other.keys[:, 0, :, :n]
        self.values[:, row, :, :n] = other.values[:, 0, :, :n]
        self.length[row] = n
