"""Tier 1 of `selfdraft exact`: one position, added up in float64 to 1e-12.

What leaves a rule must be the target's law: accepted mass and what is drawn behind a refusal, over random and adversarial pairs
of laws. Its other parts: block verification's longer algebra (exact/block.py), and what the rules stand on, spelled out
(exact/spelled.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from experiments.exact import spelled
from experiments.exact.block import block_steps
from experiments.exact.check import ROUNDING, Check, Reading
from experiments.exact.pairs import PAIRS, pairs
from specdec import accept, block
from specdec.accept import RULES
from specdec.proposal import Proposal


def by_parts(rule: str, vocab: int, count: int) -> Reading:
    """Accepted mass and residual from the rule's own functions, for vocabularies too large to walk."""
    worst = 0.0
    for p, q in pairs(vocab, count):
        kept = torch.zeros_like(p)
        drawn = q.nonzero()[:, 0].tolist()
        for token in drawn:
            kept[token] = q[token] * _kept(rule, p, q, token)
        if rule == "block":
            left = block.excess(1.0, p, q, drawn[0])
            left = left / left.sum() if left.sum() > 0 else p
        else:
            left = accept.residual(p, q, drawn[0])
        worst = max(worst, float((kept + (1 - kept.sum()) * left - p).abs().max()))
    return Reading(worst, ROUNDING)


def _kept(rule: str, p: Tensor, q: Tensor, token: int) -> float:
    if rule == "block":
        return block.weights(Proposal.chain([token], [q], 1), p[None])[1]
    return accept.acceptance(p, q, token)


class Told:
    """A chance that follows one answer to a coin, and remembers coin and law instead of drawing: a draw gives the likeliest token."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.coin, self.law = answer, None, None

    def accept(self, probability: float) -> bool:
        self.coin = probability
        return self.answer

    def draw(self, law: Tensor, position: int) -> int:
        self.law = law / law.sum()
        return int(law.argmax())


def law_given(rule: str, p: Tensor, q: Tensor | None, token: int) -> Tensor:
    """The law (V,) of what verify() emits at one position where `token` was drafted and there is room for one token."""
    out = torch.zeros_like(p)
    for answer in (True, False):
        told = Told(answer)
        proposal = Proposal.chain([token], [q], passes=1)
        verdict = accept.verify(proposal, torch.stack([p, p]), told, room=1, rule=rule)
        emitted = token if verdict.kept else verdict.token
        mass = 1.0 if told.coin is None else told.coin if answer else 1 - told.coin
        if told.law is None:
            out[emitted] += mass
        else:
            out += mass * told.law
        if told.coin is None:
            break
    return out


def through_verify(rule: str, vocab: int, count: int, points: bool = False) -> Reading:
    """Through verify(): every drafted token weighed with its chance, or the draft's likeliest as a point mass."""
    worst = 0.0
    for p, q in pairs(vocab, count):
        if points:
            law = law_given(rule, p, None, int(q.argmax()))
        elif rule in ("match", "coupled"):  # the target's own draw, whatever was drafted
            law = law_given(rule, p, q, int(q.argmax()))
        else:
            law = sum(q[t] * law_given(rule, p, q, t) for t in q.nonzero()[:, 0].tolist())
        worst = max(worst, float((law - p).abs().max()))
    return Reading(worst, ROUNDING)


def checks() -> Iterator[Check]:
    for rule in RULES:
        for vocab in (2, 3):
            for count, level in ((160, "probe"), (PAIRS[vocab], "whole")):
                yield Check(
                    f"{rule}, {count:,} pairs over {vocab} tokens, through verify",
                    partial(through_verify, rule, vocab, count),
                    family=rule,
                    level=level,
                )
        for vocab in (100, 257, 8193):
            run = by_parts if rule in ("token", "block") else through_verify
            for count, level in ((max(1, PAIRS[vocab] // 40), "quick"), (PAIRS[vocab], "whole")):
                yield Check(
                    f"{rule}, {count:,} pairs over {vocab} tokens",
                    partial(run, rule, vocab, count),
                    family=rule,
                    level=level,
                )
        yield Check(
            f"{rule}, point masses",
            partial(through_verify, rule, 7, 160, True),
            family=rule,
            level="probe",
        )
    for vocab, steps, count in ((2, 2, 12), (3, 2, 6), (2, 3, 6)):
        yield Check(
            f"block, {steps} steps over {vocab} tokens",
            partial(block_steps, vocab, steps, count),
            family="block",
            level="probe",
        )
    yield Check(
        "block, 3 steps over 3 tokens", partial(block_steps, 3, 3, 6), family="block", level="whole"
    )
    yield Check(
        "warping spelled out", partial(spelled.warping, 200), family="warping", level="probe"
    )
    yield Check("ties of warping", partial(spelled.warping, 30), family="greedy", level="probe")
    yield Check("inverse of a running sum", partial(spelled.inverse, 300))
    yield Check("keyed noise by its key", spelled.noise_by_key, family="coupled", level="probe")
    yield Check("streams by their names", spelled.streams)
    yield Check("enumeration adds up", spelled.enumeration)
    yield Check("closed forms spelled out", partial(spelled.closed_forms, 200))  # fmt: skip
