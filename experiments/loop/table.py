"""The loop beside replay as plain values, lines and a verdict. Runs no model."""

from __future__ import annotations

import math
from statistics import NormalDist

from experiments.loop.beside import tokens_per_pass

LEVEL = 1e-3  # chance of a false alarm of each check above temperature 0
OUTSIDE = 0.05  # share of points beyond their 95% bars by chance


def points(records: list[dict]) -> list[dict]:
    """One entry a draft, temperature and gamma."""
    out = []
    for record in records:
        result = record["result"]
        for gamma, both in zip(result["gammas"], result["beside"]):
            one = tokens_per_pass(both)
            out.append(
                {**record["point"], "gamma": gamma, "texts": result["texts"],
                 "rounds": sum(both["loop"]["rounds"]), "loop": one.loop, "replay": one.replay,
                 "error": one.error, "z": one.z}
            )  # fmt: skip
    return out


def faults(found: list[dict]) -> list[str]:
    """Where loop and replay part further than chance explains, in words.

    Greedy points throw no coin: they must be equal to the records' nine digits. The others are judged together: by their mean, and
    by how many lie beyond their 95% bars.
    """
    out = []
    for one in found:
        if one["temperature"] == 0 and not _equal(one):
            out.append(f"{_name(one)}: {one['loop']:.6f} in the loop, {one['replay']:.6f} by replay, without a coin")  # fmt: skip
    warm = with_coins(found)
    if not warm:
        return out
    z, limit = together(warm), NormalDist().inv_cdf(1 - LEVEL / 2)
    if abs(z) > limit:
        out.append(f"all points together: z = {z:+.2f}, beyond {limit:.2f}")
    beyond, n = sum(abs(one["z"]) > bars(one) for one in warm), len(warm)
    chance = sum(math.comb(n, k) * OUTSIDE**k * (1 - OUTSIDE) ** (n - k) for k in range(beyond, n + 1))  # fmt: skip
    if chance < LEVEL:
        out.append(
            f"{beyond} of {n} points beyond their 95% bars, which chance alone does with {chance:.1g}"
        )
    return out


def with_coins(found: list[dict]) -> list[dict]:
    return [one for one in found if one["temperature"] > 0 and one["z"] is not None]


def together(warm: list[dict]) -> float:
    """The sum of the points' z over its standard deviation: each z is Student's, whose variance is v / (v - 2)."""
    variance = sum((one["texts"] - 1) / (one["texts"] - 3) for one in warm)
    return sum(one["z"] for one in warm) / math.sqrt(variance)


def bars(one: dict) -> float:
    """Student's 97.5% quantile for the point's texts, by Cornish and Fisher's expansion of the normal one (to .01 for 7 texts)."""
    x, v = NormalDist().inv_cdf(1 - OUTSIDE / 2), one["texts"] - 1
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return x + sum(term / v ** (order + 1) for order, term in enumerate(terms))


def _equal(one: dict) -> bool:
    return abs(one["loop"] - one["replay"]) <= 1e-6


def _name(one: dict) -> str:
    return f"{one['draft']} at T = {one['temperature']:g}, gamma {one['gamma']}"


def lines(found: list[dict]) -> list[str]:
    """A row for each draft and temperature and gamma, then how they agree."""
    head = f"{'draft':8} {'T':>4} {'γ':>3} {'rounds':>7} {'loop':>8} {'replay':>8} {'z':>6}   tokens per pass, same texts"
    out = [head]
    for one in found:
        z = "-" if one["z"] is None else f"{one['z']:+.2f}"
        out.append(
            f"{one['draft']:8} {one['temperature']:4g} {one['gamma']:3} {one['rounds']:7.0f} {one['loop']:8.4f} "
            f"{one['replay']:8.4f} {z:>6}"
        )
    return out + [agreement(found)]


def agreement(found: list[dict]) -> str:
    """One sentence."""
    cold, warm = [one for one in found if one["temperature"] == 0], with_coins(found)
    text = f"T = 0: equal in {sum(map(_equal, cold))} of {len(cold)} points. " if cold else ""
    if not warm:
        return text
    inside = sum(abs(one["z"]) <= bars(one) for one in warm)
    return text + (
        f"T > 0: {inside} of {len(warm)} points within their 95% bars, all together z = {together(warm):+.2f}; "
        f"largest difference {max(abs(one['loop'] - one['replay']) for one in warm):.3f} tokens per pass."
    )
