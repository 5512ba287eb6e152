"""Small faults in the acceptance rules: each makes, from the real function, one that is wrong in one way.

`reached()` stands where the wrong line runs, so that a fault which never ran is not taken for one that nobody saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from micro.chance import Chance
from specdec import accept
from specdec.proposal import Proposal, Verdict

Reached = Callable[[], None]


def resample_from_p(real, reached: Reached):
    def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
        reached()
        return p

    return residual


def ratio_inverted(real, reached: Reached):
    def acceptance(p: Tensor, q: Tensor | None, token: int) -> float:
        if q is None:
            return real(p, q, token)
        reached()
        return real(q, p, token) if p[token] > 0 else 1.0

    return acceptance


def swapped_residual(real, reached: Reached):
    def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
        if q is None:
            return real(p, q, token)
        reached()
        return real(q, p, token)

    return residual


def unscaled_residual(real, reached: Reached):
    """Behind a sampled token max(p - q, 0) keeps its own mass: a later sibling is judged against too little."""

    def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
        if q is None:
            return real(p, q, token)
        reached()
        left = (p - q).clamp(min=0.0)
        return left if left.sum() > 0 else p

    return residual


def unscaled_hole(real, reached: Reached):
    """Behind a point mass p has a hole and the rest is not scaled up."""

    def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
        if q is not None:
            return real(p, q, token)
        reached()
        left = p.clone()
        left[token] = 0.0
        return left

    return residual


def first_never_checked(real, reached: Reached):
    def rule(proposal: Proposal, p: Tensor, *rest) -> Verdict:
        if proposal.tokens and proposal.laws[0] is not None:
            reached()
            proposal = replace(proposal, laws=(p[0], *proposal.laws[1:]))
        return real(proposal, p, *rest)

    return rule


def bonus_from_draft(real, reached: Reached):
    """The row behind the last drafted token is the draft's own last law."""

    def rule(proposal: Proposal, p: Tensor, *rest) -> Verdict:
        if proposal.tokens and proposal.laws[-1] is not None:
            reached()
            p = torch.cat((p[:-1], proposal.laws[-1][None]))
        return real(proposal, p, *rest)

    return rule


class OneUniform:
    """One uniform for all coins of a round, exact under any chance: what is known of it is an interval that each coin cuts."""

    def __init__(self, chance: Chance, reached: Reached) -> None:
        self.chance, self.reached = chance, reached
        self.low, self.high, self.coins = 0.0, 1.0, 0

    def accept(self, probability: float) -> bool:
        self.coins += 1
        if self.coins > 1:
            self.reached()
        at = min(max(probability, self.low), self.high)
        yes = self.chance.accept((at - self.low) / (self.high - self.low))
        self.low, self.high = (self.low, at) if yes else (at, self.high)
        return yes

    def draw(self, law: Tensor, position: int) -> int:
        return self.chance.draw(law, position)


def one_uniform(real, reached: Reached):
    def rule(proposal: Proposal, p: Tensor, chance: Chance, *rest) -> Verdict:
        return real(proposal, p, OneUniform(chance, reached), *rest)

    return rule


def ordinary_residual(real, reached: Reached):
    """Under shared noise the token rule: a token is refused *because* of the noise that its correction is drawn with."""

    def rule(*args) -> Verdict:
        reached()
        return accept.token_rule(*args)

    return rule


def block_without_weight(real, reached: Reached):
    def excess(w: float, p: Tensor, q: Tensor | None, token: int) -> Tensor:
        reached()
        return real(1.0, p, q, token)

    return excess


def block_coin_is_weight(real, reached: Reached):
    def keep_chance(w: float, left: float) -> float:
        reached()
        return w

    return keep_chance


def match_keeps_drafted(real, reached: Reached):
    def rule(proposal: Proposal, *rest) -> Verdict:
        verdict = real(proposal, *rest)
        if not verdict.rejected:
            return verdict
        reached()
        return replace(verdict, token=proposal.tokens[len(verdict.kept)])

    return rule


def shifted_p(real, reached: Reached):
    def verify(proposal: Proposal, p: Tensor, *rest) -> Verdict:
        reached()
        return real(proposal, p.roll(1, 0), *rest)

    return verify


def bonus_by_argmax(real, reached: Reached):
    def verify(proposal: Proposal, p: Tensor, *rest) -> Verdict:
        verdict = real(proposal, p, *rest)
        if verdict.rejected or verdict.token is None or not verdict.kept:
            return verdict
        reached()
        return replace(verdict, token=int(p[verdict.kept[-1] + 1].argmax()))

    return verify


def bonus_dropped(real, reached: Reached):
    """The law stays exact, and a token a full round is lost."""

    def verify(*args) -> Verdict:
        verdict = real(*args)
        if verdict.rejected or verdict.token is None or not verdict.kept:
            return verdict
        reached()
        return replace(verdict, token=None)

    return verify
