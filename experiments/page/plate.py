"""The interactive plate: for every setting of the controls the strings and coordinates that the page shows.

The page's script only looks up and moves. `plate_data` makes the table it looks in:

    controls    name -> the labels of its choices; a setting is the index of each, in the order of CONTROLS
    curves      "draft,T,rule,bytes" -> the paths of both charts, and [x, y] of the best gamma's ring
    settings    "draft,T,rule,bytes,gamma" -> the readouts, and [x, y] of the dots

Keys are indices: no text of a record is ever a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from experiments.drawing.palette import look
from experiments.drawing.shown import Shown, sample_text
from experiments.page.chart import Frame
from experiments.page.text import visible
from experiments.plate.curves import C_NAMES, Curve, series
from experiments.stats import Interval

CONTROLS = ("draft", "temperature", "rule", "bytes", "gamma")
BYTES = {"nominal": "nominal: bits / 16", "weights": "true: weight bytes", "with_cache": "true, with cache"}  # fmt: skip
READOUTS = {
    "speed": "estimated speed-up",
    "by_formula": "speed-up by formula",
    "tokens": "tokens per pass",
    "formula": "formula f(α)",
    "off": "formula is off by",
    "alpha": "α, accepted / checked",
    "excess": "M − α^γ",
    "c": "c",
    "best": "best γ",
    "best_speed": "speed-up at the best γ",
}
START = {"draft": "rtn4", "temperature": "1", "rule": "token", "bytes": BYTES["weights"], "gamma": "4"}  # fmt: skip


# (rule, what is shown of its records), the plate's own first
Sources = list[tuple[str, Shown]]


class Rates(NamedTuple):
    """(value, low, high) over gamma, each."""

    tokens: tuple[np.ndarray, ...]
    alpha: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Choices:
    """What the records let a reader choose from."""

    drafts: list[str]
    temperatures: list[float]
    rules: list[str]
    gammas: list[int]

    @classmethod
    def of(cls, sources: Sources) -> Choices:
        """Gammas are those of the first source: the plate's."""
        curves = [one for _, shown in sources for one in shown.curves]
        return cls(
            list(dict.fromkeys(one.draft for one in curves)),
            sorted({one.temperature for one in curves}),
            list(dict.fromkeys(rule for rule, _ in sources)),
            sorted({int(gamma) for one in sources[0][1].curves for gamma in one.gammas}),
        )

    def cut(self, one: Curve) -> Curve:
        """The curve at these gammas alone."""
        mine = np.isin(one.gammas, self.gammas)
        names = ("rounds", "checked", "accepted", "full")
        return replace(one, gammas=one.gammas[mine], **{n: getattr(one, n)[:, mine] for n in names})

    def place(self, one: Curve, rule: str) -> str:
        """The first three indices of the curve's keys."""
        at = (self.drafts.index(one.draft), self.temperatures.index(one.temperature), self.rules.index(rule))  # fmt: skip
        return ",".join(map(str, at))

    def labels(self) -> dict[str, list[str]]:
        return {
            "draft": self.drafts,
            "temperature": [f"{t:g}" for t in self.temperatures],
            "rule": self.rules,
            "bytes": [BYTES[name] for name in C_NAMES],
            "gamma": [str(gamma) for gamma in self.gammas],
        }


@dataclass(frozen=True)
class Frames:
    tokens: Frame
    speed: Frame


def plate_data(sources: Sources) -> dict:
    """The table the script looks in. Where two sources hold a setting, the first one's is shown; at least one Curve in all."""
    choices = Choices.of(sources)
    frames = frames_of(sources, choices)
    labels = choices.labels()
    curves, settings = {}, {}
    for rule, shown in sources:
        for one in map(choices.cut, shown.curves):
            at = choices.place(one, rule)
            if f"{at},0" not in curves and len(one.gammas):
                _take(one, at, frames, choices, sample_text(shown), curves, settings)
    return {
        "controls": [[name, list(map(visible, labels[name]))] for name in CONTROLS],
        "start": [start_of(name, labels[name]) for name in CONTROLS],
        "colours": [look(choices.drafts, draft)[0] for draft in choices.drafts],
        "readouts": list(READOUTS),
        "curves": curves,
        "settings": settings,
        "absent": "Not measured. Rules and drafts beyond the plate's: `selfdraft run rules`.",
    }


def _take(one: Curve, at: str, frames, choices, sample: str, curves: dict, settings: dict) -> None:
    """Add a curve's paths and readouts, once for each c."""
    rates = Rates(series(one.tokens_per_pass), series(one.alpha))
    for i, name in enumerate(C_NAMES):
        c = one.c[name]
        speed, best = series(one.speed_up(c)), one.best(c)
        curves[f"{at},{i}"] = _curve(one, c, rates.tokens, speed, best, frames, choices)
        for place, gamma in enumerate(map(int, one.gammas)):
            key = f"{at},{i},{choices.gammas.index(gamma)}"
            values = [Interval(*(float(v[place]) for v in s)) for s in (speed, *rates)]
            settings[key] = _setting(one, c, place, values, best, frames, sample)


