"""How many tokens a round drafts, by what became of the rounds before: `length:POLICY:INNER`, as in `length:recent:rtn3`.

    +2-1,FIRST      from FIRST on, two more after a round whose every token was accepted, one fewer after any other; never below 1.
                    transformers' heuristic, which begins at 20
    recent,MEMORY   alpha = accepted / checked of the last rounds, older ones fading over some MEMORY checked tokens, and the gamma
                    that is best for it: argmax over gamma of f(alpha) / (1 + gamma c) (Leviathan et al. 2023, arXiv 2211.17192)

A policy reads the text's rounds and nothing else, so the number of tokens to draft is known before any of them is drawn, and every
drawn one is judged: the law of the text cannot change. gamma stays the most. What a draft says of its own tokens within a round ends
it by specdec/drafts/confidence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from micro.chance import Chance
from micro.model import Transformer
from micro.sampling import Sampling
from quant.bytes import pass_bytes
from specdec.drafts.base import Draft
from specdec.drafts.spec import Spec
from specdec.model import Model
from specdec.proposal import Proposal, Step
from specdec.theory import best_gamma

PRIOR_ALPHA, PRIOR_CHECKED = 0.8, 4.0  # what `recent` believes of a text that has not begun
MOST = 64  # tokens `recent` asks for at most; from there on the limit 1 / c is near


class Tried(NamedTuple):
    """A round: levels that were drafted (of a chain: tokens), and how many were kept."""

    drafted: int
    accepted: int

    @property
    def checked(self) -> int:
        """Levels judged: up to and including the first that was refused."""
        return min(self.drafted, self.accepted + 1)


class Policy(Protocol):
    """Tokens to draft next, 1 and above, after the text's rounds so far."""

    def length(self, rounds: Sequence[Tried]) -> int: ...


@dataclass(frozen=True)
class PlusTwoMinusOne:
    """+2-1 above."""

    first: int = 20

    def length(self, rounds: Sequence[Tried]) -> int:
        length = self.first
        for one in rounds:
            length = length + 2 if one.accepted == one.drafted else max(1, length - 1)
        return length


@dataclass(frozen=True)
class Recent:
    """recent above. c: cost of a draft pass in target passes."""

    c: float
    memory: int = 20

    def alpha(self, rounds: Sequence[Tried]) -> float:
        """Each checked token counts (1 - 1/memory) for every one that was checked behind its round."""
        accepted, checked = PRIOR_ALPHA * PRIOR_CHECKED, PRIOR_CHECKED
        for one in rounds:
            fade = (1 - 1 / self.memory) ** one.checked
            accepted, checked = accepted * fade + one.accepted, checked * fade + one.checked
        return accepted / checked

    def length(self, rounds: Sequence[Tried]) -> int:
        """At least 1: who drafts nothing learns nothing."""
        return max(1, best_gamma(self.alpha(rounds), self.c, MOST)[0])


class LengthDraft:
    """`inner`, asked for as many tokens as `policy` says and gamma allows."""

    def __init__(self, inner: Draft, policy: Policy) -> None:
        self.inner, self.policy = inner, policy
        self.bytes_per_pass = inner.bytes_per_pass
        self.extra_bytes, self.extra_parameters = inner.extra_bytes, inner.extra_parameters

    def start(self, prompt: Sequence[int], target: Model) -> None:
        self.inner.start(prompt, target)
        self._rounds: list[Tried] = []

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        most = min(gamma, self.policy.length(self._rounds))
        proposal = self.inner.propose(most, sampling, chance)
        self._drafted = max(proposal.depths(), default=0)
        return proposal

    def commit(self, step: Step) -> None:
        self.inner.commit(step)
        if self._drafted:
            self._rounds.append(Tried(self._drafted, len(step.kept)))


def length_draft(target: Transformer, spec: Spec, make) -> LengthDraft:
    """Any draft, its length adapted from round to round, as in length:recent:rtn3 or length:+2-1,4:rtn3. Raises ValueError saying what would be right, and as the inner draft's maker does."""
    plan, _, inside = spec.rest.partition(":")
    name, _, number = plan.partition(",")
    if not inside or name not in ("+2-1", "recent"):
        raise ValueError(
            f"draft {spec.text!r}: write length:POLICY:DRAFT with +2-1, +2-1,FIRST, recent or recent,MEMORY, as in "
            f"length:recent:rtn3"
        )
    inner = make(target, inside)
    if name == "recent":
        rest = [spec.number(number, "the memory")] if number else []
        return LengthDraft(inner, Recent(inner.bytes_per_pass / pass_bytes(target), *rest))
    rest = [spec.number(number, "the first length")] if number else []
    return LengthDraft(inner, PlusTwoMinusOne(*rest))
