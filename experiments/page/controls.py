"""The interactive plate's HTML: controls, charts and readouts, empty until the page's script fills them."""

from __future__ import annotations

from experiments.drawing.palette import sign
from experiments.page.chart import ceiling, chart, level
from experiments.page.parts import text
from experiments.page.plate import CONTROLS, READOUTS, Choices, Sources, frames_of, start_of

TITLES = {
    "draft": "draft",
    "temperature": "temperature T",
    "rule": "acceptance rule",
    "bytes": "c, what a draft pass costs",
    "gamma": "γ, drafted tokens per round",
}


def plate_html(sources: Sources) -> str:
    """Controls, charts and readouts, for the script to fill."""
    choices = Choices.of(sources)
    frames, labels = frames_of(sources, choices), choices.labels()
    pills = "\n".join(_pills(name, labels[name], choices) for name in CONTROLS if name != "gamma")
    start = start_of("gamma", labels["gamma"])
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
    start = start_of(name, labels)
    for i, label in enumerate(labels):
        mark = f'<span aria-hidden="true" class="sign d{i}">{sign(choices.drafts, label)}</span> ' if name == "draft" else ""  # fmt: skip
        checked = " checked" if i == start else ""
        items.append(
            f'<label><input type="radio" name="{name}" value="{i}"{checked}><span>{mark}{text(label)}</span></label>'
        )
    return f'<fieldset class="control"><legend>{text(TITLES[name])}</legend><div class="pills">{"".join(items)}</div></fieldset>'
