"""Removing whole heads, neurons or layers: what is left is a smaller dense model, in smaller matrices.

What goes is what adds least to the stream of states, measured on the course's training plates (specdec/calibration.py):

    head h      mean |W_o y|^2 of its own columns: trace(W_h M_hh W_h^T), M the second moments of o_proj's inputs
    neuron j    mean |W_down a|^2 of its own column: M_jj |w_j|^2, M those of down_proj's inputs
    layer       1 - mean cosine of the states before and behind it (Men et al. 2024, ShortGPT, arXiv 2403.03853, equation 1)

Heads and neurons go in the same number from every layer, the least of each. Nothing is retrained.

Shapes: D width  H heads  d head width  M neurons
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from micro.model import ModelConfig, Transformer
from specdec.calibration import calibrated, read_windows


@dataclass(frozen=True)
class NarrowConfig(ModelConfig):
    """Heads of `head_width` that need not fill the width. Made of a valid config, and not checked again."""

    head_width: int = 32

    def __post_init__(self) -> None:
        pass

    @property
    def head_dim(self) -> int:
        return self.head_width


def without_heads(target: Transformer, count: int) -> Transformer:
    """A copy of `target` that lacks `count` heads of each layer. Raises ValueError where it has grouped queries."""
    c = target.config
    if c.num_key_value_heads != c.num_attention_heads:
        raise ValueError("heads that share keys and values cannot be removed one by one")
    moments, kept = calibrated(target), []
    for number, layer in enumerate(target.model.layers):
        moment = moments[f"model.layers.{number}.self_attn.o_proj.weight"].float()
        worth = head_worth(layer.self_attn.o_proj.weight, moment, c.num_attention_heads)
        heads = best(worth, c.num_attention_heads - count)
        kept.append((heads[:, None] * c.head_dim + torch.arange(c.head_dim)).flatten())
    heads = c.num_attention_heads - count
    return _narrowed(target, kept, None, num_attention_heads=heads, num_key_value_heads=heads)


def without_neurons(target: Transformer, count: int) -> Transformer:
    """A copy of `target` that lacks `count` neurons of each layer's MLP."""
    moments, kept = calibrated(target), []
    left = target.config.intermediate_size - count
    for number, layer in enumerate(target.model.layers):
        moment = moments[f"model.layers.{number}.mlp.down_proj.weight"].float()
        kept.append(best(neuron_worth(layer.mlp.down_proj.weight, moment), left))
    return _narrowed(target, None, kept, intermediate_size=left)


def layers_left(target: Transformer, count: int) -> list[int]:
    """The numbers of the layers that stay where `count` go."""
    return best(torch.tensor(layer_worth(target)), len(target.model.layers) - count).tolist()


def best(worth: Tensor, count: int) -> Tensor:
    """(count,) the places of the highest, in ascending order; of equal ones the first."""
    return worth.sort(descending=True, stable=True).indices[:count].sort().values


def head_worth(weight: Tensor, moment: Tensor, heads: int) -> Tensor:
    """(H,) from o_proj (D, H d) and its inputs' second moments (H d, H d)."""
    parts = weight.detach().chunk(heads, dim=1)  # (D, d) each
    d = weight.shape[1] // heads
    blocks = [moment[i * d : (i + 1) * d, i * d : (i + 1) * d] for i in range(heads)]
    return torch.stack([(part @ block * part).sum() for part, block in zip(parts, blocks)])


def neuron_worth(weight: Tensor, moment: Tensor) -> Tensor:
    """(M,) from down_proj (D, M) and its inputs' second moments (M, M)."""
    return weight.detach().square().sum(0) * moment.diagonal()


def layer_worth(target: Transformer) -> list[float]:
    """How much each layer turns the states that pass it."""
    turned: list[list[float]] = [[] for _ in target.model.layers]

    def look(number: int):
        def compare(layer, inputs, output) -> None:
            turned[number].append(float(1 - F.cosine_similarity(inputs[0], output, dim=-1).mean()))

        return compare

    hooks = [layer.register_forward_hook(look(n)) for n, layer in enumerate(target.model.layers)]
    try:
        read_windows(target)
    finally:
        for hook in hooks:
            hook.remove()
    return [sum(values) / len(values) for values in turned]


def _narrowed(
    target: Transformer, heads: Sequence[Tensor] | None, neurons: Sequence[Tensor] | None, **sizes
) -> Transformer:
    """The copy whose layer i keeps the rows heads[i] of q, k and v and neurons[i] of gate and up, and those columns of what reads them."""
    c = target.config
    narrow = Transformer(NarrowConfig(**{**asdict(c), **sizes, "head_width": c.head_dim}))
    state = target.state_dict()
    for kept, inner, writes in (
        (heads, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.o_proj"),
        (neurons, ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj"),
    ):
        for number, places in enumerate(kept or ()):
            layer = f"model.layers.{number}"
            for name in inner:
                state[f"{layer}.{name}.weight"] = state[f"{layer}.{name}.weight"][places]
            state[f"{layer}.{writes}.weight"] = state[f"{layer}.{writes}.weight"][:, places]
    narrow.load_state_dict(state)
    return narrow.eval().requires_grad_(False)
