"""The scale searched for least squared error: rtn's codes and layout, another d.

    d minimises sum over the group of w (x - d (code - 2^(b-1)))^2, code = clamp(round(x / d) + 2^(b-1), 0, 2^b - 1)

w = 1, or, with `+act`, the mean square of the input that the weight is multiplied with: the error of the layer's output is
sum of w (x - x')^2 where inputs are uncorrelated (Lin et al. 2024, AWQ, arXiv 2306.00978, section 3; llama.cpp's importance
matrix). Searched: both signs times 24 sizes from .4 to 1.1 of rtn's d, then twice the least-squares d of the codes found.
A smaller d clips the few extremes and serves the many.

Worked, 2 bits (levels -2 ... 1 times d), x = (-2, -1.5, 1, 1): rtn's d = 1 gives -2, -1, 1, 1, squared error .25; d = .9 gives
-1.8, -1.8, .9, .9, error .15, the least. Stored as rtn; b + 16/g bits a weight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from quant.rtn import code_rtn, decode_rtn, fit_rtn
from quant.scheme import Scheme, inverse

FACTORS = torch.linspace(0.4, 1.1, 24).tolist()
REFITS = 2


def fit(groups: Tensor, bits: int, importance: Tensor | None = None) -> tuple[Tensor, None]:
    first, _ = fit_rtn(groups, bits)
    best, least = first, squared_error(groups, first, bits, importance)
    for factor in FACTORS:
        for sign in (1.0, -1.0):
            best, least = _better(groups, sign * factor * first, bits, importance, best, least)
    for _ in range(REFITS):
        levels = _levels(groups, best, bits)
        weighted = levels if importance is None else levels * importance
        square = (weighted * levels).sum(1)
        refit = torch.where(square > 0, (weighted * groups).sum(1) / square, best)
        best, least = _better(groups, refit, bits, importance, best, least)
    return best, None


def squared_error(groups: Tensor, scale: Tensor, bits: int, importance: Tensor | None) -> Tensor:
    """(n,) sum of w (x - x')^2 under the scales (n,)."""
    error = _levels(groups, scale, bits).mul_(scale[:, None]).sub_(groups).square_()
    return (error if importance is None else error.mul_(importance)).sum(1)


def _better(groups, scale, bits, importance, best, least) -> tuple[Tensor, Tensor]:
    """Per group, `scale` where its error is below `least`."""
    error = squared_error(groups, scale, bits, importance)
    return torch.where(error < least, scale, best), torch.minimum(error, least)


def _levels(groups: Tensor, scale: Tensor, bits: int) -> Tensor:
    """(n, g) code - 2^(b-1) as code_rtn would have it; in place after the product, since a search asks 50 times."""
    half = 1 << (bits - 1)
    return (groups * inverse(scale)[:, None]).add_(0.5).floor_().clamp_(-half, half - 1)


MSE = Scheme(fit, code_rtn, decode_rtn, signed=True, searched=True)
