"""The runs that the page's viewer steps through: the real loop on a prompt of each kind, recorded token by token.

Chosen to differ: both drafts of the plate, small and large gamma, T 0 and 1, one under the coupled rule, and one whose draft
is so poor that speculation loses. One text each, so they show how it works and estimate nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # these import torch, which a page need not wait for
    from experiments.prompts import Prompt
    from experiments.setting import Setting

NAME = "rounds"
VERSION = 1
TOKENS, SEED, LANES = 64, 1, 16


def _point(kind: str, draft: str, temperature: float, gamma: int, rule: str = "token") -> dict:
    return {"kind": kind, "draft": draft, "temperature": temperature, "gamma": gamma, "rule": rule}


POINTS = [
    _point("free", "rtn3", 1.0, 4),
    _point("lesson", "rtn4", 1.0, 4),
    _point("lesson", "rtn3", 0.0, 4),
    _point("copy", "rtn4", 0.0, 10),
    _point("copy", "rtn3", 1.0, 2),
    _point("free", "rtn4", 1.0, 10),
    _point("lesson", "rtn3", 1.0, 4, "coupled"),
    _point("free", "absmax2", 1.0, 8),  # loses
]


def prompt_of(kind: str, setting: Setting) -> Prompt:
    """The first prompt of a kind; of any kind where there is none."""
    mine = [prompt for prompt in setting.prompts if prompt.kind == kind]
    return (mine or setting.prompts)[0]


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    own = {"tokens": TOKENS, "seed": SEED, "lanes": LANES}
    return {**setting.identity(version=VERSION, **point), **own}


def run(point: dict, setting: Setting) -> dict:
    """The rounds as experiments.watch.recording gives them, the three c's as the estimate has them, and the check of the text."""
    from experiments.watch.recording import record
    from micro.sampling import Sampling
    from specdec.drafts.model import ModelDraft

    prompt, rule = prompt_of(point["kind"], setting), point["rule"]
    sampling = Sampling(point["temperature"])
    setting.progress(f"{point['draft']} on {prompt.id}, T = {sampling.temperature:g}")
    copy = setting.draft(point["draft"])
    made = record(
        setting.model,
        ModelDraft(copy.module, copy.bytes_per_pass),
        prompt.tokens,
        max_new_tokens=TOKENS,
        gamma=point["gamma"],
        sampling=sampling,
        seed=SEED,
        stream=prompt.id,
        lanes=LANES,
        rule=rule,
    )
    comparable = rule == "coupled" or not sampling.temperature
    plain = _plain(prompt, setting, sampling, rule) if comparable else None
    return {
        "id": prompt.id,
        "prompt": prompt.tokens,
        "tokens": made.tokens,
        "ended": made.ended,
        "rounds": made.shown,
        "same_text": None if plain is None else plain == made.tokens,
        "c": asdict(setting.cost(point["draft"])),
        "mean_context": setting.mean_context,
    }


def _plain(prompt: Prompt, setting: Setting, sampling, rule: str) -> list[int]:
    """The target's own text, by plain decoding in the same lanes."""
    from micro.generate import generate
    from specdec.accept import chance_for

    chance = chance_for(rule, SEED, prompt.id)
    return generate(setting.model, prompt.tokens, TOKENS, sampling, chance, LANES)
