"""Does a token have the same bits in every lane?

Row counts change the order of floating-point sums. A cache with `lanes` pads every pass to one row count, after which a
token's numbers should not depend on how many tokens share its pass or on where among them it stands. "Should": that is a
property of the machine's kernels, so it is probed on each machine before anyone claims it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from micro.attend import SPAN
from micro.cache import KVCache
from micro.model import Transformer

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # bytes a number -> view


def differing(a: Tensor, b: Tensor) -> int:
    """How many numbers of two tensors of one shape and type differ in any bit (0.0 and -0.0 do, equal NaNs do not).

    Raises ValueError where shapes or types differ.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"{a.dtype} {tuple(a.shape)} cannot equal {b.dtype} {tuple(b.shape)}")
    bits = _BITS[a.element_size()]
    a, b = a.contiguous().view(bits), b.contiguous().view(bits)
    return 0 if torch.equal(a, b) else int((a != b).sum())


@torch.inference_mode()
def probe(model: Transformer, lanes: int) -> tuple[int, ...]:
    """Feed one token in every lane, behind the same text; the lanes where its bits differ from those of lane 0.

    Three tokens are probed: one early; the last one whose keys fill one block of attention, since the pass then reads one block
    or two; and one whose keys reach into the second. Compared are its logits, its last state, and the keys and values that were
    fed with it. () : identity may be claimed. It costs about 7 x `lanes` passes. Where the context is shorter, the probed token
    is its last one, and lanes that cannot be filled are left out.

    Raises ValueError where `lanes` is below 1.
    """
    if lanes < 1:
        raise ValueError(f"lanes must be 1 or above to be probed, not {lanes}")
    places = {min(place, model.context - 1) for place in (lanes - 1, SPAN - 1, SPAN + lanes // 2)}
    text = [(37 * place + 11) % model.vocab for place in range(max(places) + 1)]
    tokens = torch.tensor([text], device=model.device)
    cache, wrong = model.new_cache(1, lanes), set()
    for place in sorted(places):
        wrong |= _uneven(model, cache, tokens[:, : place + 1])
    return tuple(sorted(wrong))


def _uneven(model: Transformer, cache: KVCache, tokens: Tensor) -> set[int]:
    """The lanes in which the last of `tokens` (1, T) has other bits than in lane 0. The cache holds a prefix of them."""
    last = tokens.shape[1] - 1
    most = min(cache.lanes - 1, last)  # the last lane that can be filled
    if cache.length > last - most:
        cache.truncate(last - most)
    elif cache.length < last - most:
        model(tokens[:, cache.length : last - most], cache)
    for place in range(last - most, last + 1):  # the reference: one token a pass, always in lane 0
        outputs = model(tokens[:, place : place + 1], cache)
    expected = _of_last(outputs, cache, most + 1)
    wrong = set()
    for lane in range(1, most + 1):
        cache.truncate(last - lane)
        found = _of_last(model(tokens[:, last - lane :], cache), cache, most + 1)
        if any(differing(a, b) for a, b in zip(expected, found)):
            wrong.add(lane)
    return wrong


def _of_last(outputs: tuple[Tensor, Tensor], cache: KVCache, count: int) -> list[Tensor]:
    """Logits and state of the last token, keys and values of the last `count`, copied: later passes write over them."""
    fed = slice(cache.length - count, cache.length)
    return [
        *(t[:, -1] for t in outputs),
        *(t[:, :, :, fed].clone() for t in (cache.keys, cache.values)),
    ]
