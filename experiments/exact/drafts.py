"""Tier 7 of `selfdraft exact`: every family of drafts over a model that can be walked, beside the plain model drafts of the other tiers.

A family of DRAFTS that is not a ModelDraft by another name has a line here, which makes it over a table target with a small
round; a test holds the two tables together. What needs a net's hidden states learns from the table model's, which are zeros.
Planted faults are not tried here: they change functions that the cheaper tiers exercise too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from experiments.exact.caches import left_over
from experiments.exact.check import Check, Reading, near_and_far
from experiments.exact.enumeration import by_walks, target_of
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.drafts.base import Draft
from specdec.drafts.cascade import CascadeDraft
from specdec.drafts.eagle import EagleDraft
from specdec.drafts.jacobi import JacobiDraft
from specdec.drafts.lengths import LengthDraft, PlusTwoMinusOne, Policy, Recent
from specdec.drafts.lookahead import LookaheadDraft
from specdec.drafts.lookup import LookupDraft
from specdec.drafts.medusa import MedusaDraft
from specdec.drafts.model import ModelDraft
from specdec.drafts.ngram import NGram, NGramDraft
from specdec.drafts.shared import SharedDraft
from specdec.drafts.tree import ModelTree
from specdec.table import TableModel, near
from specdec.trees import uniform


def text_of(model: TableModel, count: int = 60) -> bytes:
    """A text that `model` wrote, for drafts that count or copy."""
    return bytes(plain(model, [0], count, Sampling(), SeededChance(1)))


def counting(target: TableModel, model: TableModel) -> Draft:
    return NGramDraft(NGram(text_of(model), 3, target.vocab))


def headed(target: TableModel, model: TableModel, tree: bool = False) -> Draft:
    """Medusa with two heads whose laws are the model's behind one zero and behind two: a table's state tells them nothing."""
    laws = torch.stack([model.logits((0,)), model.logits((0, 0))])
    return MedusaDraft(lambda state, count: laws[:count], 2, 1, tree=tree)


class TableNet:
    """EAGLE's head for a table: the model itself, which reads the tokens behind the features and lets these be."""

    def __init__(self, model: TableModel) -> None:
        self.model, self.new_cache = model, model.new_cache

    def forward(self, features: Tensor, *read) -> tuple[Tensor, Tensor]:
        return self.model.forward(*read)


def on_features(target: TableModel, model: TableModel, depth: int = 0) -> Draft:
    return EagleDraft(TableNet(model), 1, depth=depth)


def cascade(target: TableModel, model: TableModel, levels: int = 2) -> Draft:
    """Copies draft for a model; with three levels that one drafts for another."""
    smaller = LookupDraft() if levels == 2 else cascade(target, near(model, 2))
    return CascadeDraft(smaller, ModelDraft(model, 1), 2)


def cascade_of_models(target: TableModel, model: TableModel) -> Draft:
    return CascadeDraft(ModelDraft(near(model, 2), 1), ModelDraft(model, 1), 1)


def branching(target: TableModel, model: TableModel, how: str = "without") -> Draft:
    """Two children of the root, the first of which has one: with a budget of 3 nodes."""
    return ModelTree(ModelDraft(model, 1), how, {1.0: uniform([2, 1])})


def lengths(target: TableModel, model: TableModel, policy: Policy) -> Draft:
    return LengthDraft(ModelDraft(model, 1), policy)


# family, and where there are several of one, which -> (maker(target, a near or far model), gamma, tokens walked)
SMALL: dict[str, tuple[Callable[[TableModel, TableModel], Draft], int, int]] = {
    "ngram": (counting, 2, 3),
    "lookup": (lambda target, model: LookupDraft(), 3, 5),
    "lookup k=3": (lambda target, model: LookupDraft(4, 1, 3), 4, 5),
    "cascade": (cascade, 2, 3),
    "cascade of models": (cascade_of_models, 2, 2),
    "cascade of three": (partial(cascade, levels=3), 2, 2),
    "medusa": (headed, 2, 4),
    "medusa tree": (partial(headed, tree=True), 4, 4),
    "eagle": (on_features, 2, 4),
    "eagle tree": (partial(on_features, depth=3), 5, 4),
    "jacobi": (lambda target, model: JacobiDraft(), 3, 5),
    "lookahead": (lambda target, model: LookaheadDraft(2, 3, 2, target.vocab), 5, 5),
    "shared": (lambda target, model: SharedDraft(ModelDraft(model, 1)), 2, 3),
    "tree": (branching, 3, 3),
    "tree with replacement": (partial(branching, how="with"), 3, 3),
    "tree of points": (partial(branching, how="points"), 3, 3),
    "length +2-1": (partial(lengths, policy=PlusTwoMinusOne(1)), 3, 3),
    "length recent": (partial(lengths, policy=Recent(0.3, 4)), 2, 3),
}
# families of DRAFTS whose draft is a ModelDraft, walked as such by the enumeration
MODELS = ("quantized", "stored", "tuned", "pico", "nano", "mini", "layers", "exit", "prune")


def checks() -> Iterator[Check]:
    """The joint law of every family's texts, by whole walks of generate(), and a draft that has served before against a new one."""
    target = target_of(3, 5)
    for name, (make, gamma, count) in SMALL.items():
        for which, model in near_and_far(target).items():
            of = partial(make, target, model)
            yield Check(f"{name}, joint of {count}", partial(walked, target, of, gamma, count),
                        which, "rivals")  # fmt: skip
            yield Check(f"{name}, no call remembers another", partial(left_over, target, of, "token"),
                        which, "rivals")  # fmt: skip


def walked(target: TableModel, draft_of: Callable[[], Draft], gamma: int, count: int) -> Reading:
    return by_walks(target, draft_of(), count, gamma)
