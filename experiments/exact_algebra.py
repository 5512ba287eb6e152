"""Tier 1 of `selfdraft exact`: one position, and block verification's two and three, added up in float64 to 1e-12.

What leaves a rule must be the target's law: accepted mass and what is drawn behind a refusal, over random and adversarial pairs
of laws. And what the rules stand on, against spellings that share no code with it: warping by sorting in plain Python, the
inverse of a running sum by walking it, enumeration by adding it up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from experiments.exact_check import ROUNDING, Check, Reading
from micro import chance as chances
from micro.chance import KeyedChance, SeededChance, every_branch, generator_for
from micro.sampling import Sampling
from specdec import accept, block
from specdec.accept import RULES
from specdec.closed_forms import CLOSED_FORMS
from specdec.proposal import Proposal
from specdec.replay import acceptance_given_output
from specdec.replay_rules import coupled_given_output, match_given_output

PAIRS = {2: 8_000, 3: 8_000, 100: 3_500, 257: 495, 8193: 5}  # vocabulary -> pairs, 20,000 in all
KINDS = 8


def pairs(vocab: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random laws p, q (V,) of all temperatures, and the awkward ones: one-hot, equal, disjoint, with zeros, with ties."""
    rng = generator_for(vocab, "pairs")

    def some() -> Tensor:
        return torch.from_numpy(rng.dirichlet([rng.choice([0.05, 0.5, 5.0])] * vocab))

    for number in range(count):
        p, q = some(), some()
        kind = number % KINDS
        if kind == 0:
            p = torch.nn.functional.one_hot(p.argmax(), vocab).double()
        elif kind == 1:
            q = torch.nn.functional.one_hot(q.argmax(), vocab).double()
        elif kind == 2:
            q = p.clone()
        elif kind == 3:  # disjoint
            half = torch.arange(vocab) < vocab // 2
            p, q = p * half + 1e-9 * half, q * ~half + 1e-9 * ~half
        elif kind == 4:  # zeros in both
            p, q = p * (p >= p.mean()), q * (q >= q.mean())
        elif kind == 5:  # ties
            p = torch.full_like(p, 1.0)
        elif kind == 6:  # equal up to the last bits
            q = p * (1 + 1e-15 * torch.arange(vocab))
        yield p / p.sum(), q / q.sum()


# --- the rules at one position


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


# --- block verification, two and three steps


def block_steps(vocab: int, steps: int, count: int) -> Reading:
    """Kept length and next token of every drafted chain, against the rule spelled out; and the joint law that they make."""
    worst = 0.0
    rng = generator_for(vocab, steps, "block")
    for number in range(count):
        concentration = (0.2, 1.0, 4.0)[number % 3]
        tables = {
            path: rng.dirichlet([concentration] * vocab, size=2)
            for depth in range(steps + 1)
            for path in itertools.product(range(vocab), repeat=depth)
        }  # path -> (2, V): p and q behind it
        joint = dict.fromkeys(itertools.product(range(vocab), repeat=steps + 1), 0.0)
        for chain in itertools.product(range(vocab), repeat=steps):
            p, q = zip(*(tables[chain[:i]] for i in range(steps + 1)))
            spelled = _spelled(chain, p, q)
            found = _found(chain, p, q)
            worst = max(worst, max(abs(found.get(k, 0.0) - spelled.get(k, 0.0))
                                   for k in found.keys() | spelled.keys()))  # fmt: skip
            drawn = math.prod(q[i][t] for i, t in enumerate(chain))
            for (kept, token), mass in found.items():
                _continue(joint, (*chain[:kept], token), drawn * mass, tables, steps + 1)
        want = {text: _mass(text, tables) for text in joint}
        worst = max(worst, max(abs(joint[text] - want[text]) for text in joint))
    return Reading(worst, ROUNDING)


def _found(chain, p, q) -> dict[tuple[int, int], float]:
    """(kept, next token) -> chance, by walking verify()."""
    laws = torch.from_numpy(np.stack(p))
    proposal = Proposal.chain(chain, [torch.from_numpy(law) for law in q[:-1]], len(chain))
    out: dict[tuple[int, int], float] = {}
    for probability, verdict in every_branch(
        lambda chance: accept.verify(proposal, laws, chance, rule="block")
    ):
        key = (len(verdict.kept), verdict.token)
        out[key] = out.get(key, 0.0) + probability
    return out


