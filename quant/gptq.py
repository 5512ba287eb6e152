"""Rounding that makes good its own errors: each column's error is passed on to the columns not yet rounded.

The output W x of a layer suffers tr(E M E^T) from an error E, M the second moments of its inputs x. Columns are rounded
from the first to the last; the error of column j, divided by U_jj, is taken off the later ones times their entries in row j
of U, the upper Cholesky factor of (M + damping)^-1, which is the best answer to it (Frantar et al. 2023, GPTQ, arXiv 2210.17323,
section 3; the order of columns is kept). A group's scale is fitted when its first column is reached, to what its weights
have become.

Worked: W = (1.4, 1.4), levels whole numbers, M = [[1, 1], [1, 1]] (both inputs always equal): nearest gives 1 + 1 = 2 for the sum
of 2.8; here column 1 becomes 1, its error .4 goes to column 2, 1.8 becomes 2: 3. With M the identity nothing is passed on.

Stored as without it; it costs a pass of calibration text and one loop over the columns.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DAMPING = 0.01  # of the mean diagonal, as in the paper: M alone may be singular

# columns (O, r) of a group, which columns -> its scale (O,) as it will be decoded, and minimum (O,) or None
FitGroup = Callable[[Tensor, slice], tuple[Tensor, Tensor | None]]
# weights (O,), scale, minimum -> codes (O,), decoded (O,)
RoundColumn = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def compensated(
    weight: Tensor, moment: Tensor, group: int, fit: FitGroup, rounded: RoundColumn
) -> Tensor:
    """(O, I) codes uint8 of weight (O, I) for inputs of second moments (I, I).

    What `fit` returned for each group is the caller's to keep. Errors reach the columns of the same group at once, those
    behind it when the group is done, in one product: the same sums, fewer passes over the matrix.
    """
    left = weight.T.clone(
        memory_format=torch.contiguous_format
    )  # (I, O): a column of W lies together
    codes = torch.empty_like(left, dtype=torch.uint8)
    factor = inverse_factor(moment).float()
    for start in range(0, len(left), group):
        columns = slice(start, min(start + group, len(left)))
        own, errors = left[columns], torch.empty_like(left[columns])
        scale, minimum = fit(own.T.contiguous(), columns)
        within = factor[columns, columns]
        for j in range(len(own)):
            codes[start + j], decoded = rounded(own[j], scale, minimum)
            errors[j] = (own[j] - decoded) / within[j, j]
            own[j + 1 :].addr_(within[j, j + 1 :], errors[j], alpha=-1)
        left[columns.stop :] -= factor[columns, columns.stop :].T @ errors
    return codes.T.contiguous()


def inverse_factor(moment: Tensor) -> Tensor:
    """(I, I) upper triangular U with U^T U = (M + damping)^-1, float64. An input that was always 0 is left to the damping."""
    moment = moment.double()
    mean = moment.diagonal().mean()
    damping = DAMPING * mean if mean > 0 else torch.ones_like(mean)
    damped = moment + damping * torch.eye(len(moment), dtype=torch.float64)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    return torch.linalg.cholesky(inverse, upper=True)
