"""The interactive plate: for every setting of the controls the strings and coordinates that the page shows.

The page's script only looks up and moves. `plate_data` makes the table it looks in:

    controls    name -> the labels of its choices; a setting is the index of each, in the order of CONTROLS
    curves      "draft,T,rule,bytes" -> the paths of both charts, and [x, y] of the best gamma's ring
    settings    "draft,T,rule,bytes,gamma" -> the readouts, and [x, y] of the dots

Keys are indices: no text of a record is ever a key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.curves import C_NAMES, Curve, series
from experiments.page_chart import Frame, ceiling, chart, level
from experiments.page_parts import text
from experiments.page_text import visible
from experiments.palette import look, sign
from experiments.shown import Shown, sample_text
from experiments.stats import Interval

CONTROLS = ("draft", "temperature", "rule", "bytes", "gamma")
TITLES = {
    "draft": "draft",
    "temperature": "temperature T",
    "rule": "acceptance rule",
    "bytes": "c, what a draft pass costs",
    "gamma": "γ, drafted tokens per round",
}
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


@dataclass(frozen=True)
class Choices:
    """What the records let a reader choose from."""

    drafts: list[str]
    temperatures: list[float]
    rules: list[str]
    gammas: list[int]

    @classmethod
    def of(cls, found: dict[str, Shown]) -> Choices:
        """found: rule -> what is shown of its records."""
        curves = [one for shown in found.values() for one in shown.curves]
        return cls(
            list(dict.fromkeys(one.draft for one in curves)),
            sorted({one.temperature for one in curves}),
            list(found),
            sorted({int(gamma) for one in curves for gamma in one.gammas}),
        )

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


def plate_data(found: dict[str, Shown]) -> dict:
    """The table the script looks in. found: rule -> what is shown of its records, at least one Curve in all."""
    choices = Choices.of(found)
    frames = frames_of(found, choices)
    labels = choices.labels()
    curves, settings = {}, {}
    for rule, shown in found.items():
        sample = sample_text(shown) if shown.curves else ""
        for one in shown.curves:
            at = [
                choices.drafts.index(one.draft),
                choices.temperatures.index(one.temperature),
                choices.rules.index(rule),
            ]
            for i, name in enumerate(C_NAMES):
                key = ",".join(map(str, [*at, i]))
                curves[key] = _curve(one, one.c[name], frames, choices)
                for gamma in map(int, one.gammas):
                    place = choices.gammas.index(gamma)
                    settings[f"{key},{place}"] = _setting(one, name, gamma, frames, sample)
    return {
        "controls": [[name, list(map(visible, labels[name]))] for name in CONTROLS],
        "start": [_start(name, labels[name]) for name in CONTROLS],
        "colours": [look(choices.drafts, draft)[0] for draft in choices.drafts],
        "readouts": list(READOUTS),
        "curves": curves,
        "settings": settings,
        "absent": "Not measured. `selfdraft list` names the experiments that would.",
    }


def _start(name: str, labels: list[str]) -> int:
    return labels.index(START[name]) if START[name] in labels else 0


def frames_of(found: dict[str, Shown], choices: Choices) -> Frames:
    """One plane for every setting, so that a curve's place says something."""
    curves = [one for shown in found.values() for one in shown.curves]
    highest = max(float(np.nanmax(one.tokens_per_pass)) for one in curves)
    speeds = [one.speed_up(one.c[name])[0] for one in curves for name in C_NAMES]
    low, high = (float(f([f(v) for v in speeds])) for f in (np.nanmin, np.nanmax))
    gammas = tuple(choices.gammas)
    return Frames(
        Frame(gammas, 1.0, np.ceil(highest * 1.02)),
        Frame(gammas, min(0.8, np.floor(low * 10) / 10), max(1.2, np.ceil(high * 10.5) / 10)),
    )


def _curve(one: Curve, c: float, frames: Frames, choices: Choices) -> dict:
    """Paths of both charts, and the best gamma's ring."""
    gamma, best = one.best(c)
    tokens, speed = _over(one, one.tokens_per_pass, choices), _over(one, one.speed_up(c), choices)
    formula = _over(one, one.formula, choices)[0]
    costs = 1 + c * np.array(choices.gammas)
    return {
        "tokens": _paths(frames.tokens, *tokens, formula),
        "speed": _paths(frames.speed, *speed, formula / costs),
        "ring": {
            "tokens": frames.tokens.place(gamma, one.at(one.tokens_per_pass, gamma).value),
            "speed": frames.speed.place(gamma, best.value),
        },
    }


