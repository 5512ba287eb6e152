"""A quantized draft that reads the target's key-value cache instead of one of its own.

A draft of the target's own shape can attend to the target's keys and values as they stand: of the text so far it keeps nothing,
and only the entries of the tokens it is drafting are its own, thrown away after the round. What it saves is a second cache; a
pass reads as many entries as before. The target's cache holds all of the text but its last token, so there is nothing to catch up with.

As self-speculative decoding shares the cache of the layers that draft and target have in common (Zhang et al. 2023, arXiv
2309.08168; Elhoushi et al. 2024, arXiv 2404.16710), here between two precisions of all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from micro.model import Transformer
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.spec import Spec
from specdec.model import Model
from specdec.proposal import Step


class SharedDraft(ModelDraft):
    """`inner`, over the target's cache. The entries are copied, since the target's own cache is not a draft's to write behind;
    the copy is counted nowhere.
    """

    def __init__(self, inner: ModelDraft) -> None:
        super().__init__(
            inner.model,
            inner.bytes_per_pass,
            inner.stop,
            inner.extra_bytes,
            inner.extra_parameters,
        )

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """The target reads the prompt into a cache that the draft may write to. Raises ValueError as ModelDraft."""
        super().start(prompt, target)
        self.cache = target.new_cache(1)
        if len(prompt) > 1:
            target.forward(torch.tensor([list(prompt[:-1])]), self.cache)

    def commit(self, step: Step) -> None:
        """Behind what was shared before come the target's entries of the round, in place of the draft's."""
        self.cache.copy_from(step.cache, len(self._tokens) - 1, len(step.tokens) - 1)
        self._tokens = list(step.tokens)


def shared_draft(
    target: Transformer, spec: Spec, make: Callable[[Transformer, str], Draft]
) -> SharedDraft:
    """A low-bit copy that reads the target's key-value cache instead of its own, as in `shared:rtn3`.

    Raises ValueError where that is no model of the target's shape.
    """
    name = spec.rest if spec.text.startswith("shared:") else ""
    if not name:
        raise ValueError(
            f"draft {spec.text!r} lacks the copy that shares the cache, as in shared:rtn3"
        )
    inner = make(target, name)
    if type(inner) is not ModelDraft or not isinstance(inner.model, Transformer):
        raise ValueError(
            f"draft {spec.text!r}: {name} is no copy of the target, whose cache it is to read; write a format or a folder, "
            "as in shared:rtn3"
        )
    if inner.model.config != target.config:
        raise ValueError(
            f"draft {spec.text!r}: {name} has another shape than the target, whose cache it is to read"
        )
    return SharedDraft(inner)
