"""The plate's run: "The attention", 40 tokens, seed 1, through the real loop, in fixed lanes.

One short text is noise; it is shown as what it is, beside the estimate. It keeps the cut at the end that replay leaves out: a
last round drafts only what still fits, and has no bonus where nothing fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.estimate import DRAFTS, TEMPERATURES

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting
    from specdec.record import Round

NAME = "plate-run"
VERSION = 1
PROMPT_ID, PROMPT = "plate", b"The attention"
TOKENS, SEED, LANES = 40, 1, 16
POINTS = [
    {"draft": draft, "temperature": t, "gamma": gamma}
    for t in TEMPERATURES
    for draft in DRAFTS
    for gamma in range(1, 11)
]


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on; the prompts of the estimate do not come in."""
    own = {"prompts": PROMPT.decode(), "tokens": TOKENS, "seed": SEED, "lanes": LANES}
    return {**setting.identity(version=VERSION, rule=setting.rule, **point), **own}


def run(point: dict, setting: Setting) -> dict:
    """Counts of the rounds, the text, the rounds one by one, and at temperature 0 whether it is the plain text."""
    from micro.generate import generate as plain
    from micro.sampling import Sampling
    from specdec.accept import chance_for
    from specdec.decode import generate
    from specdec.drafts.model import ModelDraft

    name, sampling = point["draft"], Sampling(point["temperature"])
    setting.progress(
        f"the plate's run: {name}, T = {sampling.temperature:g}, gamma {point['gamma']}"
    )
    copy = setting.draft(name)
    made = generate(
        setting.model,
        ModelDraft(copy.module, copy.bytes_per_pass),
        PROMPT,
        max_new_tokens=TOKENS,
        gamma=point["gamma"],
        sampling=sampling,
        chance=chance_for(setting.rule, SEED, PROMPT_ID),
        lanes=LANES,
        rule=setting.rule,
    )
    identical = None
    if sampling.temperature == 0:
        chance = chance_for(setting.rule, SEED, PROMPT_ID)
        text = plain(setting.model, PROMPT, TOKENS, sampling, chance, lanes=LANES)
        identical = list(made.tokens) == text
    trace = [_round(one) for one in made.rounds]
    return {
        **made.totals.to_json(),
        "tokens": list(made.tokens),
        "trace": trace,
        "identical": identical,
    }


def _round(one: Round) -> dict:
    """What a page needs to show a round: the draft is a chain, so what was kept is its first `accepted` tokens."""
    return {
        "drafted": list(one.drafted),
        "checked": one.checked,
        "accepted": one.accepted,
        "emitted": list(one.emitted),
        "final": one.final,
    }
