"""Models and drafts with closed-form answers.

A TableModel's cache is the list of tokens it was fed, and its logits depend on the whole of that list: whatever the loop forgets
to roll back, feeds twice or leaves out changes every later law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from micro.chance import Chance, generator_for
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from specdec.proposal import Proposal, Step

Logits = Callable[[tuple[int, ...]], Sequence[float]]


class TokenCache:
    """A cache that is nothing but what it was fed."""

    def __init__(self, context: int) -> None:
        self.tokens: list[int] = []
        self.context = context

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot cut a cache of length {len(self.tokens)} to {length}")
        del self.tokens[length:]

    def gather(self, start: int, kept: list[int]) -> None:
        self.tokens[start:] = [self.tokens[start + place] for place in kept]


class TableModel:
    """Logits (V,) as a function of the tokens read so far, the last one included."""

    device = torch.device("cpu")

    def __init__(self, vocab: int, logits: Logits, context: int = 64, dtype=torch.float64) -> None:
        self.vocab, self.context, self._logits, self._dtype = vocab, context, logits, dtype
        self._known: dict[tuple[int, ...], Tensor] = {}

    def logits(self, prefix: Sequence[int]) -> Tensor:
        prefix = tuple(prefix)
        if prefix not in self._known:
            values = np.asarray(self._logits(prefix), dtype=np.float64)
            self._known[prefix] = torch.from_numpy(values).to(self._dtype)
        return self._known[prefix]

    def new_cache(self, rows: int = 1, lanes: int = 0) -> TokenCache:
        return TokenCache(self.context)

    def forward(self, tokens, cache: TokenCache, positions=None, mask=None):
        """Row i reads the cache and, of the new tokens, those its mask row shows."""
        new, start = tokens[0].tolist(), list(cache.tokens)
        if len(start) + len(new) > self.context:
            raise ValueError(f"{len(start)} + {len(new)} tokens exceed {self.context}")
        rows = []
        for i in range(len(new)):
            seen = new[: i + 1] if mask is None else [new[j] for j in mask[i].nonzero()[:, 0]]
            if positions is not None:  # a rotary model would read the position, so it must be right
                assert int(positions[i]) == len(start) + len(seen) - 1
            rows.append(self.logits((*start, *seen)))
        cache.tokens += new
        logits = torch.stack(rows)[None]
        return logits, torch.zeros(1, len(new), 1)

    __call__ = forward


def random_model(vocab: int = 3, seed: int = 0, spread: float = 1.5, **options) -> TableModel:
    """Normal logits that depend on every token of the text."""
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


def small_micro(vocab: int = 64, context: int = 256, seed: int = 3) -> Transformer:
    """A real, untrained Transformer of 2 layers. Eight times the usual weights and an untied head: otherwise its text would be
    one token again and again, and hide faults that only a changing text shows.
    """
    config = ModelConfig(vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=context,
                         tie_word_embeddings=False)  # fmt: skip
    model = Transformer(config, seed=seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter *= 8
    return model


def table_law(model: TableModel, prefix: Sequence[int], sampling: Sampling) -> Tensor:
    """(V,) after `prefix`, read from the table and not from any cache."""
    return sampling.probs(model.logits(prefix))


class TextDraft:
    """What drafts that keep no cache share: they know the text, and nothing else."""

    bytes_per_pass = 1

    def start(self, prompt: Sequence[int], target) -> None:
        self.text = list(prompt)

    def commit(self, step: Step) -> None:
        self.text = list(step.tokens)


class ScriptedDraft(TextDraft):
    """Point masses: proposes script[n], script[n + 1], ... behind a text of n tokens, drawn by no chance."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        tokens = self.script[len(self.text) : len(self.text) + gamma]
        return Proposal.chain(tokens, [None] * len(tokens), passes=0)


class TreeDraft(TextDraft):
    """Proposes a tree of the given parents, its tokens from `model`'s table.

    how: "with" replacement, "without" it, "points" (the likeliest tokens, as point masses) or "mixed" (a sampled node, then a point
    mass, in turn). Where a law has no token left its node and all below it are not drawn; that is known before the draw.
    """

    def __init__(self, model: TableModel, parents: Sequence[int], how: str) -> None:
        self.model, self.parents, self.how = model, parents, how

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        places: dict[int, int] = {-1: -1}  # node of the shape -> node of the proposal
        tokens, parents, laws, paths = [], [], [], {-1: ()}
        for node, parent in enumerate(self.parents[:gamma]):
            if parent not in places:
                continue
            at = places[parent]
            elder = [tokens[i] for i, p in enumerate(parents) if p == at]
            law = table_law(self.model, (*self.text, *paths[at]), sampling).clone()
            as_point = self.how == "points" or (self.how == "mixed" and len(elder) % 2 == 1)
            if as_point or self.how == "without":
                law[elder] = 0.0
            if not law.sum() > 0:
                continue
            law = law / law.sum()
            depth = len(paths[at])
            token = int(law.argmax()) if as_point else chance.draw(law, len(self.text) + depth)
            places[node] = len(tokens)
            paths[len(tokens)] = (*paths[at], token)
            tokens.append(token)
            parents.append(at)
            laws.append(None if as_point else law)
        return Proposal(tuple(tokens), tuple(parents), tuple(laws), passes=len(tokens))
