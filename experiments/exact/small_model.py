"""A Transformer small enough for thousands of texts: what exactness is shown with beside table models."""

from __future__ import annotations

import torch

from micro.model import ModelConfig, Transformer


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
