"""A model that drafts a token tree: one draft pass a level, all its nodes in it under a tree mask.

`tree:HOW,SHAPE:INNER`, as in `tree:without,2x2x1:rtn3`: two children of the root, two of each of those, one of each of those.
HOW is a name in specdec/drafts/child_laws.py; INNER a draft that is a plain model. gamma is the budget of nodes: a smaller one keeps
the first gamma of the layout (specdec/trees.py), chain first, which is known before any draw. `tree:best,N:INNER` takes the tree of
at most N nodes that promises the largest speed-up by the acceptance measured for INNER (specdec/drafts/measured.py).

The draft's cache holds the text and the nodes that were read, level by level. After a round the accepted path is gathered to
the front and the rest cut off; a kept leaf, which was never read, and the target's own token are caught up with on the next propose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from micro.chance import Chance
from micro.model import Transformer
from micro.sampling import Sampling
from specdec.drafts.child_laws import HOWS, next_child
from specdec.drafts.measured import measured_shapes
from specdec.drafts.model import ModelDraft
from specdec.drafts.spec import Spec
from specdec.model import Model
from specdec.proposal import Proposal, Step
from specdec.trees import Shape, children_of, uniform

BEST = "best"
MOST_NODES = 255  # of a shape: the widest lanes there are hold them and the root
MOST_PLANNED = 63  # of a best tree: their planning takes about a second


class ModelTree:
    """Drafts trees with the model of `inner`. shapes: temperature -> shape, of which the nearest to a text's own is used.

    Raises ValueError on a `how` that does not exist.
    """

    def __init__(self, inner: ModelDraft, how: str, shapes: Mapping[float, Shape]) -> None:
        if how not in HOWS:
            raise ValueError(f"children are drawn {', '.join(HOWS)}, not {how!r}")
        self.inner, self.how, self.shapes = inner, how, dict(shapes)
        self.bytes_per_pass = inner.bytes_per_pass
        self.extra_bytes, self.extra_parameters = inner.extra_bytes, inner.extra_parameters

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Raises ValueError as ModelDraft.start, and where a node has more children than there are tokens."""
        widest = max((shape.count(p) for shape in self.shapes.values() for p in shape), default=0)
        if widest > target.vocab:
            raise ValueError(f"a node of the tree has {widest} children, of {target.vocab} tokens")
        self.inner.start(prompt, target)
        self._tokens, self._read = list(prompt), []

    def shape(self, sampling: Sampling) -> Shape:
        """That of the nearest temperature."""
        return self.shapes[min(self.shapes, key=lambda t: (abs(t - sampling.temperature), t))]

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """The first gamma nodes of the shape, drawn level by level, each node's children in order."""
        parents = self.shape(sampling)[:gamma]
        tokens, laws = [0] * len(parents), [None] * len(parents)
        self._read, passes, level = [], 0, [-1]
        while level := [node for node in level if node in parents]:
            logits = self._pass(parents, tokens, level)
            passes += 1
            below = []
            for node, row, law in zip(level, logits, sampling.probs(logits)):
                position = len(self._tokens) + len(path_to(parents, node))
                elder = []
                for child in children_of(parents, node):
                    drawn = next_child(self.how, law, row, elder, chance, position)
                    tokens[child], laws[child] = drawn
                    elder.append(tokens[child])
                    below.append(child)
            level = below
        return Proposal(tuple(tokens), parents, tuple(laws), passes)

    def _pass(self, parents: Shape, tokens: list[int], level: list[int]) -> Tensor:
        """Logits (nodes, V) behind the nodes of a level; the root's pass reads what the cache lacks of the text."""
        model, cache = self.inner.model, self.inner.cache
        if level == [-1]:
            feed = torch.tensor([self._tokens[cache.length :]])
            return model.forward(feed, cache)[0][0, -1:]
        self._read += level
        paths = [path_to(parents, node) for node in level]
        seen = torch.tensor([[node in path for node in self._read] for path in paths])
        positions = torch.tensor([len(path) for path in paths]) + (len(self._tokens) - 1)
        feed = torch.tensor([[tokens[node] for node in level]])
        return model.forward(feed, cache, positions, seen)[0][0]

    def commit(self, step: Step) -> None:
        """Keep of the nodes that were read those of the accepted path that stand before the text's last token."""
        if self.inner.cache.length >= len(self._tokens):
            before = step.kept[: len(step.emitted) - 1]
            places = [self._read.index(node) for node in before if node in self._read]
            self.inner.cache.gather(len(self._tokens), places)
        self._tokens, self._read = list(step.tokens), []


def path_to(parents: Shape, node: int) -> list[int]:
    """The node and its ancestors, the root left out; [] for the root itself."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path


def tree_draft(target: Transformer, spec: Spec, make) -> ModelTree:
    """A token tree drafted by a model, as in tree:without,2x2x1:rtn3 or tree:best,15:rtn3. Raises ValueError saying what would be
    right, and as the inner draft's maker does."""
    plan, _, inside = spec.rest.partition(":")
    how, _, size = plan.partition(",")
    if not inside or how not in (*HOWS, BEST):
        raise ValueError(
            f"draft {spec.text!r}: write tree:HOW,SHAPE:DRAFT with HOW one of {', '.join((*HOWS, BEST))}, as in "
            f"tree:without,2x2x1:rtn3, or tree:best,15:rtn3 for at most 15 nodes"
        )
    inner = make(target, inside)
    if type(inner) is not ModelDraft:
        raise ValueError(f"draft {spec.text!r}: {inside} is no plain model, so it has no tree")
    if how == BEST:
        nodes = spec.number(size, "nodes")
        if nodes > MOST_PLANNED:
            raise ValueError(
                f"draft {spec.text!r}: the best tree is sought up to {MOST_PLANNED} nodes"
            )
        return ModelTree(inner, *measured_shapes(target, inside, nodes, inner.bytes_per_pass))
    return ModelTree(inner, how, {0.0: _uniform(spec, size)})


def _uniform(spec: Spec, text: str) -> Shape:
    """A shape by its widths, as in 2x2x1. Raises ValueError where it is none, or has more than MOST_NODES nodes."""
    widths = [spec.number(width, "a width of the shape") for width in text.split("x")]
    if sum(math.prod(widths[:level]) for level in range(1, len(widths) + 1)) > MOST_NODES:
        raise ValueError(f"draft {spec.text!r}: the shape has more than {MOST_NODES} nodes")
    return uniform(widths)
