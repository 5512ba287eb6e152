"""Counts in `selfdraft exact`: a loop may keep the law and still lose tokens or miscount them.

Three ways to notice. Expected rounds and accepted tokens, text by text, against replay, which knows nothing of the loop. The
closed forms of acceptance at one position. And accounting: what every Round says against the text, the tables, the limits
and the passes that were really made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from experiments.exact.accounts import account_checks
from experiments.exact.check import (
    ROUNDING,
    Check,
    Reading,
    near_and_far,
    texts,
)
from experiments.exact.enumeration import COOL, PROMPT, target_of
from experiments.exact.laws import walks
from experiments.exact.statistics import coin
from micro.chance import KeyedChance
from micro.sampling import Sampling
from specdec.accept import RULES, chance_for
from specdec.closed_forms import CLOSED_FORMS
from specdec.drafts.model import ModelDraft
from specdec.replay import replay
from specdec.replay_rules import replay_rule
from specdec.table import TableModel, scripted_model, table_law
from specdec.theory import best_gamma, break_even_alpha, speed_up, tokens_per_pass

GAMMA = 2
WINDOW = {
    "match": 3
}  # else 4: a round behind a fully accepted one must start inside; match walks twice the draws
# expectations are divided by their text's own probability, here never below 1e-3
GIVEN_TEXT = ROUNDING / 1e-3


def against_replay(target: TableModel, model: TableModel, rule: str) -> Reading:
    """Expected rounds and accepted tokens of the enumerated loop, given the text: the worst text's distance from replay's."""
    sums: dict[tuple[int, ...], np.ndarray] = {}
    window = WINDOW.get(rule, 4)
    for chance, done in walks(target, ModelDraft(model, 1), PROMPT, gamma=GAMMA, rule=rule,
                              max_new_tokens=window + GAMMA, sampling=COOL):  # fmt: skip
        starts = np.cumsum([0, *(len(r.emitted) for r in done.rounds)])
        inside = [r for r, start in zip(done.rounds, starts) if start < window]
        row = np.array([1, len(inside), sum(r.accepted for r in inside)]) * chance
        sums[done.tokens] = sums.get(done.tokens, 0) + row
    worst = 0.0
    for text, (mass, count, accepted) in sums.items():
        p, q = (
            np.stack([table_law(m, (*PROMPT, *text[:i]), COOL).numpy() for i in range(len(text))])
            for m in (target, model)
        )
        (want,) = replay_rule(rule, p[None], q[None], np.array([text]), [GAMMA], window)
        off = abs(count / mass - want.rounds[0]), abs(accepted / mass - want.accepted[0])
        worst = max(worst, *off)
    return Reading(worst, GIVEN_TEXT)


def closed_form(rule: str, model: TableModel, target: TableModel) -> Reading:
    """Expected accepted tokens of one drafted token, enumerated, against the rule's closed form."""
    runs = walks(target, ModelDraft(model, 1), PROMPT, max_new_tokens=2, gamma=1,
                 sampling=COOL, rule=rule)  # fmt: skip
    found = sum(chance * done.rounds[0].accepted for chance, done in runs)
    return Reading(abs(found - _closed(rule, target, model)), ROUNDING)


def _closed(rule: str, target: TableModel, model: TableModel) -> float:
    p, q = (table_law(m, PROMPT, COOL).numpy() for m in (target, model))
    return float(CLOSED_FORMS[rule](p, q))


def coupled_rate(target: TableModel, model: TableModel, seeds: int) -> Reading:
    """How often one drafted token is accepted under shared noise, against the closed form."""
    draft = ModelDraft(model, 1)
    accepted = sum(
        texts(target, draft, PROMPT, 1, 1, COOL, KeyedChance(seed), rule="coupled").rounds[0].accepted
        for seed in range(seeds)
    )  # fmt: skip
    return coin(accepted, seeds, _closed("coupled", target, model))


def equal_draft(target: TableModel, sampling: Sampling, rule: str) -> Reading:
    """Tokens refused of a draft that is the target: none, through a whole text; a hole in the draft's cache would show."""
    refused = 0
    for seed in range(10):
        done = texts(target, ModelDraft(target, 1), PROMPT, 40, 3, sampling,
                     chance_for(rule, seed), rule=rule)  # fmt: skip
        refused += int(done.totals.checked - done.totals.accepted)
        refused += abs(len(done.rounds) - 10)  # 40 tokens in rounds of 4
    return Reading(refused, 0)