def _spelled(chain, p, q) -> dict[tuple[int, int], float]:
    """The same from the paper's algorithm, every coin thrown."""
    N, V = len(chain), len(p[0])
    w = [1.0]
    for i, token in enumerate(chain):
        w.append(min(1.0, w[i] * p[i][token] / q[i][token]))
    left = [[max(0.0, w[i] * p[i][x] - q[i][x]) for x in range(V)] for i in range(N)]
    h = [0.0] * (N + 1)
    h[N] = w[N]
    for i in range(1, N):
        s = sum(left[i])
        h[i] = s / (s + 1 - w[i]) if s > 0 else 0.0
    out, none_later = {}, 1.0
    for kept in range(N, -1, -1):
        here = none_later * (h[kept] if kept else 1.0)
        none_later *= 1 - h[kept]
        law = p[N] if kept == N else [x / (sum(left[kept]) or 1.0) for x in left[kept]]
        for token, mass in enumerate(law):
            if here * mass > 0:
                out[kept, token] = here * mass
    return out


def _continue(joint, text, mass, tables, length) -> None:
    """Add `mass` to every text of `length` that begins with `text`, by the target's own law behind it."""
    if len(text) >= length:
        joint[text[:length]] += mass
        return
    for token, p in enumerate(tables[text][0]):
        _continue(joint, (*text, token), mass * p, tables, length)


def _mass(text, tables) -> float:
    return math.prod(tables[text[:i]][0][token] for i, token in enumerate(text))


# --- what the rules stand on


def warped(logits: list[float], sampling: Sampling) -> list[float]:
    """Temperature, top-k, top-p, ties to the lowest ids: sorted and added up in plain Python."""
    ranked = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    top = logits[ranked[0]]
    if sampling.temperature == 0:
        weight = [float(i == ranked[0]) for i in range(len(logits))]
    else:
        weight = [math.exp((x - top) / sampling.temperature) for x in logits]
    if 0 < sampling.top_k < len(logits):
        ranked = ranked[: sampling.top_k]
    total = math.fsum(weight[i] for i in ranked)
    law, before = [0.0] * len(logits), 0.0
    for i in ranked:
        if before >= sampling.top_p and i != ranked[0]:
            break
        law[i] = weight[i] / total
        before += law[i]
    total = math.fsum(law)
    return [p / total for p in law]


def warping(count: int) -> Reading:
    """Sampling.probs against `warped`: the furthest entry, over random, tied and extreme logits."""
    rng, worst = generator_for(1, "warping"), 0.0
    samplings = [
        Sampling(t, k, p)
        for t in (0.0, 1e-9, 0.5, 1.0, 1.5) for k in (0, 1, 3) for p in (1.0, 0.83, 0.37, 1e-6)
    ]  # fmt: skip
    for number in range(count):
        V = int(rng.integers(2, 12))
        logits = rng.normal(size=(2, V)) * rng.choice([0.5, 3.0, 30.0])
        if number % 3 == 0:
            logits = logits.round()  # ties
        for sampling in samplings[number % 4 :: 4]:
            laws = sampling.probs(torch.from_numpy(logits))
            for row, law in zip(logits.tolist(), laws.tolist()):
                worst = max(worst, max(abs(a - b) for a, b in zip(law, warped(row, sampling))))
    return Reading(worst, ROUNDING)


def inverse(count: int) -> Reading:
    """inverse_cdf against a walk along the running sum: tokens that differ, at random and at the sum's own steps."""
    rng, wrong = generator_for(1, "inverse"), 0
    for _ in range(count):
        law = rng.integers(0, 5, size=6) / 16.0  # sums of sixteenths are exact
        if not law.sum():
            continue
        edges = [s / law.sum() for s in np.cumsum(law) if s < law.sum()]
        for uniform in [0.0, *edges, *rng.random(3), 1 - 2**-53]:
            found = chances.inverse_cdf(torch.from_numpy(law), uniform)
            wrong += found != _walked(law, uniform * law.sum()) or law[found] == 0
    return Reading(wrong, 0, "one token")


