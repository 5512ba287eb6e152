"""A byte budget spent where it buys most acceptance: greedy, one matrix one bit at a time, each gain measured.

All matrices start at 2 bits. A move gives one matrix one bit more; its worth is (alpha after - alpha before) / bytes added, on the choosing
prompts. The move worth most is made until the largest budget is spent. Gains shrink as the draft improves, so a gain measured earlier is
taken as the most a move may now be worth, and only the front runner is measured again (Minoux 1978, lazy greedy: exact where gains
shrink, which here is an assumption). A mix is the last state within its budget.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

WIDTHS = (2, 3, 4)
FORMAT = "mse{bits}-fp8+gptq"


@dataclass(frozen=True)
class State:
    """bits of each matrix; bytes of all; alpha on the choosing prompts."""

    bits: dict[str, int]
    bytes: int
    alpha: float

    @property
    def formats(self) -> dict[str, str]:
        return formats_of(self.bits)


def formats_of(bits: Mapping[str, int]) -> dict[str, str]:
    return {name: FORMAT.format(bits=b) for name, b in bits.items()}


def search(
    matrices: list[str], measure: Callable[[dict[str, int]], State], budget: int
) -> list[State]:
    """States from all-2-bits on, each a move better than the one before, none above `budget` bytes.

    measure: bits of each matrix -> State. A move that does not fit is dropped; others may still fit.
    """
    now = measure(dict.fromkeys(matrices, WIDTHS[0]))
    path, states = [now], {}
    queue: list[tuple[float, str, int]] = []  # -gain per byte, name, len(path) when measured

    def offer(name: str) -> None:
        if now.bits[name] == WIDTHS[-1]:
            return
        after = measure(now.bits | {name: now.bits[name] + 1})
        if after.bytes <= budget:
            worth = (after.alpha - now.alpha) / (after.bytes - now.bytes)
            heapq.heappush(queue, (-worth, name, len(path)))
            states[name] = after

    for name in matrices:
        offer(name)
    while queue:
        worth, name, when = heapq.heappop(queue)
        if when < len(path):  # measured in an earlier state
            offer(name)
            continue
        if worth >= 0:
            break  # nothing left helps
        now = states[name]
        path.append(now)
        offer(name)
    return path


def within(path: list[State], budget: int) -> State:
    """The last state of at most `budget` bytes. Raises ValueError where there is none."""
    fitting = [state for state in path if state.bytes <= budget]
    if not fitting:
        raise ValueError(f"a budget of {budget} bytes is below the least mix, {path[0].bytes}")
    return fitting[-1]
