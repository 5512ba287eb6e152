"""Which weights of a matrix stay, and which become zero: a mask from scores, in three shapes.

    magnitude   score |w|                                              the larger half stays
    wanda       score |w| x sqrt(mean square of its input)             what it adds to the output counts (Sun et al. 2023, arXiv
                                                                       2306.11695, section 3)
    lightest    the lowest scores go: of the whole matrix for magnitude, of each row for wanda, as its authors found right
    two_of_four of each four neighbours in a row the two of higher score stay (Mishra et al. 2021, arXiv 2104.08378)

Worked: w = (.1, -4, 2, .3), inputs of mean square (100, .01, 1, 1): magnitude keeps (-4, 2); wanda's scores are 1, .4, 2, .3
and keep (.1, 2). No weight is retrained.

Shapes: matrix and scores (O, I), mask (O, I) bool, True = stays
"""

from __future__ import annotations

import torch
from torch import Tensor


def scores(weight: Tensor, moment: Tensor | None = None) -> Tensor:
    """(O, I) how much each weight is worth; `moment` (I, I): second moments of the inputs, for wanda."""
    score = weight.detach().abs()
    return score if moment is None else score * moment.diagonal().sqrt().float()


def lightest(score: Tensor, share: float, by_row: bool) -> Tensor:
    """The mask that takes round(share x n) of n weights away, of a row or of the whole matrix; of equal ones the first stay."""
    rows = score if by_row else score.reshape(1, -1)
    kept = rows.shape[1] - round(share * rows.shape[1])
    order = rows.sort(dim=1, descending=True, stable=True).indices[:, :kept]
    mask = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, order, True)
    return mask.view_as(score)


def two_of_four(score: Tensor) -> Tensor:
    """The mask that keeps two of each four neighbours of a row. Raises ValueError where four does not divide the row."""
    if score.shape[1] % 4:
        raise ValueError(f"2:4 needs rows of fours, not of {score.shape[1]}")
    return lightest(score.reshape(-1, 4), 0.5, by_row=True).view_as(score)