def _walked(law: np.ndarray, mark: float) -> int:
    below = 0.0
    for token, p in enumerate(law):
        below += p
        if p > 0 and mark < below:
            return token
    return int(np.nonzero(law)[0][-1])


def noise_by_key() -> Reading:
    """Keyed draws that depend on anything but seed, stream and position, or that do not depend on one of these."""
    law = torch.full((1000,), 1e-3, dtype=torch.float64)

    def drawn(seed: int, stream: str, positions) -> list[int]:
        chance = KeyedChance(seed, stream)
        return [chance.draw(law, position) for position in positions]

    first = drawn(1, "a", range(8))
    wrong = drawn(1, "a", reversed(range(8))) != first[::-1]
    for other in (drawn(2, "a", range(8)), drawn(1, "b", range(8)), drawn(1, "a", range(8, 16))):
        wrong += sum(a == b for a, b in zip(first, other)) > 2  # .008 are expected
    wrong += len(set(first)) < 6
    return Reading(wrong, 0)


def streams() -> Reading:
    """Seeded streams that are not themselves again, or are another's."""

    def uniforms(seed: int, stream: str) -> list[int]:
        chance, law = SeededChance(seed, stream), torch.full((1000,), 1e-3, dtype=torch.float64)
        return [chance.draw(law, 0) for _ in range(8)]

    first = uniforms(1, "a")
    wrong = uniforms(1, "a") != first
    for other in (uniforms(2, "a"), uniforms(1, "b"), uniforms(11, ""), first[1:] + first[:1]):
        wrong += sum(a == b for a, b in zip(first, other)) > 2
    return Reading(wrong, 0)  # fmt: skip


def enumeration() -> Reading:
    """every_branch of a small program: its branches' chances add up to one, and to the law of what is drawn."""
    law = torch.tensor([0.0, 0.2, 0.5, 0.3], dtype=torch.float64)

    def run(chance) -> tuple[bool, int]:
        heads = chance.accept(0.3)
        return heads, chance.draw(law if heads else law.flip(0), 0)

    found: dict[tuple[bool, int], float] = {}
    for probability, outcome in every_branch(run):
        found[outcome] = found.get(outcome, 0.0) + probability
    want = {(True, i): 0.3 * float(law[i]) for i in (1, 2, 3)}
    want |= {(False, i): 0.7 * float(law.flip(0)[i]) for i in (0, 1, 2)}
    return Reading(
        max(abs(found.get(k, 0.0) - want.get(k, 0.0)) for k in found.keys() | want), ROUNDING
    )


def closed_forms(count: int) -> Reading:
    """Acceptance in closed form against sums spelled out, and against replay's chances given the output."""
    worst = 0.0
    for p, q in pairs(5, count):
        p, q = p.numpy(), q.numpy()
        ok = p > 0
        spelled = {
            "token": sum(map(min, p, q)),
            "match": sum(a * b for a, b in zip(p, q)),
            "coupled": sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in range(5))
                           for i in range(5) if p[i] > 0 and q[i] > 0),
        }  # fmt: skip
        spelled["block"] = spelled["token"]
        given = {
            "token": acceptance_given_output(p[ok], q[ok]),
            "match": match_given_output(p[ok], q[ok]),
            "coupled": coupled_given_output(
                *(np.broadcast_to(law, (ok.sum(), 5)) for law in (p, q)), np.nonzero(ok)[0]
            ),
        }
        for rule, form in CLOSED_FORMS.items():
            worst = max(worst, abs(float(form(p, q)) - spelled[rule]))
        for rule, chance in given.items():
            worst = max(worst, abs(float((p[ok] * chance).sum()) - spelled[rule]))
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
    yield Check("warping spelled out", partial(warping, 200), family="warping", level="probe")
    yield Check("ties of warping", partial(warping, 30), family="greedy", level="probe")
    yield Check("inverse of a running sum", partial(inverse, 300))
    yield Check("keyed noise by its key", noise_by_key, family="coupled", level="probe")
    yield Check("streams by their names", streams)
    yield Check("enumeration adds up", enumeration)
    yield Check("closed forms spelled out", partial(closed_forms, 200))  # fmt: skip
