"""A copy of the target with a key-value cache of its own, and over the target's: in the real loop, place by place of a round.

Prompts are the reporting half of the ladder's (ladder/run.py), so that the numbers stand beside its. Only rounds that start inside
the window count, whole. Kept by prompt: how often the token at each place of a round was judged, and accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.halves import halves
from experiments.loop.beside import decode, rounds_inside

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting

NAME = "shared"
VERSION = 1
FORMATS = ("rtn4", "rtn3", "rtn2")
CACHES = ("own", "shared")
TEMPERATURES = (0.0, 1.0)
GAMMA, SEED = 8, 1
POINTS = [
    {"draft": draft, "cache": cache, "temperature": t}
    for t in TEMPERATURES
    for draft in FORMATS
    for cache in CACHES
]


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION, window=setting.window, gamma=GAMMA, seed=SEED, rule="token", **point
    )


def run(point: dict, setting: Setting) -> dict:
    """Counts by prompt, and the bytes that a draft pass reads and that are held beside the target."""
    from quant.bytes import pass_bytes
    from specdec.drafts import make_draft

    prefix = {"own": "", "shared": "shared:"}[point["cache"]]
    draft = make_draft(setting.model, prefix + point["draft"])
    prompts = [setting.prompts[i] for i in halves(setting.prompts)[1]]
    setting.progress(f"{prefix}{point['draft']} at T = {point['temperature']:g}")
    made = (decode(setting, draft, prompt, GAMMA, SEED, point["temperature"]) for prompt in prompts)
    rounds = [rounds_inside(one, setting.window) for one in made]
    context = setting.mean_context
    kept = GAMMA + (context if point["cache"] == "own" else 0)  # entries of a cache, at most
    return {
        "prompts": [prompt.id for prompt in prompts],
        "kinds": [prompt.kind for prompt in prompts],
        "gamma": GAMMA,
        "rounds": [len(of_prompt) for of_prompt in rounds],
        "emitted": [sum(len(r.emitted) for r in of_prompt) for of_prompt in rounds],
        "draft_bytes": [sum(r.draft_bytes for r in of_prompt) for of_prompt in rounds],
        "judged": [at_places([r.checked for r in of_prompt]) for of_prompt in rounds],
        "accepted": [at_places([r.accepted for r in of_prompt]) for of_prompt in rounds],
        "mean_context": context,
        "bytes": {
            "target": pass_bytes(setting.model),
            "draft": draft.bytes_per_pass,
            "cache_read": setting.model.cache_bytes(context),
            "cache_kept": setting.model.cache_bytes(kept),
        },
    }


def at_places(counts: Sequence[int]) -> list[int]:
    """How many of the rounds counted past each place 1 ... gamma: [2, 1] -> [2, 1, 0, ...]."""
    return [sum(count > place for count in counts) for place in range(GAMMA)]
