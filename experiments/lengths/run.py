"""Adaptive draft lengths, each at its best on other prompts: one draft at one temperature.

Prompts are parted by plate as the ladder parts them. On the choosing half: the best fixed gamma, the numbers of every policy (a grid each, the
largest estimated speed-up by weight bytes), and the fit behind the predicted overlap. On the reporting half: counts of each by prompt, all on
the same bank of rounds (experiments/lengths/bank.py), and of an oracle that drafts what will be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.halves import halves

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import Tensor

    from experiments.lengths.bank import Bank, Counts
    from experiments.setting import Setting, Texts

NAME = "lengths"
VERSION = 1
DRAFTS = ("rtn3", "rtn4", "rtn2")
TEMPERATURES = (0.5, 1.0)
# temperature outermost: texts are drawn once for each
POINTS = [{"draft": draft, "temperature": t} for t in TEMPERATURES for draft in DRAFTS]
MOST_GAMMA = 16
WALKS = 12  # of a text
PROBABILITIES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
ENTROPIES = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
LEAST = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FIRSTS, MEMORIES = (2, 4, 6, 20), (5, 10, 20, 40, 80)


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    grids = (PROBABILITIES, ENTROPIES, LEAST, FIRSTS, MEMORIES, (WALKS,))
    return setting.identity(
        version=VERSION,
        window=setting.window,
        gammas=MOST_GAMMA,
        seeds=list(setting.seeds),
        grids=[list(grid) for grid in grids],
        **point,
    )


def run(point: dict, setting: Setting) -> dict:
    """Chosen numbers, and counts by reporting prompt of fixed, oracle and every policy."""
    from experiments.lengths.bank import fill, fixed, oracle

    temperature, draft = point["temperature"], setting.draft(point["draft"])
    texts = setting.texts(temperature)
    setting.progress(f"scoring with {point['draft']} at T = {temperature:g}")
    q = setting.score(draft.module, texts, temperature)
    choosing, reporting = (
        np.isin(texts.owner.numpy(), part).nonzero()[0] for part in halves(setting.prompts)
    )
    level, by_entropy, by_log, usual = fit(texts, q, choosing)
    stops = stops_of(level, by_entropy, by_log)
    bank = fill(setting, draft.module, texts, q, temperature, stops, MOST_GAMMA, WALKS)
    c = setting.cost(point["draft"]).weights
    gammas = {gamma: fixed(bank, gamma) for gamma in range(1, MOST_GAMMA + 1)}
    gamma = max(gammas, key=lambda g: gammas[g].speed_up(c, choosing))
    chosen = {name: _best(found, c, choosing) for name, found in policies(bank, list(stops), c).items()}  # fmt: skip
    going = chosen["predicted overlap"][1].speed_up(c, choosing)
    every = {"fixed": (str(gamma), gammas[gamma]), "oracle": ("", oracle(bank)), **chosen}
    return {
        "c": c,
        "fit": {"level": level, "by_entropy": by_entropy, "by_log": by_log, "usual": usual},
        "formula_least": c * going / usual,  # c S / a' of specdec/drafts/confidence.py, beside the grid's choice
        "prompts": [setting.prompts[int(texts.owner[n])].id for n in reporting],
        "policies": {
            name: {"chosen": text, "choosing": counts.speed_up(c, choosing)} | _by_prompt(counts, reporting)
            for name, (text, counts) in every.items()
        },
    }  # fmt: skip


def fit(texts: Texts, q: Tensor, choosing: np.ndarray) -> tuple[float, float, float, float]:
    """(level, by entropy, by log q(x)) of a logistic curve for the acceptance of a token x drawn from q, and its mean.

    One x is drawn at every position of the choosing texts; what is fitted is its chance min(1, p(x)/q(x)), by Newton's steps on
    the cross-entropy.
    """
    import torch

    from micro.chance import generator_for, inverse_cdf

    p, q = (law[torch.from_numpy(choosing)].flatten(0, 1).double() for law in (texts.laws, q))
    rng = generator_for(1, "overlap fit")
    x = torch.tensor([inverse_cdf(law, rng.random()) for law in q])[:, None]
    p_x, q_x = (law.gather(1, x)[:, 0].numpy() for law in (p, q))
    wanted = np.minimum(1.0, p_x / q_x)
    features = np.stack([np.ones(len(q)), torch.special.entr(q).sum(1).numpy(), np.log(q_x)], 1)
    weights = np.zeros(3)
    for _ in range(30):  # quadratic: some ten reach the last digit
        guess = 1 / (1 + np.exp(-features @ weights))
        slope = (
            features.T @ (wanted - guess) - 1e-3 * weights
        )  # a little ridge: q may be one token everywhere
        curve = (features * (guess * (1 - guess))[:, None]).T @ features + 1e-3 * np.eye(3)
        weights = weights + np.linalg.solve(curve, slope)
    level, by_entropy, by_log = (float(f"{w:.4g}") for w in weights)
    return level, by_entropy, by_log, float(f"{wanted.mean():.6g}")


def stops_of(level: float, by_entropy: float, by_log: float) -> dict:
    """spec -> stop, of every grid."""
    from specdec.drafts.confidence import parse_stop

    specs = [f"prob:{x:g}" for x in PROBABILITIES] + [f"entropy:{x:g}" for x in ENTROPIES]
    specs += [f"overlap:{level:g},{by_entropy:g},{by_log:g},{x:g}" for x in LEAST]
    return {spec: parse_stop(spec) for spec in specs}


def policies(bank: Bank, stops: list[str], c: float) -> dict[str, dict[str, Counts]]:
    """policy -> its numbers as text -> counts."""
    from experiments.lengths.bank import policy, stopped
    from specdec.drafts.lengths import PlusTwoMinusOne, Recent

    ends = {"prob": "least probability", "entropy": "most entropy", "overlap": "predicted overlap"}
    found = {
        "+2 / -1 from 20": {"+2-1,20": policy(bank, PlusTwoMinusOne(20))},
        "+2 / -1": {f"+2-1,{n}": policy(bank, PlusTwoMinusOne(n)) for n in FIRSTS},
        "recent alpha": {f"recent,{n}": policy(bank, Recent(c, n)) for n in MEMORIES},
    }
    for kind, name in ends.items():
        found[name] = {s: stopped(bank, s) for s in stops if s.startswith(kind)}
    return found


def _best(found: dict[str, Counts], c: float, choosing: np.ndarray) -> tuple[str, Counts]:
    text = max(found, key=lambda text: found[text].speed_up(c, choosing))
    return text, found[text]


def _by_prompt(counts: Counts, texts: np.ndarray) -> dict[str, list[float]]:
    return {n: getattr(counts, n)[texts].tolist() for n in ("rounds", "drafted", "kept")}
