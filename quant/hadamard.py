"""Rotation: each block of g inputs is turned by a Hadamard matrix before rounding, and turned back on decode.

    W' = W R, decoded W = round(W') R; R = blocks of H_g / sqrt(g), H_2n = [[H_n, H_n], [H_n, -H_n]], H_1 = 1

R is symmetric and its own inverse, so y = W x = W' (R x): a draft may turn its inputs instead of its weights, at g log2 g
additions for g inputs. An outlier is spread over its block, which makes a group's weights more alike and nearer to normal;
where there is no outlier nothing is gained (QuIP: Chee et al. 2023, arXiv 2307.13304, section 4; QuaRot: Ashkboos et al. 2024, arXiv 2404.00456).
Worked, g = 4: (4, 0, 0, 0) becomes (2, 2, 2, 2). A short last group stays as it is. Nothing more is stored.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(matrix: Tensor, group: int) -> Tensor:
    """(..., I) with every whole block of `group` (a power of two) of the last axis turned; twice gives it back."""
    full = matrix.shape[-1] - matrix.shape[-1] % group
    blocks = matrix[..., :full].unflatten(-1, (-1, group)) if full else matrix[..., :0]
    turned = (blocks @ _hadamard(group).to(matrix.dtype)).flatten(-2) if full else blocks
    return torch.cat((turned, matrix[..., full:]), dim=-1)


def rotate_both(moment: Tensor, group: int) -> Tensor:
    """(I, I) second moments of the turned inputs: R M R."""
    return rotate(rotate(moment, group).T, group).T


def _hadamard(size: int) -> Tensor:
    """(size, size) float64, orthonormal."""
    h = torch.ones(1, 1, dtype=torch.float64)
    while len(h) < size:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    return h / size**0.5
