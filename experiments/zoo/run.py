"""One animal of the zoo: a draft at a temperature, measured on held-out prompts.

Prompts are parted by plate as the ladder's (ladder/run.py): on the choosing half the budget is chosen, by weight bytes; on the reporting half
its counts are kept prompt by prompt. A chain whose law depends on the text alone is replayed, every gamma at once; all others run
in the real loop, at each of their budgets on the choosing half and at the chosen one on the reporting half. Both count whole
rounds that start in the window. Texts: one a prompt and temperature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.halves import halves
from experiments.loop.beside import decode, inside
from experiments.zoo.points import ZOO

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.prompts import Prompt
    from experiments.setting import Setting
    from specdec.drafts.base import Draft
    from specdec.record import Totals

    Measure = Callable[[np.ndarray, int], list[Totals]]  # (indices of prompts, a budget)

NAME = "zoo"
VERSION = 2
TEMPERATURES = (0.0, 0.5, 1.0)
MOST_GAMMA = 20
POINTS = [{"draft": spec, "temperature": t} for t in TEMPERATURES for spec in ZOO]
COUNTS = (
    "rounds", "proposed", "checked", "accepted", "emitted", "draft_passes", "full_rounds", "draft_bytes", "rows",
)  # fmt: skip
SEED = 1


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    return setting.identity(
        version=VERSION,
        window=setting.window,
        gammas=setting.most_gamma,
        budgets=list(ZOO[point["draft"]].budgets),
        seed=SEED,
        trained=trained_hash(ZOO[point["draft"]].trained),
        **point,
    )


def trained_hash(name: str) -> str | None:
    """Of the weights that ship in specdec/drafts/`name`; None for a draft without any."""
    if not name:
        return None
    return hashlib.sha256((drafts_folder() / name / "model.safetensors").read_bytes()).hexdigest()[
        :16
    ]


def drafts_folder() -> Path:
    import specdec.drafts

    return Path(specdec.drafts.__file__).parent


def run(point: dict, setting: Setting) -> dict:
    """Counts of the reporting prompts at the chosen budget, totals of the choosing ones at each, and what the draft takes."""
    from quant.bytes import pass_bytes
    from specdec.drafts import make_draft

    entry, temperature = ZOO[point["draft"]], point["temperature"]
    draft = make_draft(setting.model, entry.spec)
    setting.progress(f"{entry.spec} at T = {temperature:g}")
    model, target_bytes = scored_by(draft), pass_bytes(setting.model)
    if model is None:
        measure, budgets = looped(draft, temperature, setting), entry.budgets
    else:
        measure, budgets = (
            replayed(draft, model, temperature, setting),
            range(1, setting.most_gamma + 1),
        )
    halved = halves(setting.prompts)
    choosing, reporting = ([setting.prompts[i] for i in half] for half in halved)
    tried = {budget: measure(halved[0], budget) for budget in budgets}
    totals = {budget: summed(made) for budget, made in tried.items()}
    budget = best(totals, target_bytes)
    made = measure(halved[1], budget)
    return {
        "by": "loop" if model is None else "replay",
        "exact": entry.exact,
        "tree": entry.tree,
        "budget": budget,
        "choosing": {str(b): spent(t) for b, t in totals.items()},
        "choosing_kinds": by_kind(tried[budget], choosing),
        "prompts": [prompt.id for prompt in reporting],
        "kinds": [prompt.kind for prompt in reporting],
        "counts": {n: [_short(getattr(t, n)) for t in made] for n in COUNTS},
        "bytes_per_pass": draft.bytes_per_pass,
        "extra_bytes": draft.extra_bytes,
        "extra_parameters": draft.extra_parameters,
        "target_bytes": target_bytes,
        "training": training(entry.trained) if entry.trained else None,
    }


def training(name: str) -> dict:
    """Minutes, threads, and where it is on record the curve [step, validation loss], of what ships in specdec/drafts/`name`."""
    from micro.files import read_json

    found = read_json(drafts_folder() / name / "training.json")
    return {key: found[key] for key in ("minutes", "threads", "steps", "curve") if key in found}


def scored_by(draft: Draft):
    """The model whose law a plain chain is drawn from, to replay it by; None where only the loop tells."""
    from specdec.drafts.model import ModelDraft

    return draft.model if type(draft) is ModelDraft else None


def replayed(draft: Draft, model, temperature: float, setting: Setting) -> Measure:
    """Expected counts of each prompt of a half at a gamma, from one scoring of all texts."""
    from specdec.replay import acceptance_given_output, replay

    texts = setting.texts(temperature)
    q = setting.score(model, texts, temperature)
    p_x, q_x = (
        law.gather(-1, texts.tokens[..., None])[..., 0].double().numpy() for law in (texts.laws, q)
    )
    a, owner = acceptance_given_output(p_x, q_x), texts.owner.numpy()

    def measure(half: np.ndarray, gamma: int) -> list[Totals]:
        expected = replay(a[np.isin(owner, half)], gamma, setting.window)
        return [
            with_bytes(expected.totals(unit), draft.bytes_per_pass) for unit in np.eye(len(half))
        ]

    return measure


def with_bytes(totals: Totals, bytes_per_pass: int) -> Totals:
    """Replay's totals with the bytes and rows of a chain that drafts gamma tokens in every round."""
    rows = totals.rounds + totals.proposed
    return replace(totals, draft_bytes=totals.draft_passes * bytes_per_pass, rows=rows)


def looped(draft: Draft, temperature: float, setting: Setting) -> Measure:
    """Counts of the real loop, prompt by prompt."""

    def measure(half: np.ndarray, budget: int) -> list[Totals]:
        made = (decode(setting, draft, setting.prompts[i], budget, SEED, temperature) for i in half)
        return [inside(one, setting.window) for one in made]

    return measure


def best(tried: dict[int, Totals], target_bytes: int) -> int:
    """The budget of the largest speed-up by bytes; a tie goes to the smaller."""
    return max(sorted(tried), key=lambda budget: tried[budget].speed_up_by_bytes(target_bytes))


def spent(totals: Totals) -> dict[str, float]:
    """What a speed-up by bytes is made of."""
    return {name: _short(getattr(totals, name)) for name in ("rounds", "emitted", "draft_bytes")}


def by_kind(made: list[Totals], prompts: list[Prompt]) -> dict[str, dict[str, float]]:
    kinds = dict.fromkeys(prompt.kind for prompt in prompts)
    return {
        kind: spent(summed(t for t, prompt in zip(made, prompts) if prompt.kind == kind))
        for kind in kinds
    }


def summed(made: Iterable[Totals]) -> Totals:
    from specdec.record import Totals

    return sum(made, Totals())


def _short(value: float) -> float:
    return float(f"{value:.7g}")
