"""Plain decoding: one target pass a token. The reference that every speculative text must equal.

Separate code from the speculative loop on purpose: a fault shared by both would hide in a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from micro.cache import KVCache
from micro.chance import Chance
from micro.model import Transformer
from micro.sampling import Sampling

BATCH = 32  # rows of a batched pass; short batches are padded to it, so company changes no bits


def check_request(prompt: Sequence[int], new_tokens: int, context: int, vocab: int) -> None:
    """Raises ValueError where a prompt cannot be continued by at least one token."""
    if not len(prompt):
        raise ValueError("the prompt is empty; at least one token is needed")
    if len(prompt) >= context:
        raise ValueError(
            f"the prompt has {len(prompt)} tokens and the context {context}: "
            f"at most {context - 1} leave room for a new one"
        )
    if new_tokens < 1:
        raise ValueError(f"max_new_tokens must be 1 or above, not {new_tokens}")
    if not all(0 <= token < vocab for token in prompt):
        raise ValueError(f"the prompt holds a token outside 0 ... {vocab - 1}")


def check_continuation(prompt: Sequence[int], new_tokens: int, context: int, vocab: int) -> None:
    """Raises ValueError as check_request, and where not all of the new tokens fit."""
    check_request(prompt, new_tokens, context, vocab)
    if len(prompt) + new_tokens > context:
        raise ValueError(
            f"a prompt of {len(prompt)} tokens and {new_tokens} new ones exceed the context "
            f"of {context}"
        )


@torch.inference_mode()
def stream(
    model: Transformer,
    prompt: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling,
    chance: Chance,
    lanes: int = 0,
) -> Iterator[tuple[int, Tensor, KVCache]]:
    """Yield (token, logits (V,) it was drawn from, the cache) one by one, up to the limit or the context."""
    check_request(prompt, max_new_tokens, model.context, model.vocab)
    cache = model.new_cache(1, lanes)
    tokens = list(prompt)
    if len(tokens) > 1:
        model(torch.tensor([tokens[:-1]], device=model.device), cache)
    for _ in range(min(max_new_tokens, model.context - len(prompt))):
        logits = model(torch.tensor([tokens[-1:]], device=model.device), cache)[0][0, -1]
        token = chance.draw(sampling.probs(logits), len(tokens))
        tokens.append(token)
        yield token, logits, cache


def generate(
    model: Transformer,
    prompt: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling,
    chance: Chance,
    lanes: int = 0,
) -> list[int]:
    """The new tokens, without the prompt."""
    return [token for token, _, _ in stream(model, prompt, max_new_tokens, sampling, chance, lanes)]


@torch.inference_mode()
def generate_batch(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    sampling: Sampling,
    chances: Sequence[Chance],
) -> tuple[Tensor, Tensor]:
    """Continue many prompts, each by exactly `new_tokens`, BATCH of them in a pass.

    Returns: tokens (N, new_tokens) and the laws they were drawn from (N, new_tokens, V), float32.
    Raises ValueError where a prompt and its continuation exceed the context.
    """
    for prompt in prompts:
        check_continuation(prompt, new_tokens, model.context, model.vocab)
    parts = [
        _one_batch(model, prompts[i : i + BATCH], new_tokens, sampling, chances[i : i + BATCH])
        for i in range(0, len(prompts), BATCH)
    ]
    tokens, laws = zip(*parts)
    return torch.cat(tokens), torch.cat(laws)


def _one_batch(model, prompts, new_tokens, sampling, chances) -> tuple[Tensor, Tensor]:
    cache = model.new_cache(BATCH)
    for row in range(BATCH):
        cache.load_row(row, prefilled(model, prompts[row][:-1] if row < len(prompts) else []))
    last = torch.zeros(BATCH, 1, dtype=torch.long, device=model.device)
    last[: len(prompts), 0] = torch.tensor([prompt[-1] for prompt in prompts])
    return draw_rows(model, cache, last, list(map(len, prompts)), new_tokens, sampling, chances)


def draw_rows(
    model: Transformer,
    cache: KVCache,
    last: Tensor,
    lengths: Sequence[int],
    new_tokens: int,
    sampling: Sampling,
    chances: Sequence[Chance],
) -> tuple[Tensor, Tensor]:
    """Continue the rows of a cache together, the first of them one for each of `chances`; what rows stand behind them is padding.

    last: (rows, 1) each text's last token, which the cache does not hold, written over. lengths: tokens of each text so far.
    Returns: tokens (N, new_tokens) and the laws they were drawn from (N, new_tokens, V), float32.
    """
    tokens, laws = [], []
    for step in range(new_tokens):
        law = sampling.probs(model(last, cache)[0][:, 0])  # (rows, V)
        drawn = [chance.draw(law[row], lengths[row] + step) for row, chance in enumerate(chances)]
        last[: len(drawn), 0] = torch.tensor(drawn)
        tokens.append(last[: len(drawn), 0].clone())
        laws.append(law[: len(drawn)])
    return torch.stack(tokens, dim=1), torch.stack(laws, dim=1)


def prefilled(model: Transformer, tokens: Sequence[int]) -> KVCache:
    """One text's cache, fed alone: its bits depend on no neighbour."""
    cache = model.new_cache(1)
    if tokens:
        model(torch.tensor([list(tokens)], device=model.device), cache)
    return cache
