"""What a module's matrices are fed: second moments of their inputs, collected while it runs on some text.

    M = mean over inputs of x x^T, (I, I); its diagonal is the mean square of each input channel

Hooks sit on nn.Linear modules; a tied pair (embedding and head) is one matrix, and its inputs are the head's, the states
before it. An embedding that is only looked up has no inputs: quant/model.py takes the identity for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from quant.bytes import unique_parameters


@torch.no_grad()
def input_moments(module: nn.Module, run: Callable[[], object]) -> dict[str, Tensor]:
    """name of a matrix (a tied one's first) -> (I, I) float64, over every input that `run` sends through `module`.

    Raises ValueError where `run` feeds no matrix at all, or what it feeds is not finite.
    """
    first = {id(parameter): name for name, parameter in unique_parameters(module).items()}
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}

    def collect(linear: nn.Module, inputs: tuple) -> None:
        name = first[id(linear.weight)]
        x = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).float()
        sums[name] = sums.get(name, 0) + (x.T @ x).double()
        counts[name] = counts.get(name, 0) + len(x)

    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    hooks = [linear.register_forward_pre_hook(collect) for linear in linears]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    if not sums:
        raise ValueError(f"no input reached a matrix of {type(module).__name__}")
    moments = {name: total / counts[name] for name, total in sums.items()}
    for name, moment in moments.items():
        if not moment.isfinite().all():
            raise ValueError(f"{name} was fed NaN or infinity; its inputs cannot be weighed")
    return moments
