"""The other acceptance rules at a glance: the plate's drafts under each, by replay on every seventh prompt, one text each.

What the page's rule control shows where `selfdraft run rules`, which compares them on all prompts and beside the real loop, has
not been run. At temperature 0 a law is one token, and every rule is the token rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.estimate import about, counts, replayed, scored

if TYPE_CHECKING:  # these import torch, which a page need not wait for
    from experiments.setting import Setting

NAME = "rules-glance"
VERSION = 1
RULES = ("block", "match", "coupled")
EVERY = 7  # of the prompts: 28 of the course's, which one batch holds
# temperature outermost: texts are drawn once for each
POINTS = [{"draft": d, "temperature": t} for t in (0.0, 0.5, 1.0) for d in ("rtn4", "rtn3")]


def glance(setting: Setting) -> Setting:
    """Every seventh prompt, one seed."""
    return replace(setting, prompts=setting.prompts[::EVERY], seeds=setting.seeds[:1])


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        gammas=setting.most_gamma,
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """As experiments.rules.run: under "rules" what depends on the rule, beside it what does not."""
    texts, q = scored(point, setting)
    rules = {rule: counts(replayed(rule, texts, q, setting), texts, setting) for rule in RULES}
    return {**about(point, setting, texts, q), "rules": rules}
