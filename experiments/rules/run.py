"""Every acceptance rule on the same texts: a draft at a temperature, replayed under each, and the real loop beside some.

A point's result holds for each rule expected counts by prompt and gamma (as the estimate's), the mean of its closed form, and for
one gamma and a few prompts what the real loop counted with replay's expectation on the same texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.estimate import about, by_prompt, counts, replayed, scored
from experiments.loop.beside import beside, spread
from specdec.closed_forms import CLOSED_FORMS

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting

NAME = "rules"
VERSION = 1
RULES = ("token", "block", "match", "coupled")
DRAFTS = ("rtn4", "rtn3", "rtn2")
TEMPERATURES = (0.0, 0.5, 1.0, 1.5)
# temperature outermost: texts are drawn once for each
POINTS = [{"draft": draft, "temperature": t} for t in TEMPERATURES for draft in DRAFTS]
LOOP_TEXTS, LOOP_GAMMA, LOOP_SEED = 12, 4, 1
TEXTS = 32  # whose laws are in work at once, in float64


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        gammas=setting.most_gamma,
        loop=[LOOP_TEXTS, LOOP_GAMMA, LOOP_SEED],
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """What does not depend on the rule, and under "rules" what does."""
    texts, q = scored(point, setting)
    rows = spread(LOOP_TEXTS, len(setting.prompts))
    rules = {}
    for rule in RULES:
        setting.progress(f"{rule}: {point['draft']} at T = {point['temperature']:g}")
        rules[rule] = {
            **counts(replayed(rule, texts, q, setting), texts, setting),
            "closed_form": by_prompt(closed_form(rule, texts, q, setting.window), texts, setting),
            "beside": beside(setting, point, rule, LOOP_GAMMA, rows, LOOP_SEED),
        }
    return {**about(point, setting, texts, q), "loop_gamma": LOOP_GAMMA, "rules": rules}


def closed_form(rule: str, texts, q, window: int) -> np.ndarray:
    """(N, 1): the rule's chance of acceptance, added over the window of each text."""
    p, q = (law[:, :window].numpy() for law in (texts.laws, q))
    parts = (slice(start, start + TEXTS) for start in range(0, len(p), TEXTS))
    sums = [CLOSED_FORMS[rule](p[s].astype(float), q[s].astype(float)).sum(1) for s in parts]
    return np.concatenate(sums)[:, None]


def of_rule(record: dict, rule: str) -> dict:
    """The record as an estimate's under one rule: what experiments.plate.curves reads."""
    result = record["result"]
    own = result["rules"][rule]
    return {**record, "inputs": record["inputs"] | {"rule": rule}, "result": {**result, **own}}
