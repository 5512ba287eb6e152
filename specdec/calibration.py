"""Inputs that a draft's maker looks at: windows of the course's training plates, evenly spaced over all of them.

So a draft that is made with inputs in view has seen no prompt, and no plate that prompts come from.
"""

from __future__ import annotations

import torch
from torch import Tensor

from micro.model import Transformer
from micro.text import as_tokens
from quant.moments import input_moments
from specdec.course import held_in

WINDOWS, BATCH, LONGEST = 16, 8, 512


def calibration_windows(context: int) -> Tensor:
    """(WINDOWS, context) bytes of the training plates. Raises FileFault where the course cannot be read."""
    tokens = as_tokens(held_in())
    starts = torch.linspace(0, len(tokens) - context, WINDOWS).long().tolist()
    return torch.stack([tokens[start : start + context] for start in starts])


@torch.no_grad()
def read_windows(model: Transformer) -> None:
    """Feed the windows to `model`, for hooks to see; about a second for micro. Raises ValueError where it lacks a byte's token."""
    if model.vocab < 256:
        raise ValueError(
            f"the course's text is bytes, and the model has {model.vocab} tokens: nothing can be collected on it"
        )
    for part in calibration_windows(min(model.context, LONGEST)).split(BATCH):
        model(part)


def calibrated(model: Transformer) -> dict[str, Tensor]:
    """The second moments of every matrix's inputs (quant/moments.py). Raises ValueError as read_windows."""
    return input_moments(model, lambda: read_windows(model))
