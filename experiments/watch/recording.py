"""A run of the real loop with everything a viewer shows: each token's p and q, the coin, and what stood beside it.

The loop is specdec.decode.rounds itself. A draft that remembers its last proposal and a Chance that remembers its coins are
put in place of the plain ones; they change no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from experiments.watch.cells import Cell, cells
from micro.chance import Chance, SeededChance
from micro.sampling import Sampling
from specdec.accept import acceptance, chance_for, residual
from specdec.decode import rounds
from specdec.drafts.base import Draft
from specdec.proposal import Proposal, Step
from specdec.record import Round

TOP = 4  # likeliest tokens kept of each law


class CoinChance(SeededChance):
    """A SeededChance that keeps the number behind every accept."""

    def __init__(self, seed: int, stream: str = "") -> None:
        super().__init__(seed, stream)
        self.coins: list[float] = []

    def accept(self, probability: float) -> bool:
        self.coins.append(self.uniform())
        return self.coins[-1] < probability


class NotingDraft:
    """A draft, and its last proposal."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self.bytes_per_pass = draft, draft.bytes_per_pass
        self.extra_bytes, self.extra_parameters = draft.extra_bytes, draft.extra_parameters
        self.proposal: Proposal | None = None

    def start(self, prompt: Sequence[int], target) -> None:
        self._draft.start(prompt, target)

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        self.proposal = self._draft.propose(gamma, sampling, chance)
        return self.proposal

    def commit(self, step: Step) -> None:
        self._draft.commit(step)


@dataclass
class Recording:
    """tokens: the new ones; rounds: those of the loop; shown: one dict of plain values a round."""

    tokens: list[int]
    rounds: list[Round]
    ended: str
    shown: list[dict] = field(repr=False)


def record(
    target,
    draft: Draft,
    prompt: Sequence[int],
    *,
    sampling: Sampling,
    seed: int,
    stream: str,
    rule: str = "token",
    **options,
) -> Recording:
    """Decode as specdec.decode.generate does (options and errors as there; chains only), and keep what was seen.

    The chance is chance_for(rule, seed, stream). A coin is known for each judged token of the `token` rule; the others throw
    none a token, and have None.
    """
    chance = CoinChance(seed, stream) if rule == "token" else chance_for(rule, seed, stream)
    noting = NotingDraft(draft)
    done, shown, state = [], [], None
    coins = chance.coins if rule == "token" else None
    steps = rounds(target, noting, prompt, chance=chance, sampling=sampling, rule=rule, **options)
    for one, state in steps:
        p = sampling.probs(state.last_logits)
        done.append(one)
        shown.append(_round(one, noting.proposal, p, coins))
        if coins is not None:
            coins.clear()
    return Recording(state.tokens[state.start :], done, state.ended, shown)


def _round(done: Round, proposal: Proposal, p: Tensor, coins: list[float] | None) -> dict:
    """One round as strict JSON. `final`: the target's own token, None where a limit or a stop left none."""
    row = cells(done)
    drafted = [
        _drafted(cell, p[node], proposal.laws[node], coins[node] if coins and node < len(coins) else None)
        for node, cell in enumerate(row[: done.proposed])
    ]  # fmt: skip
    final = None
    if done.final:
        last = row[-1]
        final = {"token": last.token, "fate": last.fate, "p": _digits(last.p)}
        final["target"] = top(p[done.accepted])
    return {
        "drafted": drafted,
        "final": final,
        "emitted": list(done.emitted),
        "checked": done.checked,
        "draft_passes": done.draft_passes,
    }


def _drafted(cell: Cell, p: Tensor, q: Tensor | None, coin: float | None) -> dict:
    return {
        "token": cell.token,
        "fate": cell.fate,
        "p": _digits(cell.p),
        "q": _digits(cell.q),
        "accept": _digits(acceptance(p, q, cell.token)),
        "coin": None if coin is None else _digits(coin),
        "target": top(p),
        "residual": top(residual(p, q, cell.token)),
    }


def top(law: Tensor) -> list[list]:
    """[token, probability] of the TOP likeliest tokens of a law (V,), those of probability 0 left out."""
    values, tokens = law.topk(min(TOP, len(law)))
    return [[int(t), _digits(v)] for t, v in zip(tokens, values.tolist()) if v > 0]


def _digits(value: float) -> float:
    """Seven digits: all that float32 has."""
    return float(f"{value:.7g}")
