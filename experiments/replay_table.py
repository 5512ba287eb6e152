"""What replay found of one draft, as plain values and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from experiments.stats import less_noise, standard_errors
from specdec.closed_forms import CLOSED_FORMS
from specdec.theory import tokens_per_pass

if TYPE_CHECKING:  # these import torch, which tables need not wait for
    from torch import Tensor

    from experiments.setting import Setting, Texts
    from specdec.replay import Expected

BLOCKS = 8  # stretches of the window that are printed


def summary(
    point: dict, setting: Setting, texts: Texts, q: Tensor, expected: list[Expected]
) -> dict:
    """Everything, as strict JSON: a row for each gamma, curves by depth and by position, the closed form, the c's."""
    p, q = (law[:, : setting.window].numpy() for law in (texts.laws, q))
    overlap = CLOSED_FORMS["token"](p, q)  # (N, window)
    own = overlap if setting.rule == "token" else CLOSED_FORMS[setting.rule](p, q)
    owner = texts.owner.numpy()
    beta = float(overlap.mean())
    return {
        **point,
        "rule": setting.rule,
        "prompts": len(setting.prompts),
        "texts": len(owner),
        "window": setting.window,
        "overlap": beta,
        "closed_form": float(own.mean()),
        "c": asdict(setting.cost(point["draft"])),
        "gammas": [
            row(one, owner, beta) | {"less_noise": calm(one, owner, own, setting.rule)}
            for one in expected
        ],
        "by_depth": [by_depth(one) for one in expected],
        "by_position": {
            "overlap": overlap.mean(0).tolist(),
            "gammas": [by_position(one) for one in expected],
        },
    }


def row(one: Expected, owner: np.ndarray, beta: float) -> dict:
    """Counts and rates of one gamma. formula_gap, overlap_gap: f(alpha), f(mean beta), less the tokens per pass."""
    totals = one.totals()
    alpha, tokens, M = totals.alpha, totals.tokens_per_pass, totals.full_share
    emitted = one.accepted + one.rounds
    return {
        "gamma": one.gamma,
        **totals.to_json(),
        "thrown_away": totals.thrown_away,
        "tokens_per_pass": tokens,
        "tokens_per_pass_error": asdict(standard_errors(emitted, one.rounds, owner)),
        "alpha": alpha,
        "alpha_error": asdict(standard_errors(one.accepted, one.checked, owner)),
        "full_share": M,
        "full_share_gap": M - alpha**one.gamma,
        "formula_gap": tokens_per_pass(min(1.0, alpha), one.gamma) - tokens,
        "overlap_gap": tokens_per_pass(min(1.0, beta), one.gamma) - tokens,
    }


def calm(one: Expected, owner: np.ndarray, chances: np.ndarray, rule: str) -> dict | None:
    """Tokens per pass with the luck of each next token taken out, and its errors: the same expectation, fewer texts.

    chances: (N, window), the rule's closed form. None for block, which has none place by place.
    """
    if rule == "block":
        return None
    emitted = less_noise(one.accepted + one.rounds, one.rounds, owner, one.surplus(chances))
    return {
        "tokens_per_pass": float(emitted.sum() / one.rounds.sum()),
        "error": asdict(standard_errors(emitted, one.rounds, owner, fitted=1)),
    }


def identity_holds(row: dict) -> bool:
    """tokens per pass = 1 + alpha (1 - M) / (1 - alpha), to the rounding of sums over some thousand rounds.

    Multiplied out, so that an alpha next to 1 does not divide by nearly nothing; at alpha = 1 every round must be whole.
    """
    alpha, M, tokens = row["alpha"], row["full_share"], row["tokens_per_pass"]
    return abs((tokens - 1) * (1 - alpha) - alpha * (1 - M)) < 1e-9


def by_depth(one: Expected) -> dict:
    """Of depths 1 ... gamma in the round: accepted / proposed there, and accepted / checked there (all before it kept)."""
    kept, rounds, checked = one.kept.sum(0), one.rounds.sum(), one.checked_by_depth.sum(0)
    return {
        "accepted_per_proposed": (kept / rounds).tolist(),
        "accepted_per_checked": ratios(kept, checked),
    }


