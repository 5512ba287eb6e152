"""Many texts behind one prompt: drawn, and judged by another model. The prompt is read once, and all rows are of one length.

A text so costs a third of what it costs `generate_batch`, which takes prompts as they come. Given up for it: a row's bits may
depend on how many others there are. Its distribution does not.

Shapes: N texts  L new tokens  V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from micro.cache import KVCache
from micro.chance import Chance
from micro.generate import check_continuation, draw_rows, prefilled
from micro.model import Transformer
from micro.sampling import Sampling

ROWS = 32  # texts of a pass: micro's cache for them takes 100 MB


@torch.inference_mode()
def draw_many(
    model: Transformer,
    prompt: Sequence[int],
    new_tokens: int,
    sampling: Sampling,
    chances: Sequence[Chance],
) -> tuple[Tensor, Tensor]:
    """Continue the prompt once for each of `chances`, at least one, by exactly `new_tokens`.

    Returns: tokens (N, L) and the laws they were drawn from (N, L, V), float32.
    Raises ValueError where prompt and continuation exceed the context.
    """
    check_continuation(prompt, new_tokens, model.context, model.vocab)
    parts = [
        _draw(model, prompt, new_tokens, sampling, chances[i : i + ROWS])
        for i in range(0, len(chances), ROWS)
    ]
    tokens, laws = zip(*parts)
    return torch.cat(tokens), torch.cat(laws)


def _draw(model, prompt, new_tokens, sampling, chances) -> tuple[Tensor, Tensor]:
    N = len(chances)
    cache = _behind(model, prompt[:-1], N)
    last = torch.full((N, 1), prompt[-1], device=model.device)
    return draw_rows(model, cache, last, [len(prompt)] * N, new_tokens, sampling, chances)


@torch.inference_mode()
def laws_of_many(
    model: Transformer, prompt: Sequence[int], tokens: Tensor, sampling: Sampling
) -> Tensor:
    """The laws (N, L, V) `model` would have drawn tokens (N, L) behind the prompt from: one pass for ROWS texts."""
    parts = []
    for part in tokens.split(ROWS):
        before = part.new_full((len(part), 1), prompt[-1])
        fed = torch.cat((before, part[:, :-1]), dim=1)  # (rows, L)
        logits, _ = model(fed, _behind(model, prompt[:-1], len(part)))
        parts.append(sampling.probs(logits))
    return torch.cat(parts)


def _behind(model: Transformer, prompt: Sequence[int], rows: int) -> KVCache:
    """A cache whose every row holds the prompt."""
    one, cache = prefilled(model, prompt), model.new_cache(rows)
    cache.copy_from(one, 0, one.length)  # one row is written to all
    return cache
