"""All randomness of a run passes through a Chance: `accept(probability)` and `draw(law, position)`.

Three kinds. `SeededChance`: one stream of uniforms per (seed, stream name), so that batching, order and added prompts
change nothing. `KeyedChance`: noise that depends on (seed, absolute position, token) alone, so that target and draft can
share it. `EnumeratingChance`: no randomness at all; it walks every branch with its probability, for exact tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np
from torch import Tensor

T = TypeVar("T")


class Chance(Protocol):
    """What decides. `accept`: True with the given probability. `draw`: a token of a law (V,), never one of probability 0."""

    def accept(self, probability: float) -> bool: ...

    def draw(self, law: Tensor, position: int) -> int: ...


def generator_for(seed: int, *names: str | int) -> np.random.Generator:
    """An own generator for (seed, names): the names are hashed, so neighbours share nothing."""
    text = "\0".join(map(str, (seed, *names))).encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words.tolist())))


def inverse_cdf(law: Tensor, uniform: float) -> int:
    """The token at `uniform` in [0, 1) of the law's running sum, taken in float64.

    Zero-probability tokens have no width: `side="right"` steps over those before, the clip over those behind.
    Raises ValueError where the law has no mass.
    """
    law = np.asarray(law.detach().cpu().double())
    sums = law.cumsum()
    if not sums[-1] > 0:
        raise ValueError("a law without mass cannot be drawn from")
    index = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    if index < len(law):
        return index
    return int(np.nonzero(law)[0][-1])


class SeededChance:
    """Uniforms (float64) from one stream per (seed, stream)."""

    def __init__(self, seed: int, stream: str = "") -> None:
        self._uniforms = generator_for(seed, stream)

    def uniform(self) -> float:
        """The stream's next number in [0, 1): every decision takes one."""
        return self._uniforms.random()

    def accept(self, probability: float) -> bool:
        return self.uniform() < probability

    def draw(self, law: Tensor, position: int) -> int:
        return inverse_cdf(law, self.uniform())


class KeyedChance:
    """Draws by argmax(log p + Gumbel noise of (seed, stream, position)): the same key, the same noise.

    Equal laws at one position give equal tokens, whoever draws. Daliri, Musco, Suresh 2024 (arXiv 2408.07978).
    `accept` uses an ordinary stream: the coupled rule never calls it.
    """

    def __init__(self, seed: int, stream: str = "") -> None:
        self._seed, self._stream = seed, stream
        self._uniforms = generator_for(seed, stream, "accept")

    def accept(self, probability: float) -> bool:
        return self._uniforms.random() < probability

    def draw(self, law: Tensor, position: int) -> int:
        law = np.asarray(law.detach().cpu().double())
        if not law.sum() > 0:
            raise ValueError("a law without mass cannot be drawn from")
        noise = generator_for(self._seed, self._stream, position).gumbel(size=len(law))
        with np.errstate(divide="ignore"):
            return int(np.argmax(np.log(law) + noise))


class EnumeratingChance:
    """Follows a script of choices, then takes the first branch, and remembers what else there was."""

    def __init__(self, script: tuple[int, ...] = ()) -> None:
        self._script = script
        self.taken: list[int] = []
        self.open: list[tuple[int, ...]] = []  # scripts of the branches not taken here
        self.probability = 1.0

    def _choose(self, chances: list[tuple[int, float]]) -> int:
        """One of (value, probability > 0), by the script or else the first."""
        step = len(self.taken)
        index = self._script[step] if step < len(self._script) else 0
        if step >= len(self._script):
            prefix = tuple(self.taken)
            self.open += [(*prefix, other) for other in range(1, len(chances))]
        self.taken.append(index)
        value, probability = chances[index]
        self.probability *= probability
        return value

    def accept(self, probability: float) -> bool:
        probability = float(min(1.0, probability))
        branches = [(1, probability), (0, 1.0 - probability)]
        return bool(self._choose([branch for branch in branches if branch[1] > 0]))

    def draw(self, law: Tensor, position: int) -> int:
        total = float(law.sum())
        return self._choose([(i, float(v) / total) for i, v in enumerate(law) if v > 0])


def every_branch(run: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
    """(probability, result) of every way `run(chance)` can go. The probabilities add up to 1."""
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        chance = EnumeratingChance(scripts.pop())
        result = run(chance)
        scripts += chance.open
        yield chance.probability, result