def _over(one: Curve, values: np.ndarray, choices: Choices) -> tuple[np.ndarray, ...]:
    """(value, low, high) over the page's gammas; NaN where this curve has none."""
    found = series(values) if len(values) > 1 else (values[0],)
    out = np.full((len(found), len(choices.gammas)), np.nan)
    out[:, [choices.gammas.index(int(gamma)) for gamma in one.gammas]] = found
    return tuple(out)


def _paths(frame: Frame, value, low, high, formula) -> dict:
    return {
        "line": frame.line(value),
        "band": frame.band(low, high),
        "formula": frame.line(formula),
    }


def _setting(one: Curve, name: str, gamma: int, frames: Frames, sample: str) -> dict:
    """Readouts in the order of READOUTS, dots, and a sentence for those who do not see them."""
    c, i = one.c[name], list(one.gammas).index(gamma)
    speed, tokens = one.at(one.speed_up(c), gamma), one.at(one.tokens_per_pass, gamma)
    alpha, formula = one.at(one.alpha, gamma), float(one.formula[0, i])
    best_gamma, best = one.best(c)
    excess = float(one.full_share[0, i] - one.alpha[0, i] ** gamma)
    shown = {
        "speed": _known(speed.value, str(speed)),
        "by_formula": _number(formula / (1 + gamma * c)),
        "tokens": _known(tokens.value, str(tokens)),
        "formula": _number(formula),
        "off": _number(formula / tokens.value - 1, "+.1%"),
        "alpha": _known(alpha.value, f"{alpha.value:.3f} [{alpha.low:.3f}, {alpha.high:.3f}]"),
        "excess": _number(excess, "+.3f"),
        "c": f"{c:.4f}",
        "best": str(best_gamma),
        "best_speed": str(best),
    }
    dots = {}
    for chart_name, frame, at in (
        ("tokens", frames.tokens, tokens),
        ("speed", frames.speed, speed),
    ):
        known = at.value == at.value
        dots[chart_name] = (
            [*frame.place(gamma, at.value), frame.whisker(gamma, at.low, at.high)] if known else None
        )  # fmt: skip
    return {"shown": [shown[key] for key in READOUTS], "dots": dots, "say": _say(one, gamma, speed, sample)}  # fmt: skip


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


def plate_html(found: dict[str, Shown]) -> str:
    """Controls, charts and readouts, for the script to fill."""
    choices = Choices.of(found)
    frames, labels = frames_of(found, choices), choices.labels()
    pills = "\n".join(_pills(name, labels[name], choices) for name in CONTROLS if name != "gamma")
    start = _start("gamma", labels["gamma"])
    last = len(choices.gammas) - 1
    slider = (
        f'<div class="control"><label for="gamma">{text(TITLES["gamma"])}: <output id="gamma-shown" for="gamma"></output>'
        f'</label><input type="range" id="gamma" min="0" max="{last}" step="1" value="{start}"></div>'
    )
    charts = chart(
        "tokens", "Tokens per pass", frames.tokens, "tokens per pass (emitted / rounds)", ceiling(frames.tokens)
    ) + chart(
        "speed", "Estimated speed-up", frames.speed, "estimated speed-up (times plain decoding)", level(frames.speed, 1, "no draft: 1")
    )  # fmt: skip
    readouts = "\n".join(
        f'<div><dt>{text(name)}</dt><dd id="read-{key}"></dd></div>'
        for key, name in READOUTS.items()
    )
    key = (
        '<ul class="key"><li><span class="k line"></span>measured, with its 95% band over prompts</li>'
        '<li><span class="k formula"></span>formula</li><li><span class="k dot"></span>this setting, its 95% interval</li>'
        '<li><span class="k ring"></span>best γ</li></ul>'
    )
    return (
        f'<div id="plate">\n<div class="controls" role="group" aria-label="setting">\n{pills}\n{slider}\n</div>\n'
        f'<p id="plate-said" class="said" role="status"></p>\n<div class="charts">{charts}</div>\n{key}\n'
        f'<dl class="readouts">\n{readouts}\n</dl>\n</div>'
    )


def _pills(name: str, labels: list[str], choices: Choices) -> str:
    """A group of radio buttons; a draft shows its marker."""
    items = []
    start = _start(name, labels)
    for i, label in enumerate(labels):
        mark = f'<span aria-hidden="true" class="sign d{i}">{sign(choices.drafts, label)}</span> ' if name == "draft" else ""  # fmt: skip
        checked = " checked" if i == start else ""
        items.append(
            f'<label><input type="radio" name="{name}" value="{i}"{checked}><span>{mark}{text(label)}</span></label>'
        )
    return f'<fieldset class="control"><legend>{text(TITLES[name])}</legend><div class="pills">{"".join(items)}</div></fieldset>'