def by_position(one: Expected) -> dict:
    """Of positions in the text: alpha of what is checked there, and how many of the rounds' starts there are a text."""
    return {
        "alpha": ratios(one.accepted_at.sum(0), one.checked_at.sum(0)),
        "starts": one.starts.mean(0).tolist(),
    }


def ratios(above: np.ndarray, below: np.ndarray) -> list[float | None]:
    return [float(a / b) if b > 0 else None for a, b in zip(above, below)]


HEAD = (
    "  γ    rounds  proposed   checked  accepted    thrown   emitted   tokens/pass ± text ± prompts"
    "       α       M   M−α^γ  f(α)−it  f(β)−it  speed-up"
)


def lines(result: dict) -> list[str]:
    """The table, then both curves of the best gamma."""
    c = result["c"]["weights"]
    rows = result["gammas"]
    speeds = [r["tokens_per_pass"] / (1 + c * r["gamma"]) for r in rows]
    best = int(np.argmax(speeds))
    return [
        f"{result['draft']}, T = {result['temperature']:g}, rule {result['rule']}: {result['texts']} texts of "
        f"{result['prompts']} prompts, windows of {result['window']}; mean β {result['overlap']:.4f}, the rule's closed form "
        f"{result['closed_form']:.4f}; c = {c:.3f} by weight bytes",
        HEAD,
        *(_line(r, speed) for r, speed in zip(rows, speeds)),
        "± text: standard error of text and coins, given the prompts; ± prompts: over prompts, all in. speed-up: estimated.",
        *_calmer(rows[best]),
        f"best γ = {rows[best]['gamma']}, speed-up {speeds[best]:.3f}. There, by depth in the round:",
        *_depths(result["by_depth"][best]),
        "and by position in the text:",
        *_positions(result["by_position"], best),
    ]


def _calmer(r: dict) -> list[str]:
    """One line where texts have luck to be taken out."""
    if r["less_noise"] is None or not r["less_noise"]["error"]["text"]:
        return []
    return [
        f"with each next token's luck taken out, tokens/pass at γ = {r['gamma']}: {r['less_noise']['tokens_per_pass']:.4f} "
        f"± text {r['less_noise']['error']['text']:.4f}"
    ]


def _line(r: dict, speed: float) -> str:
    counts = (r["rounds"], r["proposed"], r["checked"], r["accepted"], r["thrown_away"], r["emitted"])  # fmt: skip
    error = r["tokens_per_pass_error"]
    return (
        f"{r['gamma']:3}"
        + "".join(f"{count:10.1f}" for count in counts)
        + f"{r['tokens_per_pass']:14.4f} {_error(error['text'])} {_error(error['prompts'])}"
        + f"{r['alpha']:12.4f}{r['full_share']:8.4f}{r['full_share_gap']:+8.4f}"
        + f"{r['formula_gap']:+9.4f}{r['overlap_gap']:+9.4f}{speed:10.3f}"
    )


def _error(value: float | None) -> str:
    return "     -" if value is None else f"{value:6.4f}"


def _depths(curve: dict) -> list[str]:
    names = {"accepted_per_proposed": "accepted / proposed", "accepted_per_checked": "accepted / checked"}  # fmt: skip
    depths = range(1, len(curve["accepted_per_proposed"]) + 1)
    head = f"  {'depth':20}" + "".join(f"{depth:7}" for depth in depths)
    return [head, *(f"  {text:20}" + _cells(curve[name]) for name, text in names.items())]


def _positions(curves: dict, best: int) -> list[str]:
    """Means over stretches of the window."""
    parts = np.array_split(np.arange(len(curves["overlap"])), BLOCKS)
    head = f"  {'position':20}" + "".join(f"{f'{p[0] + 1}-{p[-1] + 1}':>7}" for p in parts)
    at_best = curves["gammas"][best]
    rows = {"mean β": curves["overlap"], "α": at_best["alpha"], "rounds that start": at_best["starts"]}  # fmt: skip
    return [
        head,
        *(
            f"  {name:20}" + _cells([_mean([values[i] for i in part]) for part in parts])
            for name, values in rows.items()
        ),
    ]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cells(values: list[float | None]) -> str:
    return "".join("      -" if value is None else f"{value:7.3f}" for value in values)
