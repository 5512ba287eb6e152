"""What the rules stand on, in `selfdraft exact`, against spellings that share no code with it.

A fault that target and draft, plain and speculative decoding all share leaves them equal to each other. So warping is done again
by sorting in plain Python, the inverse of a running sum by walking it, enumeration by adding it up, and closed forms from
their definitions.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from experiments.exact.check import ROUNDING, Reading
from experiments.exact.pairs import pairs
from micro import chance as chances
from micro.chance import KeyedChance, SeededChance, every_branch, generator_for
from micro.sampling import Sampling
from specdec.closed_forms import CLOSED_FORMS
from specdec.replay import acceptance_given_output
from specdec.replay_rules import coupled_given_output, match_given_output


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
