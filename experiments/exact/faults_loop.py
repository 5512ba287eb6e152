"""Small faults in loop, caches, sampling and chance; as in exact/faults_rule.py, `reached()` stands where the wrong line runs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from experiments.exact.faults_rule import Reached
from specdec.record import Round

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
