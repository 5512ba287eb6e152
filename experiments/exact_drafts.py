"""Every family of drafts over a model that can be walked: what the tiers of `selfdraft exact` try beside plain model drafts.

A family of DRAFTS that is not a ModelDraft by another name has a line here, which makes it over a table target with a small
round; a test holds the two tables together. What needs a net's hidden states learns from the table model's, which are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from experiments.exact_check import Check, Reading
from experiments.exact_enumeration import by_walks, target_of
from specdec.drafts.base import Draft
from specdec.table import TableModel

# family -> (maker(target, a near or far model), gamma, tokens walked)
SMALL: dict[str, tuple[Callable[[TableModel, TableModel], Draft], int, int]] = {}
# families of DRAFTS whose draft is a ModelDraft, walked as such by the enumeration
MODELS = ("quantized", "stored", "tuned")


def checks() -> Iterator[Check]:
    """The joint law of every family's texts, by whole walks of generate(), which also meet what one left for the next."""
    from experiments.exact_check import near_and_far

    target = target_of(3, 5)
    for name, (make, gamma, count) in SMALL.items():
        for which, model in near_and_far(target).items():
            yield Check(f"{name}, joint of {count}", partial(walked, target, make, model, gamma, count),
                        which, "rivals")  # fmt: skip


def walked(target, make, model, gamma: int, count: int) -> Reading:
    return by_walks(target, make(target, model), count, gamma)
