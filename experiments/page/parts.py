"""Pieces of the HTML page: escaped text, tables, figures that follow the page's theme, data for its scripts. Pure functions."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.drawing.palette import FATES, THEME
from experiments.page.text import byte, visible

INKS = (
    "ink",
    "muted",
    "grid",
    "paper",
    "alarm",
)  # what a figure draws in, beside the drafts' own colours


def text(value: object) -> str:
    """Anything as HTML text; also right inside an attribute's double quotes."""
    return html.escape(visible(str(value)))


def data_script(name: str, value: object) -> str:
    """Strict JSON that no HTML parser can take for a tag, and no script for more than data.

    Raises ValueError on NaN and infinity.
    """
    # ASCII alone: U+2028, U+2029 and halves of pairs are escaped by json itself
    body = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        body = body.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{body}</script>'


def section(title: str, *parts: str, name: str = "") -> str:
    """A section under its own heading, which a link may name."""
    name = name or re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    head = f'<section aria-labelledby="{name}">\n<h2 id="{name}">{text(title)}</h2>'
    return "\n".join([head, *parts, "</section>"])


def contents(sections: Iterable[str]) -> str:
    """Links to the sections, in their order."""
    heads = [re.search(r'<h2 id="([^"]*)">(.*?)</h2>', part) for part in sections]
    links = "".join(f'<li><a href="#{head[1]}">{head[2]}</a></li>' for head in heads)
    return f'<nav aria-label="sections"><ul>{links}</ul></nav>'


def paragraph(words: str) -> str:
    return f"<p>{text(words)}</p>"


def missing(what: str, command: str) -> str:
    """What a section says whose records are not there."""
    return f'<p class="missing">{text(what)} <code>{text(command)}</code></p>'


class Marked(NamedTuple):
    """A cell with a class of its own and a hint for who points at it."""

    shown: str
    kind: str = ""
    hint: str = ""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column names its rows; it scrolls sideways on a narrow screen. None becomes a dash."""
    cells = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    lines = [f"<tr>{cells}</tr>"]
    for first, *others in rows:
        values = "".join(_cell("td", value) for value in others)
        lines.append(f"<tr>{_cell('th', first)}{values}</tr>")
    body = "\n".join(lines)
    # the caption stands outside the box that scrolls, so that it wraps and is never cut
    label = f'role="region" tabindex="0" aria-label="{text(caption)}"'
    head = f'<p class="caption">{text(caption)}</p>'
    return f'{head}<div class="wide" {label}><table aria-label="{text(caption)}">\n{body}\n</table></div>'


def _cell(tag: str, value: object) -> str:
    marked = value if isinstance(value, Marked) else Marked("–" if value is None else str(value))
    more = ' scope="row"' if tag == "th" else ""
    more += f' class="{marked.kind}"' if marked.kind else ""
    more += f' title="{text(marked.hint)}"' if marked.hint else ""
    return f"<{tag}{more}>{text(marked.shown)}</{tag}>"


def details(summary: str, *parts: str) -> str:
    """Folded until asked for; needs no script."""
    return "\n".join([f"<details><summary>{text(summary)}</summary>", *parts, "</details>"])


def definitions(words: dict[str, str]) -> str:
    lines = [f"<dt>{text(word)}</dt><dd>{text(meaning)}</dd>" for word, meaning in words.items()]
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


def figure(svg: str, name: str, description: str) -> str:
    """An SVG file's text inlined: ids made the page's own, colours those of the theme."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\1{name}-", body)
    for variable in INKS:
        body = body.replace(THEME[variable][0], f"var(--{variable})")
    label = f'<svg role="img" aria-label="{text(description)}" '
    return f'<figure class="wide" tabindex="0">\n{label}{body[len("<svg ") :].rstrip()}\n</figure>'


def rounds(trace: list[dict]) -> str:
    """A run's rounds as a list, each token marked with what became of it."""
    items = "\n".join(f"<li>{_round(one)}</li>" for one in trace)
    return f'<ol class="rounds">\n{items}\n</ol>'


def legend() -> str:
    """What the marks of tokens mean, in the order and with the marks of the terminal's legend."""
    items = "\n".join(
        f"<li>{token(name, fate.mark)} {text(name)}: {text(fate.meaning)}</li>"
        for name, fate in FATES.items()
    )
    return f'<ul class="legend" aria-label="marks of tokens">\n{items}\n</ul>'


def _round(one: dict) -> str:
    accepted, checked = one["accepted"], one["checked"]
    fates = ["accepted"] * accepted + ["rejected"] * (checked - accepted)
    fates += ["thrown away"] * (len(one["drafted"]) - len(fates))
    marked = [_marked(fate, of) for fate, of in zip(fates, one["drafted"])]
    if one["final"]:
        marked.append(_marked(one["final"], one["emitted"][-1]))
    return " ".join(marked)


def _marked(fate: str, of: int) -> str:
    return token(fate, FATES[fate].mark + byte(of), f"{byte(of)}: {fate}")


def token(fate: str, shown: str, label: str = "") -> str:
    title = f' title="{text(label)}"' if label else ""
    return f'<span class="t {fate.split()[0]}"{title}>{text(shown)}</span>'
