"""Does a token have the same bits in every lane?

Row counts change the order of floating-point sums. A cache with `lanes` pads every pass to one row count, after which a
token's numbers should not depend on how many tokens share its pass or on where among them it stands. "Should": that is a
property of the machine's kernels, so it is probed on each machine before anyone claims it.
"""

from __future__ import annotations

import torch
from torch import Tensor

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

    Compared are its logits, its last state, and all keys and values up to it. () : identity may be claimed. It costs about
    2 x `lanes` passes. Where the context is shorter than `lanes`, the lanes behind it cannot be filled and are left out.

    Raises ValueError where `lanes` is below 1.
    """
    if lanes < 1:
        raise ValueError(f"lanes must be 1 or above to be probed, not {lanes}")
    last = min(lanes, model.context) - 1  # position of the probed token = the last lane there is
    text = [(37 * place + 11) % model.vocab for place in range(last + 1)]
    tokens = torch.tensor([text], device=model.device)
    cache = model.new_cache(1, lanes)
    for place in range(last + 1):  # the reference: one token a pass, always in lane 0
        logits, hidden = model(tokens[:, place : place + 1], cache)
    expected = [*(t[:, -1] for t in (logits, hidden)), *_held(cache)]
    wrong = []
    for lane in range(1, last + 1):
        cache.truncate(last - lane)
        logits, hidden = model(tokens[:, last - lane :], cache)
        found = [*(t[:, -1] for t in (logits, hidden)), *_held(cache)]
        if any(differing(a, b) for a, b in zip(expected, found)):
            wrong.append(lane)
    return tuple(wrong)


def _held(cache) -> tuple[Tensor, Tensor]:
    """Keys and values of what the cache holds, copied: later passes write over them."""
    return tuple(t[:, :, :, : cache.length].clone() for t in (cache.keys, cache.values))
