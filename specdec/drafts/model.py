"""A model as a draft: it samples gamma tokens one by one from its own law, warped as the target's. With a confidence stop it
may end earlier, keeping the token it stopped on (specdec/drafts/confidence.py).

Its cache holds a prefix of the text and catches up on the next propose: after a round everything behind the common
prefix is cut off, so neither a fully accepted round nor a rejection needs a case of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from micro.chance import Chance
from micro.sampling import Sampling
from specdec.drafts.confidence import Stop
from specdec.model import Model
from specdec.proposal import Proposal, Step


class ModelDraft:
    """Drafts a chain with `model`, reading `bytes_per_pass` bytes of weights each pass. `cache` may be read between rounds.

    stop: ends a round's drafting; None drafts gamma tokens always. extra_bytes: weight bytes in memory beside the target, None
    where that is what a pass reads; extra_parameters: their numbers.
    """

    def __init__(
        self,
        model: Model,
        bytes_per_pass: int,
        stop: Stop | None = None,
        extra_bytes: int | None = None,
        extra_parameters: int = 0,
    ) -> None:
        self.model, self.bytes_per_pass, self.stop = model, bytes_per_pass, stop
        self.extra_bytes = bytes_per_pass if extra_bytes is None else extra_bytes
        self.extra_parameters = extra_parameters

    def start(self, prompt: Sequence[int], target: Model) -> None:
        """Raises ValueError where the draft cannot stand in for the target."""
        if self.model.vocab != target.vocab:
            raise ValueError(f"the draft has {self.model.vocab} tokens, the target {target.vocab}")
        if self.model.context < target.context:
            raise ValueError(
                f"the draft's context of {self.model.context} is shorter than the target's {target.context}"
            )
        self.cache = self.model.new_cache(1)
        self._tokens = list(prompt)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        """At most gamma tokens and the laws (V,) they were drawn from. The first pass reads what the cache lacks."""
        tokens, laws = [], []
        feed = self._tokens[self.cache.length :]
        unsure = self.stop.begin() if self.stop is not None else None
        for place in range(gamma):
            logits, _ = self.model.forward(torch.tensor([feed]), self.cache)
            law = sampling.probs(logits[0, -1])
            token = chance.draw(law, len(self._tokens) + place)
            tokens.append(token)
            laws.append(law)
            feed = [token]
            if unsure is not None and unsure(law, token):
                break
        return Proposal.chain(tokens, laws, passes=len(tokens))

    def commit(self, step: Step) -> None:
        """The cache holds the old text and drafted tokens; all but the last token of the new text agrees with them."""
        self.cache.truncate(min(self.cache.length, len(step.tokens) - 1))
        self._tokens = list(step.tokens)
