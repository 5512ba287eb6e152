"""Drafts that keep no cache: a script of point masses, and token trees drawn from a table.

They show what a Proposal may be besides a chain from a model: tokens that no chance drew, siblings drawn with or without
replacement, and both mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from micro.chance import Chance
from micro.sampling import Sampling
from specdec.drafts.child_laws import remaining
from specdec.model import Model
from specdec.proposal import Proposal, Step
from specdec.table import TableModel, table_law


class TextDraft:
    """What drafts without a cache share: they know the text, and nothing else."""

    bytes_per_pass = extra_bytes = extra_parameters = 0

    def start(self, prompt: Sequence[int], target: Model) -> None:
        self.text = list(prompt)

    def commit(self, step: Step) -> None:
        self.text = list(step.tokens)


class ScriptedDraft(TextDraft):
    """Point masses: proposes script[n], script[n + 1], ... behind a text of n tokens, and nothing behind its end."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        tokens = self.script[len(self.text) : len(self.text) + gamma]
        return Proposal.chain(tokens, [None] * len(tokens), passes=0)


class TreeDraft(TextDraft):
    """Proposes a tree of the given parents, its tokens from `model`'s table.

    how: "with" replacement, "without" it, "points" (the likeliest tokens, as point masses) or "mixed" (a sampled node, then a
    point mass, in turn). Where a law has no token left its node and all below it are not drawn; that is known before the draw.
    """

    def __init__(self, model: TableModel, parents: Sequence[int], how: str) -> None:
        self.model, self.parents, self.how = model, parents, how

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        places: dict[int, int] = {-1: -1}  # node of the shape -> node of the proposal
        tokens, parents, laws, paths = [], [], [], {-1: ()}
        for node, parent in enumerate(self.parents[:gamma]):
            if parent not in places:
                continue
            at = places[parent]
            elder = [tokens[i] for i, p in enumerate(parents) if p == at]
            law = self._law(paths[at], elder, sampling)
            if law is None:
                continue
            as_point = self._as_point(elder)
            position = len(self.text) + len(paths[at])
            token = int(law.argmax()) if as_point else chance.draw(law, position)
            places[node] = len(tokens)
            paths[len(tokens)] = (*paths[at], token)
            tokens.append(token)
            parents.append(at)
            laws.append(None if as_point else law)
        return Proposal(tuple(tokens), tuple(parents), tuple(laws), passes=len(tokens))

    def _as_point(self, elder: list[int]) -> bool:
        return self.how == "points" or (self.how == "mixed" and len(elder) % 2 == 1)

    def _law(self, path: tuple[int, ...], elder: list[int], sampling: Sampling) -> Tensor | None:
        """The law (V,) behind text and path given the elder siblings' tokens; None where nothing is left."""
        law = table_law(self.model, (*self.text, *path), sampling)
        return remaining(law, elder if self._as_point(elder) or self.how == "without" else ())
