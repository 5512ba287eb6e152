"""The real loop beside replay, on the very same texts.

The loop decodes a text; replay then says what it expects of that text. Given the text, what the loop counted differs from the
expectation by coins alone, so a few texts tell much: the text's own noise, which is larger, falls out of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # these import torch, which tables and figures need not wait for
    from experiments.prompts import Prompt
    from experiments.setting import Setting
    from specdec.drafts.base import Draft
    from specdec.record import Generation, Round, Totals

COUNTS = ("rounds", "checked", "accepted", "full_rounds")


def beside(
    setting: Setting, point: dict, rule: str, gamma: int, rows: Sequence[int], seed: int
) -> dict[str, dict[str, list[float]]]:
    """{"loop": counts, "replay": expected counts}, one entry a text, of the prompts `rows` of the setting.

    Only rounds that start inside the window count, whole.
    """
    import torch

    from experiments.setting import Texts
    from specdec.drafts.model import ModelDraft
    from specdec.replay_rules import replay_rule

    temperature, copy = point["temperature"], setting.draft(point["draft"])
    draft, prompts = (
        ModelDraft(copy.module, copy.bytes_per_pass),
        [setting.prompts[i] for i in rows],
    )
    made = [decode(setting, draft, prompt, gamma, seed, temperature, rule) for prompt in prompts]
    tokens = torch.tensor([one.tokens for one in made])
    blank = torch.empty(*tokens.shape, setting.model.vocab)
    texts = Texts(tokens, blank, torch.tensor(list(rows)))
    p, q = (
        setting.score(model, texts, temperature).numpy() for model in (setting.model, copy.module)
    )
    (expected,) = replay_rule(rule, p, q, tokens.numpy(), [gamma], setting.window)
    totals = [inside(one, setting.window) for one in made]
    return {
        "loop": {name: [float(getattr(t, name)) for t in totals] for name in COUNTS},
        "replay": {name: [float(f"{x:.9g}") for x in getattr(expected, name)] for name in COUNTS},
    }


def decode(
    setting: Setting,
    draft: Draft,
    prompt: Prompt,
    gamma: int,
    seed: int,
    temperature: float,
    rule: str = "token",
) -> Generation:
    """A text of the real loop, so long that every round that starts in the window is whole. Without lanes: nothing is compared bit
    for bit here."""
    from micro.sampling import Sampling
    from specdec.accept import chance_for
    from specdec.decode import generate

    return generate(
        setting.model,
        draft,
        prompt.tokens,
        max_new_tokens=setting.window + gamma,
        gamma=gamma,
        sampling=Sampling(temperature),
        chance=chance_for(rule, seed, prompt.id),
        rule=rule,
    )


def rounds_inside(generation: Generation, window: int) -> list[Round]:
    """The rounds that start in the first `window` new tokens."""
    start, kept = 0, []
    for one in generation.rounds:
        if start < window:
            kept.append(one)
        start += len(one.emitted)
    return kept


def inside(generation: Generation, window: int) -> Totals:
    """Totals of the rounds that start in the first `window` new tokens."""
    from specdec.record import Totals

    return Totals.of(rounds_inside(generation, window))


@dataclass(frozen=True)
class Difference:
    """A rate in the loop and by replay on the same texts; error: the standard error of their difference, coins alone."""

    loop: float
    replay: float
    error: float

    @property
    def z(self) -> float | None:
        return (self.loop - self.replay) / self.error if self.error > 0 else None


def difference(both: dict, above: Iterable[str], below: Iterable[str]) -> Difference:
    """Of the rate sum(above) / sum(below), each a sum of counts: ("accepted", "rounds") / ("rounds",) are tokens per pass."""
    sums = []
    for side in ("loop", "replay"):
        a, b = (np.sum([both[side][n] for n in names], axis=0) for names in (above, below))
        sums.append((a, b))
    (a, b), (ea, eb) = sums
    rate = ea.sum() / eb.sum()
    d = (a - rate * b) - (ea - rate * eb)  # of mean 0 given the text
    error = (len(d) ** 0.5) * d.std(ddof=1) / b.sum()
    return Difference(float(a.sum() / b.sum()), float(rate), float(error))


def tokens_per_pass(both: dict) -> Difference:
    return difference(both, ("accepted", "rounds"), ("rounds",))


def alpha(both: dict) -> Difference:
    return difference(both, ("accepted",), ("checked",))


def spread(count: int, of: int) -> list[int]:
    """`count` places, or all there are, evenly over 0 ... of - 1."""
    count = min(count, of)
    return [round(i * (of - 1) / max(1, count - 1)) for i in range(count)]
