"""Jacobi decoding: the target guesses for itself. What it answered behind wrong guesses is guessed next.

Greedy text solves y[i] = argmax p(. | x, y[1] ... y[i-1]) for i = 1 ... gamma. Fixed-point iteration puts guesses into all right
sides at once and reads all left sides off one pass. Each round settles one token or more, so it never takes more rounds than plain
decoding; it takes fewer where an answer is right although a guess before it was wrong. Santilli et al. 2023 (arXiv 2305.10427),
who solve one block of tokens before the next begins; here each settled token makes room for a new guess.

A guess is a point mass, so the acceptance rule keeps the target's law at every temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from micro.chance import Chance
from micro.sampling import Sampling, first_argmax
from specdec.drafts.base import Draft
from specdec.drafts.spec import Spec
from specdec.drafts.table import TextDraft
from specdec.model import Model
from specdec.proposal import Proposal, Step


def repeated(text: Sequence[int], count: int) -> list[int]:
    """`count` tokens that go on with a text of one or more: its last `count` once more, a shorter text over and over."""
    piece = text[-count:]
    return [piece[place % len(piece)] for place in range(count)]


class JacobiDraft(TextDraft):
    """Proposes a chain of gamma guesses: the target's likeliest tokens behind those of the round before, and where it has not been
    asked yet the token that stands gamma places earlier. No pass is made and nothing read for it.
    """

    def start(self, prompt: Sequence[int], target: Model) -> None:
        super().start(prompt, target)
        self._answers: list[int] = []

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        guesses = self._answers[:gamma]
        guesses += repeated([*self.text, *guesses], gamma)[: gamma - len(guesses)]
        return Proposal.chain(guesses, [None] * gamma, passes=0)

    def commit(self, step: Step) -> None:
        """The answer behind the last kept guess was this round's own token; the next round's guesses are those behind it."""
        super().commit(step)
        self._answers = first_argmax(step.logits)[len(step.kept) + 1 :].tolist()


def jacobi_draft(target: Model, spec: Spec, make: Callable[..., Draft]) -> JacobiDraft:
    """The target's own answers to the last guesses, guessed again: fixed-point iteration (`jacobi`).

    Raises ValueError where more was written.
    """
    if spec.text != spec.name:
        raise ValueError(
            f"draft {spec.text!r}: {spec.name} takes nothing behind its name; gamma is the number of guesses"
        )
    return JacobiDraft()