def start_of(name: str, labels: list[str]) -> int:
    return labels.index(START[name]) if START[name] in labels else 0


def frames_of(sources: Sources, choices: Choices) -> Frames:
    """One plane for every setting, so that a curve's place says something."""
    curves = [choices.cut(one) for _, shown in sources for one in shown.curves]
    highest = max(float(np.nanmax(one.tokens_per_pass[0])) for one in curves if len(one.gammas))
    speeds = [one.speed_up(one.c[n])[0] for one in curves if len(one.gammas) for n in C_NAMES]
    low, high = (float(f([f(v) for v in speeds])) for f in (np.nanmin, np.nanmax))
    gammas = tuple(choices.gammas)
    return Frames(
        Frame(gammas, 1.0, np.ceil(highest * 1.02)),
        Frame(gammas, min(0.8, np.floor(low * 10) / 10), max(1.2, np.ceil(high * 10.5) / 10)),
    )


def _curve(one: Curve, c: float, tokens, speed, best, frames: Frames, choices: Choices) -> dict:
    """Paths of both charts, and the best gamma's ring."""
    gamma, fastest = best
    formula = _over(one, [one.formula[0]], choices)[0]
    costs = 1 + c * np.array(choices.gammas)
    top = tokens[0][list(one.gammas).index(gamma)]
    return {
        "tokens": _paths(frames.tokens, *_over(one, tokens, choices), formula),
        "speed": _paths(frames.speed, *_over(one, speed, choices), formula / costs),
        "ring": {
            "tokens": frames.tokens.place(gamma, top),
            "speed": frames.speed.place(gamma, fastest.value),
        },
    }


def _over(one: Curve, values: Sequence[np.ndarray], choices: Choices) -> np.ndarray:
    """Lines over the page's gammas; NaN where this curve has none."""
    out = np.full((len(values), len(choices.gammas)), np.nan)
    out[:, [choices.gammas.index(int(gamma)) for gamma in one.gammas]] = values
    return out


def _paths(frame: Frame, value, low, high, formula) -> dict:
    return {
        "line": frame.line(value),
        "band": frame.band(low, high),
        "formula": frame.line(formula),
    }


def _setting(
    one: Curve, c: float, i: int, values: list[Interval], best, frames: Frames, sample: str
) -> dict:
    """Readouts in the order of READOUTS, dots, and a sentence for those who do not see them.

    values: speed-up, tokens per pass and alpha at one.gammas[i].
    """
    speed, tokens, alpha = values
    gamma, formula = int(one.gammas[i]), float(one.formula[0, i])
    shown = {
        "speed": _known(speed.value, str(speed)),
        "by_formula": _number(formula / (1 + gamma * c)),
        "tokens": _known(tokens.value, str(tokens)),
        "formula": _number(formula),
        "off": _number(formula / tokens.value - 1, "+.1%"),
        "alpha": _known(alpha.value, f"{alpha.value:.3f} [{alpha.low:.3f}, {alpha.high:.3f}]"),
        "excess": _number(one.full_share[0, i] - one.alpha[0, i] ** gamma, "+.3f"),
        "c": f"{c:.4f}",
        "best": str(best[0]),
        "best_speed": str(best[1]),
    }
    dots = {
        name: _dot(frame, gamma, at)
        for name, frame, at in (("tokens", frames.tokens, tokens), ("speed", frames.speed, speed))
    }
    return {
        "shown": [shown[key] for key in READOUTS],
        "dots": dots,
        "say": _say(one, gamma, speed, sample),
    }


def _dot(frame: Frame, gamma: int, at: Interval) -> list[str] | None:
    """[x, y, path of its interval]; None where there is no value."""
    if at.value != at.value:
        return None
    return [*frame.place(gamma, at.value), frame.whisker(gamma, at.low, at.high)]


def _say(one: Curve, gamma: int, speed: Interval, sample: str) -> str:
    """The setting in a sentence: does it pay?"""
    if speed.value != speed.value:
        return f"γ = {gamma}: no value on record."
    pays = (
        "pays" if speed.low > 1 else "does not pay" if speed.high < 1 else "cannot be told from 1"
    )
    return f"{visible(one.draft)} at T = {one.temperature:g}, γ = {gamma}: {speed} times, it {pays}. {sample}"


def _number(value: float, form: str = ".2f") -> str:
    return _known(value, format(value, form))


def _known(value: float, shown: str) -> str:
    return shown if value == value else "–"
