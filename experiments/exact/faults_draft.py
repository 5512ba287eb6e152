"""Small faults in drafts; as in exact/faults_rule.py, `reached()` stands where the wrong line runs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from experiments.exact.faults_rule import Reached
from micro.chance import Chance
from micro.sampling import Sampling
from specdec.proposal import Proposal, Step
from specdec.table import table_law


class Likeliest:
    """Draws the likeliest token."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached

    def draw(self, law: Tensor, position: int) -> int:
        self.reached()
        return int(law.argmax())


def argmax_draft(real, reached: Reached):
    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        return real(self, gamma, sampling, Likeliest(reached))

    return propose


class Retold:
    """A Sampling that draws as it should, and keeps for q what another one would have said."""

    def __init__(self, sampling: Sampling, other: Sampling, reached: Reached) -> None:
        self.sampling, self.other, self.reached, self.told = sampling, other, reached, []

    def probs(self, logits: Tensor) -> Tensor:
        self.reached()
        self.told.append(self.other.probs(logits))
        return self.sampling.probs(logits)


def _retelling(real, reached: Reached, other_of):
    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        retold = Retold(sampling, other_of(sampling), reached)
        done = real(self, gamma, retold, chance)
        return Proposal.chain(done.tokens, retold.told, done.passes)

    return propose


def q_before_warping(real, reached: Reached):
    return _retelling(real, reached, lambda sampling: Sampling())


def q_at_another_temperature(real, reached: Reached):
    return _retelling(
        real, reached, lambda sampling: replace(sampling, temperature=1.5 * sampling.temperature)
    )


def discard_then_stop(real, reached: Reached):
    """Stops at the first token of probability under .4, and throws it away instead of having it judged."""

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        done = real(self, gamma, sampling, chance)
        for place, (token, law) in enumerate(zip(done.tokens, done.laws)):
            if law[token] < 0.4:
                reached()
                return Proposal.chain(done.tokens[:place], done.laws[:place], done.passes)
        return done

    return propose


def newest_only(real, reached: Reached):
    """propose() as if the cache always lacked one token, whatever it really lacks."""

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        tokens = self._tokens
        if 0 < self.cache.length < len(tokens) - 1:
            reached()
            self._tokens = [*tokens[: self.cache.length], tokens[-1]]
        done = real(self, gamma, sampling, chance)
        self._tokens = tokens
        return done

    return propose


def stale_commit(real, reached: Reached):
    """What a rejection leaves stays in the draft's cache, as far as there is text for it."""

    def commit(self, step: Step) -> None:
        held = self.cache.length
        real(self, step)
        rejected = self.cache.length < held
        if rejected and hasattr(self.cache, "tokens"):
            reached()
            self.cache.tokens[-1:] = [(self.cache.tokens[-1] + 1) % self.model.vocab]
        elif rejected:
            reached()
            self.cache.keys[..., self.cache.length - 1, :] = 0.0

    return commit


def two_too_many(real, reached: Reached):
    """Behind a rejection two more tokens are forgotten than need be: they are read again, which costs and is not seen in any law."""

    def commit(self, step: Step) -> None:
        real(self, step)
        if self.cache.length == len(step.tokens) - 1:  # not so behind a fully accepted round
            reached()
            self.cache.truncate(max(0, self.cache.length - 2))

    return commit


def cache_of_last_call(real, reached: Reached):
    def start(self, prompt, target) -> None:
        cache = getattr(self, "cache", None)
        real(self, prompt, target)
        if cache is not None:
            reached()
            cache.truncate(min(cache.length, len(prompt) - 1))
            self.cache = cache

    return start


class OtherPlace:
    """Draws under the noise of the next position."""

    def __init__(self, chance: Chance, reached: Reached) -> None:
        self.chance, self.reached = chance, reached

    def draw(self, law: Tensor, position: int) -> int:
        self.reached()
        return self.chance.draw(law, position + 1)


def noise_of_next_place(real, reached: Reached):
    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        return real(self, gamma, sampling, OtherPlace(chance, reached))

    return propose


def unconditioned_siblings(real, reached: Reached):
    """Drawn without replacement, and told as if drawn with it."""

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        done = real(self, gamma, sampling, chance)
        laws, paths = list(done.laws), {-1: ()}
        for node, parent in enumerate(done.parent):
            paths[node] = (*paths[parent], done.tokens[node])
            is_younger = parent in done.parent[:node]
            if is_younger and laws[node] is not None and self.how == "without":
                reached()
                laws[node] = table_law(self.model, (*self.text, *paths[parent]), sampling)
        return replace(done, laws=tuple(laws))

    return propose


def depths_of_a_chain(real, reached: Reached):
    def depths(self) -> list[int]:
        reached()
        return list(range(1, len(self.tokens) + 1))

    return depths


def all_earlier_seen(real, reached: Reached):
    def visible(self) -> Tensor:
        reached()
        return torch.ones_like(real(self)).tril()

    return visible
