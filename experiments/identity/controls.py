"""Liveness controls: engines that are broken alike on both sides, which a comparison of bits alone would pass.

A NaN has the bits of the same NaN, and an engine that answers nothing answers the same twice. So before identity is claimed each
of these is planted, on both sides, and the comparison must refuse it: by an error, by a difference, or as dead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.identity.comparison import GREEDY, compare, plain_text
from micro.cache import KVCache
from micro.chance import SeededChance
from micro.model import Transformer
from specdec.decode import rounds
from specdec.drafts.base import Draft

PROMPT, NEW_TOKENS, GAMMA, LANES = 8, 6, 2, 8


class Engine:
    """`model`, whose logits go through `spoil` in every pass."""

    def __init__(self, model: Transformer, spoil: Callable[[Tensor], Tensor]) -> None:
        self.model, self.spoil = model, spoil
        self.vocab, self.context, self.device = model.vocab, model.context, model.device
        self.new_cache = model.new_cache

    def forward(self, tokens, cache, positions=None, mask=None) -> tuple[Tensor, Tensor]:
        logits, hidden = self.model.forward(tokens, cache, positions, mask)
        return self.spoil(logits), hidden

    __call__ = forward


def _with_nan(x: Tensor) -> Tensor:
    x = x.clone()
    x[..., -1] = float("nan")
    return x


def _one_row(logits: Tensor) -> Tensor:
    return torch.arange(logits.shape[-1], dtype=logits.dtype).expand_as(logits)


@torch.no_grad()
def _zero_weights(model: Transformer) -> Transformer:
    model = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.zero_()
    return model


@dataclass(frozen=True)
class Plant:
    """`engine`: both sides decode with it. `at_end`: what happens to each side's cache when its text has ended."""

    engine: Callable[[Transformer], object] = lambda model: model
    at_end: Callable[[KVCache], object] = lambda cache: None


PLANTS: dict[str, Plant] = {
    "a NaN in every row of logits": Plant(lambda model: Engine(model, _with_nan)),
    "logits of zeros": Plant(lambda model: Engine(model, torch.zeros_like)),
    "the same row of logits for every token": Plant(lambda model: Engine(model, _one_row)),
    "weights of zeros": Plant(_zero_weights),
    "a NaN in the cache": Plant(at_end=lambda cache: cache.keys[0, 0, 0, :1, 0].fill_(torch.nan)),
    "a cache of zeros": Plant(at_end=lambda cache: cache.values.zero_()),
}


def noticed(model: Transformer, draft: Draft, prompt: list[int]) -> dict[str, bool]:
    """name -> whether the comparison refused the plant, a few tokens behind the start of `prompt`.

    In lanes, since without them rounding alone would be a difference.
    """
    start = prompt[:PROMPT]
    return {name: _refused(plant, model, draft, start) for name, plant in PLANTS.items()}


@torch.inference_mode()
def _refused(plant: Plant, model: Transformer, draft: Draft, prompt: list[int]) -> bool:
    engine = plant.engine(model)
    try:
        plain = plain_text(engine, prompt, NEW_TOKENS, LANES)
        plant.at_end(plain.cache)
        decoding = rounds(
            engine, draft, prompt, max_new_tokens=NEW_TOKENS, gamma=GAMMA, sampling=GREEDY,
            chance=SeededChance(0), lanes=LANES,
        )  # fmt: skip
        counts = compare(plain, _ending(decoding, plant.at_end)).counts
    except ValueError:  # a row of logits that states no law
        return True
    return counts.identical is not True


def _ending(decoding: Iterator, at_end: Callable[[KVCache], object]) -> Iterator:
    for done, state in decoding:
        if state.ended:
            at_end(state.cache)
        yield done, state
