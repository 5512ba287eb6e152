"""How the children of one node are drawn, each with the law that it was really drawn from given its elder siblings.

    with       every child from q itself: the same token may come twice, and its second row is wasted
    without    from q with the elder siblings' tokens taken out: norm(q off them)
    points     the likeliest tokens, by no chance at all: point masses

The rule of specdec/accept.py asks for no more than these laws (SpecInfer: Miao et al. 2023, arXiv 2305.09781, section 4.3; without
replacement: Jeon et al. 2024, arXiv 2402.14160, and Sequoia: Chen et al. 2024, arXiv 2402.12374).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from micro.chance import Chance

HOWS = ("with", "without", "points")


def remaining(law: Tensor, elder: Sequence[int]) -> Tensor | None:
    """norm(law (V,) without the tokens `elder`); None where no mass is left."""
    left = law.clone()
    left[list(elder)] = 0.0
    mass = left.sum()
    return left / mass if mass > 0 else None


def likeliest(logits: Tensor, elder: Sequence[int]) -> int:
    """The token of the largest logit (V,) that is none of `elder`; of equal ones the lowest id."""
    order = logits.sort(descending=True, stable=True).indices.tolist()
    return next(token for token in order if token not in elder)


def next_child(
    how: str, law: Tensor, logits: Tensor, elder: Sequence[int], chance: Chance, position: int
) -> tuple[int, Tensor | None]:
    """(token, its law (V,) or None for a point mass) of the next child of a node with fewer than V of them.

    law: the warped one behind the node; logits: those it was made of. Where "without" has no mass left, as at temperature 0
    behind the first child, the likeliest token left is a point mass: it depends on nothing but what was drawn before.
    """
    left = law if how == "with" else remaining(law, elder) if how == "without" else None
    if left is None:
        return likeliest(logits, elder), None
    return chance.draw(left, position), left
