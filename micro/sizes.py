"""Micro and its smaller siblings: one architecture, one context, one kind of text, at sizes a draft can afford.

All widths are multiples of 32, heads are 32 wide, the embedding is tied. Parameters: V D for it, 4 D^2 + 3 D M + 2 D a layer,
D for the last norm, with V = 256 tokens, D the width and M the inner width. The smaller a model, the more of it is embedding: 44% of
pico, 3% of micro.
"""

from __future__ import annotations

from micro.model import ModelConfig


def _sized(width: int, layers: int, inner: int) -> ModelConfig:
    return ModelConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
    )


# name -> sizes; behind it parameters and their share of micro's
SIZES: dict[str, ModelConfig] = {
    "pico": _sized(32, layers=1, inner=64),  # 18,528, 1/98
    "nano": _sized(64, layers=2, inner=96),  # 86,336, 1/21
    "mini": _sized(128, layers=2, inner=384),  # 459,392, 1/4.0
    "micro": ModelConfig(),  # 1,820,352
}
