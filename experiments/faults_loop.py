"""Small faults in drafts, loop, caches, sampling and chance; as in faults_rule.py, `reached()` stands where the wrong line runs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from experiments.faults_rule import Reached
from micro.chance import Chance
from micro.sampling import Sampling
from specdec.proposal import Proposal, Step
from specdec.record import Round
from specdec.table import table_law

# --- drafts


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


# --- loop


def reseeded(real, reached: Reached):
    """Every round begins the stream of uniforms anew."""

    def one_round(state, draft, gamma, sampling, chance, rule="token") -> Round:
        stream = getattr(chance, "_uniforms", None)
        if stream is not None and len(state.tokens) == state.start:
            state.first = stream.bit_generator.state
        elif stream is not None:
            reached()
            stream.bit_generator.state = state.first
        return real(state, draft, gamma, sampling, chance, rule)

    return one_round


def last_round_whole(real, reached: Reached):
    """A round that a limit made shorter is recorded as if it had drafted all of gamma."""

    def one_round(state, draft, gamma, *rest) -> Round:
        missing = gamma - state.room
        done = real(state, draft, gamma, *rest)
        if missing <= 0:
            return done
        reached()
        drafted = done.drafted + (0,) * missing
        return replace(done, drafted=drafted, draft_passes=done.draft_passes + missing)

    return one_round


def stop_ignored(real, reached: Reached):
    """A stop that lies inside a round's tokens does not end the text."""

    def cut(self, emitted: list[int]) -> list[int]:
        kept = real(self, emitted)
        if len(kept) == len(emitted):
            return kept
        reached()
        self.ended = ""
        return emitted

    return cut


def room_for_one_more(real, reached: Reached):
    def room(self) -> int:
        reached()
        return real(self) + 1

    return room


def thrown_counted_as_checked(real, reached: Reached):
    def record(*args) -> Round:
        done = real(*args)
        if done.checked == done.proposed:
            return done
        reached()
        return replace(done, checked=done.proposed)

    return record


# --- caches


def not_rolled_back(real, reached: Reached):
    def gather(self, start: int, kept: list[int]) -> None:
        if self.length > start + len(kept):
            reached()

    return gather


def one_short(real, reached: Reached):
    def gather(self, start: int, kept: list[int]) -> None:
        if len(kept) > 1:
            reached()
        real(self, start, kept[:-1] or kept)

    return gather


def last_bit(real, reached: Reached):
    """One number of each cache, once, by its last bit."""

    def gather(self, start: int, kept: list[int]) -> None:
        real(self, start, kept)
        if not hasattr(self, "touched"):
            reached()
            self.touched = True
            entry = self.keys[0, 0, 0, 0, :1]
            entry.copy_(torch.nextafter(entry, torch.full_like(entry, float("inf"))))

    return gather


def slots_not_moved(real, reached: Reached):
    """All kept places take what stands in the first one."""

    def gather(self, start: int, kept: list[int]) -> None:
        if len(kept) > 1:
            reached()
        real(self, start, [0] * len(kept))

    return gather


# --- sampling and chance


def highest_id(real, reached: Reached):
    def first_argmax(x: Tensor) -> Tensor:
        largest = x == x.amax(-1, keepdim=True)
        if (largest.sum(-1) > 1).any():
            reached()
        ids = torch.arange(x.shape[-1], device=x.device)
        return torch.where(largest, ids, -1).amax(-1)

    return first_argmax


def top_k_plus_one(real, reached: Reached):
    def cut(self, law: Tensor) -> Tensor:
        if 0 < self.top_k < law.shape[-1]:
            reached()
            self = replace(self, top_k=self.top_k + 1)
        return real(self, law)

    return cut


def rounded_uniform(real, reached: Reached):
    """Rounded to the nearest bfloat16: one of 512 becomes 1.0, which refuses even where p = q."""

    def uniform(self) -> float:
        reached()
        return float(torch.tensor(real(self)).bfloat16())

    return uniform


def coarse_uniform(real, reached: Reached):
    """What a bfloat16 generator gives, multiples of 1/256: a ratio of .0005 is accepted eight times too often."""

    def uniform(self) -> float:
        reached()
        return int(real(self) * 256) / 256

    return uniform


def noise_without_place(real, reached: Reached):
    """The key forgets the position, so that one noise serves all of a text."""

    def draw(self, law: Tensor, position: int) -> int:
        reached()
        return real(self, law, 0)

    return draw
