"""A model whose answers can be looked up: logits as a function of the text, and a cache that is what it was fed.

The smallest thing the loop accepts as a Model, and the one that exactness is shown with: the law of its texts is known in closed
form, and since its logits depend on the whole cache, whatever a loop forgets to roll back, feeds twice or leaves out changes
every later law.

    model = TableModel(3, lambda prefix: [0.0, len(prefix) % 2, prefix[-1]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from micro.chance import generator_for
from micro.sampling import Sampling

Logits = Callable[[tuple[int, ...]], Sequence[float]]


class TokenCache:
    """A cache that is nothing but what it was fed."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> None:
        """Raises ValueError where there is less to keep."""
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot cut a cache of length {len(self.tokens)} to {length}")
        del self.tokens[length:]

    def gather(self, start: int, kept: list[int]) -> None:
        """Keep of the tokens from `start` on only start + kept[0], start + kept[1], ..."""
        self.tokens[start:] = [self.tokens[start + place] for place in kept]

    def copy_from(self, other: TokenCache, start: int, end: int) -> None:
        """Hold `other`'s tokens start ... end - 1 behind the own ones before them. Raises ValueError where there are too few."""
        if not 0 <= start <= self.length or not start <= end <= other.length:
            raise ValueError(
                f"cannot copy the tokens {start} to {end} of {other.length} behind {self.length}"
            )
        self.tokens[start:] = other.tokens[start:end]


class TableModel:
    """Logits (V,) of the next token as a function of the tokens read so far, the last one included; one text at a time."""

    device = torch.device("cpu")

    def __init__(self, vocab: int, logits: Logits, context: int = 64, dtype=torch.float64) -> None:
        self.vocab, self.context, self._logits, self._dtype = vocab, context, logits, dtype
        self._known: dict[tuple[int, ...], Tensor] = {}

    def logits(self, prefix: Sequence[int]) -> Tensor:
        """(V,) after `prefix`, worked out once."""
        prefix = tuple(prefix)
        if prefix not in self._known:
            values = np.asarray(self._logits(prefix), dtype=np.float64)
            self._known[prefix] = torch.from_numpy(values).to(self._dtype)
        return self._known[prefix]

    def new_cache(self, rows: int = 1, lanes: int = 0) -> TokenCache:
        return TokenCache()

    def forward(
        self,
        tokens: Tensor,
        cache: TokenCache,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """tokens (1, T) -> logits (1, T, V), hidden (1, T, 1). Row i reads the cache and, of the new tokens, what its mask shows; a
        mask (T, M + T) also says which of the last M that the cache holds.

        Raises ValueError beyond the context, and where a position is not the number of tokens its row sees before it: a model
        with rotary positions would read it.
        """
        new, held = tokens[0].tolist(), cache.tokens
        if len(held) + len(new) > self.context:
            raise ValueError(f"{len(held)} + {len(new)} tokens exceed {self.context}")
        whole = len(held) if mask is None else len(held) + len(new) - mask.shape[1]
        start, masked, rows = held[:whole], held[whole:] + new, []
        for i in range(len(new)):
            seen = new[: i + 1] if mask is None else [masked[j] for j in mask[i].nonzero()[:, 0]]
            if positions is not None and int(positions[i]) != len(start) + len(seen) - 1:
                raise ValueError(f"row {i} sees {len(start) + len(seen) - 1} tokens before it and "
                                 f"stands at position {int(positions[i])}")  # fmt: skip
            rows.append(self.logits((*start, *seen)))
        cache.tokens += new
        return torch.stack(rows)[None], torch.zeros(1, len(new), 1)

    __call__ = forward


def table_law(model: TableModel, prefix: Sequence[int], sampling: Sampling) -> Tensor:
    """(V,) after `prefix`, read from the table and not from any cache."""
    return sampling.probs(model.logits(prefix))


def random_model(vocab: int = 3, seed: int = 0, spread: float = 1.5, **options) -> TableModel:
    """Normal logits of deviation `spread` that depend on every token of the text."""
    return TableModel(
        vocab, lambda prefix: spread * generator_for(seed, *prefix).normal(size=vocab), **options
    )


def near(model: TableModel, seed: int = 1, spread: float = 0.5, **options) -> TableModel:
    """A draft for `model`: its logits and noise of deviation `spread`."""
    noise = random_model(model.vocab, seed, spread)
    return TableModel(
        model.vocab,
        lambda prefix: (model.logits(prefix).double() + noise.logits(prefix)).numpy(),
        **options,
    )


def constant_model(law: Sequence[float], **options) -> TableModel:
    """The same law after every text."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(law, dtype=np.float64))
    return TableModel(len(law), lambda prefix: logits, **options)


def scripted_model(text: Sequence[int], vocab: int = 4, **options) -> TableModel:
    """All mass on text[n] after n tokens, whichever they are; on 0 behind the script."""

    def logits(prefix: tuple[int, ...]) -> list[float]:
        wanted = text[len(prefix)] if len(prefix) < len(text) else 0
        return [0.0 if token == wanted else -np.inf for token in range(vocab)]

    return TableModel(vocab, logits, **options)