def block_gain() -> Reading:
    """How much fewer tokens block verification keeps than the token rule: never any, and more on some laws."""
    worst, best = 0.0, 0.0
    for seed in range(4):
        target = target_of(2, 60 + seed)
        for model in near_and_far(target).values():
            kept = {}
            for rule in ("token", "block"):
                runs = walks(target, ModelDraft(model, 1), PROMPT, max_new_tokens=4,
                             gamma=3, sampling=COOL, rule=rule)  # fmt: skip
                kept[rule] = sum(chance * done.rounds[0].accepted for chance, done in runs)
            worst = max(worst, kept["token"] - kept["block"])
            best = max(best, kept["block"] - kept["token"])
    return Reading(worst if best > 1e-4 else np.inf, ROUNDING)


def formulas() -> Reading:
    """theory.py against replay at a constant alpha, and its optima against a search; Leviathan's tables hold it elsewhere."""
    worst = 0.0
    for alpha in (0.2, 0.65, 0.9):
        for gamma in (1, 3, 6):
            done = replay(np.full((1, 400 + gamma), alpha), gamma, 400)
            f, share = tokens_per_pass(alpha, gamma), done.totals().tokens_per_pass
            worst = max(worst, abs(f - share), abs(speed_up(alpha, gamma, 0.2) - f / (1 + 0.2 * gamma)))  # fmt: skip
            level = break_even_alpha(gamma, 0.2)
            worst = max(worst, abs(speed_up(level, gamma, 0.2) - 1))
        found = best_gamma(alpha, 0.2, 20)
        wanted = max((speed_up(alpha, g, 0.2), -g) for g in range(21))
        worst = max(worst, abs(found[1] - wanted[0]), abs(found[0] + wanted[1]))
    return Reading(worst, 1e-9)  # break-even is found by halving


def scripted_counts() -> Reading:
    """Counts worked out by hand: the greedy runs of 13 easy and 14 creative tokens at gamma 4 and 8."""
    wrong = 0
    for length, misses, gamma, wanted in (
        (13, (2, 5), 4, (4, 10, 12, 3)), (13, (2, 5), 8, (3, 11, 13, 11)),
        (14, (1, 2, 4, 6, 9, 11, 12, 13), 4, (9, 6, 14, 16)),
        (14, (1, 2, 4, 6, 9, 11, 12, 13), 8, (9, 6, 14, 37)),
    ):  # fmt: skip
        truth = [1, *(2 - (i % 2) for i in range(length))]
        wrongly = [t if i not in misses else 0 for i, t in enumerate(truth)]
        target = scripted_model(truth)
        done = texts(
            target, ModelDraft(scripted_model(wrongly), 1), [1], length, gamma, Sampling(0.0)
        )
        totals = done.totals
        found = (totals.rounds, totals.accepted, totals.checked, totals.thrown_away)
        wrong += found != wanted
    return Reading(wrong, 0)


def checks() -> Iterator[Check]:
    two, three = target_of(2, 3), target_of(3, 5)
    for name, model in near_and_far(two).items():
        for rule in ("token", "block", "match"):
            yield Check(f"{rule}, rounds and accepted tokens against replay",
                        partial(against_replay, two, model, rule), name, rule,
                        "whole" if rule == "match" else "probe")  # fmt: skip
            yield Check(f"{rule}, closed form of acceptance",
                        partial(closed_form, rule, near_and_far(three)[name], three),
                        name, rule, "probe")  # fmt: skip
        yield Check("coupled, closed form of acceptance, 1,500 draws",
                    partial(coupled_rate, three, near_and_far(three)[name], 1_500),
                    name, "coupled", "probe")  # fmt: skip
    yield from account_checks(three)
    for rule in RULES:
        if rule != "match":  # two independent draws differ even from equal laws
            for sampling in (Sampling(), Sampling(0.0), Sampling(0.7, 2, 0.8)):
                yield Check(f"{rule}, an equal draft is never refused, {sampling}",
                            partial(equal_draft, three, sampling, rule), "any", rule,
                            "probe" if sampling == Sampling() else "quick")  # fmt: skip
    yield Check("block keeps no less than token", block_gain, family="block")
    yield Check("formulas against replay", formulas)
    yield Check("greedy runs counted by hand", scripted_counts, family="limit", level="probe")
