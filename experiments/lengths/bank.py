"""Rounds that might have been: from every position of a text a whole chain of drafted tokens, so that any rule for its length can be asked.

The text is drawn from the target alone, as replay draws it (specdec/replay.py): given that a position's output is x, the chance that x is an
accepted draft token is min(1, q(x)/p(x)), and where it is not, the refused token comes from norm(max(q - p, 0)), whatever x is. So
from every start a chain is told as far as the text accepts it, then its refused token, then what the draft would have gone on with.
A rule that ends drafting early sees that whole chain; how much is kept, and where the next round starts, it cannot change.
All rules are compared on the same texts, chains and coins.

Shapes: N texts  W starts  G longest chain  V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from micro.chance import generator_for, inverse_cdf
from micro.sampling import Sampling
from specdec.drafts.confidence import Stop
from specdec.drafts.lengths import Policy, Tried

if TYPE_CHECKING:
    from experiments.setting import Setting, Texts

BATCH = 32  # chains that are drafted on at once


@dataclass(frozen=True)
class Bank:
    """kept (N, W): tokens of the chain from each start that are kept, 0 ... G. lengths: stop -> (N, W), tokens that it lets be drafted.
    walks: a text is walked from each of so many first positions, since one walk meets a tenth of its chains."""

    kept: np.ndarray
    lengths: Mapping[str, np.ndarray]
    most: int
    walks: int = 1


@torch.inference_mode()
def fill(setting: Setting, model, texts: Texts, q: Tensor, temperature: float,
         stops: Mapping[str, Stop], most: int, walks: int = 1) -> Bank:  # fmt: skip
    """A chain of `most` tokens from every start in the window of every text. q (N, L, V): the draft's laws along the texts."""
    sampling, shape = Sampling(temperature), (len(texts.tokens), setting.window)
    kept = np.zeros(shape, dtype=int)
    lengths = {name: np.zeros(shape, dtype=int) for name in stops}
    for n in range(len(texts.tokens)):
        setting.progress(f"chains along text {n + 1} of {len(texts.tokens)}")
        prompt = setting.prompts[int(texts.owner[n])].tokens
        rng = generator_for(1, "bank", setting.prompts[int(texts.owner[n])].id)
        chains = [_Chain(texts.tokens[n], texts.laws[n], q[n], start, most, rng) for start in range(setting.window)]  # fmt: skip
        _go_on(model, [*prompt, *texts.tokens[n].tolist()], len(prompt), chains, sampling, rng)
        for start, chain in enumerate(chains):
            kept[n, start] = chain.kept
            for name, stop in stops.items():
                lengths[name][n, start] = chain.length(stop)
    return Bank(kept, lengths, most, walks)


class _Chain:
    """Drafted tokens from `start` with their laws: those of the text that are kept, then the refused one."""

    def __init__(self, text: Tensor, p: Tensor, q: Tensor, start: int, most: int, rng) -> None:
        self.start, self.most, self.kept = start, most, 0
        self.tokens: list[int] = []
        self.laws: list[Tensor] = []
        for at in range(start, start + most):
            x = int(text[at])
            self.laws.append(q[at])
            if rng.random() * float(p[at, x]) >= float(q[at, x]):
                over = (q[at] - p[at]).clamp(min=0.0)
                self.tokens.append(inverse_cdf(over, rng.random()))
                return
            self.tokens.append(x)
            self.kept += 1

    @property
    def missing(self) -> int:
        return self.most - len(self.tokens)

    def length(self, stop: Stop) -> int:
        """Tokens up to and with the one that the stop is met on."""
        met = stop.begin()
        for place, (law, token) in enumerate(zip(self.laws, self.tokens), 1):
            if met(law, token):
                return place
        return self.most


def _go_on(model, text: Sequence[int], prompt: int, chains: list[_Chain], sampling: Sampling, rng) -> None:  # fmt: skip
    """Let the draft go on behind every refused token until its chain is whole."""
    whole = model.new_cache(1)
    model(torch.tensor([text[:-1]]), whole)
    open_ = sorted((c for c in chains if c.missing), key=lambda c: -(c.start + c.kept))
    for first in range(0, len(open_), BATCH):
        batch = open_[first : first + BATCH]
        cache = model.new_cache(len(batch))
        for row, chain in enumerate(batch):  # later ones stand further left, so cutting is enough
            whole.truncate(prompt + chain.start + chain.kept)
            cache.load_row(row, whole)
        for _ in range(max(chain.missing for chain in batch)):
            last = torch.tensor([[chain.tokens[-1]] for chain in batch])
            laws = sampling.probs(model(last, cache)[0][:, 0])
            for chain, law in zip(batch, laws):
                if chain.missing:
                    chain.laws.append(law)
                    chain.tokens.append(inverse_cdf(law, rng.random()))


# --- asking it


@dataclass(frozen=True)
class Counts:
    """Of rounds that start inside the window, by text: how many, tokens drafted, tokens kept."""

    rounds: np.ndarray
    drafted: np.ndarray
    kept: np.ndarray

    def speed_up(self, c: float, texts: np.ndarray) -> float:
        """Emitted tokens over passes of the target's cost, totals over totals."""
        rounds, drafted, kept = (x[texts].sum() for x in (self.rounds, self.drafted, self.kept))
        return float((rounds + kept) / (rounds + c * drafted))


def ask(bank: Bank, length) -> Counts:
    """Walk every text, from each of its first `walks` positions. length(n, start, rounds so far) -> tokens to draft, 0 and above."""
    N, W = bank.kept.shape
    sums = np.zeros((3, N))
    for n, first in product(range(N), range(bank.walks)):
        start, rounds = first, []
        while start < W:
            drafted = min(bank.most, int(length(n, start, rounds)))
            kept = min(drafted, int(bank.kept[n, start]))
            rounds.append(Tried(drafted, kept))
            sums[:, n] += (1, drafted, kept)
            start += kept + 1
    return Counts(*sums)


def fixed(bank: Bank, gamma: int) -> Counts:
    return ask(bank, lambda n, start, rounds: gamma)


def oracle(bank: Bank) -> Counts:
    """Knows how many will be kept, and drafts those."""
    return ask(bank, lambda n, start, rounds: bank.kept[n, start])


def stopped(bank: Bank, name: str) -> Counts:
    return ask(bank, lambda n, start, rounds: bank.lengths[name][n, start])


def policy(bank: Bank, rule: Policy) -> Counts:
    return ask(bank, lambda n, start, rounds: rule.length(rounds))
