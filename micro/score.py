"""How well a model predicts documents: the loss of every byte, in nats.

Every document is read in windows of the model's context that overlap by half, so that a byte (but for those near a
document's start) sees at least half a context before it, and every byte counts once. The first byte of a document, which
nothing precedes, is not scored. Bits per byte = nats / ln 2.

Shapes: L bytes of a document
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from micro.model import Transformer
from micro.text import Document, tile

ROWS = 16  # windows a pass; bounds the memory of the logits


@dataclass(frozen=True)
class Score:
    """Sum of the losses over all scored bytes, and how many they are."""

    total: float
    bytes: int

    @property
    def nats(self) -> float:
        return self.total / self.bytes

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2)


@torch.inference_mode()
def byte_losses(model: Transformer, documents: Sequence[Document]) -> list[Tensor]:
    """Of each document (L - 1,) float32: the nats of its bytes 1 ... L - 1. Dropout is off; the mode is put back.

    Cost: about two passes over the text, since windows overlap by half.
    """
    lengths = [max(0, len(document.data) - 1) for document in documents]
    if not sum(lengths):
        return [torch.zeros(0) for _ in documents]
    context = model.context
    inputs, targets, counts = tile(documents, context, max(1, context // 2))
    training = model.training
    model.eval()
    losses = []
    for x, y, counted in zip(inputs.split(ROWS), targets.split(ROWS), counts.split(ROWS)):
        logits = model(x.to(model.device))[0].float()
        loss = F.cross_entropy(logits.transpose(1, 2), y.to(model.device), reduction="none")
        losses.append(loss.cpu()[counted])
    model.train(training)
    return list(torch.cat(losses).split(lengths))


def score(model: Transformer, documents: Sequence[Document]) -> Score:
    """The documents' bytes together, summed in float64. Raises ValueError where there is nothing to score."""
    losses = torch.cat(byte_losses(model, documents))
    if not len(losses):
        raise ValueError("no document of two bytes or more: nothing to score")
    return Score(float(losses.double().sum()), len(losses))
