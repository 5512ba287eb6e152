"""Byte models small enough for command-line tests."""

from __future__ import annotations

import torch

from micro.model import ModelConfig, Transformer


def byte_model(context: int = 96, seed: int = 3) -> Transformer:
    """All 256 bytes, 2 layers of width 32. Eight times the usual weights and an untied head, so that its text varies."""
    config = ModelConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=2, max_position_embeddings=context,
                         tie_word_embeddings=False)  # fmt: skip
    model = Transformer(config, seed=seed).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.mul_(8)
    return model


def twin_model(context: int = 96, seed: int = 1) -> Transformer:
    """Every second token's head row differs from its neighbour's by the last bit of each number: the two logits are equal up to
    rounding, so which is larger depends on the order of the sums. Exists in memory only: bfloat16 would merge the twins.
    """
    model = byte_model(context, seed)
    head = model.lm_head.weight
    up = torch.rand(head[::2].shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    head[1::2] = torch.nextafter(head[::2], torch.where(up, torch.inf, -torch.inf))
    return model
