"""How well a model predicts documents: the loss of every byte, in nats.

Every document is read in windows of the model's context that overlap by half, so that a byte (but for those near a
document's start) sees at least half a context before it, and every byte counts once. The first byte of a document, which
nothing precedes, is not scored. Bits per byte = nats / ln 2.

Shapes: L bytes of a document
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    losses = [
        F.cross_entropy(logits.transpose(1, 2), y, reduction="none").cpu()[counted]
        for logits, y, counted in _read(model, documents)
    ]
    return _by_document(losses, documents, torch.zeros(0))


@torch.inference_mode()
def byte_laws(model: Transformer, documents: Sequence[Document]) -> list[Tensor]:
    """Of each document (L - 1, V) float32: the law at temperature 1 that bytes 1 ... L - 1 are judged by. Cost as byte_losses'."""
    laws = [logits.softmax(-1).cpu()[counted] for logits, _, counted in _read(model, documents)]
    return _by_document(laws, documents, torch.zeros(0, model.vocab))


def _read(model: Transformer, documents: Sequence[Document]) -> Iterator[tuple[Tensor, ...]]:
    """(logits, targets, what counts) of ROWS windows after the other, the model in evaluation mode."""
    if not any(len(document.data) > 1 for document in documents):
        return
    context, training = model.context, model.training
    windows = tile(documents, context, max(1, context // 2))
    model.eval()
    try:
        for x, y, counted in zip(*(part.split(ROWS) for part in windows)):
            yield model(x.to(model.device))[0].float(), y.to(model.device), counted
    finally:
        model.train(training)


def _by_document(
    parts: list[Tensor], documents: Sequence[Document], nothing: Tensor
) -> list[Tensor]:
    lengths = [max(0, len(document.data) - 1) for document in documents]
    return list(torch.cat([nothing, *parts]).split(lengths)) if documents else []


def score(model: Transformer, documents: Sequence[Document]) -> Score:
    """The documents' bytes together, summed in float64. Raises ValueError where there is nothing to score."""
    losses = torch.cat(byte_losses(model, documents))
    if not len(losses):
        raise ValueError("no document of two bytes or more: nothing to score")
    return Score(float(losses.double().sum()), len(losses))
