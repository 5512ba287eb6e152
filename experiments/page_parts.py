"""Pieces of the HTML page: escaped text, tables, figures that follow the page's theme, a run's rounds. Pure functions."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from experiments.figure_style import ALARM, GRID, INK, MUTED, PAPER

VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper", ALARM: "--alarm"}


def text(value: object) -> str:
    """Anything as HTML text; also right inside an attribute's double quotes."""
    return html.escape(str(value))


def section(title: str, *parts: str) -> str:
    return "\n".join([f"<section>\n<h2>{text(title)}</h2>", *parts, "</section>"])


def paragraph(words: str) -> str:
    return f"<p>{text(words)}</p>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column names its rows; it scrolls sideways on a narrow screen. None becomes a dash."""
    cells = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    lines = [f"<tr>{cells}</tr>"]
    for first, *others in rows:
        values = "".join(f"<td>{'–' if value is None else text(value)}</td>" for value in others)
        lines.append(f'<tr><th scope="row">{text(first)}</th>{values}</tr>')
    body = "\n".join(lines)
    return f'<div class="wide" tabindex="0"><table>\n<caption>{text(caption)}</caption>\n{body}\n</table></div>'


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
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    label = f'<svg role="img" aria-label="{text(description)}" '
    return f'<figure class="wide" tabindex="0">\n{label}{body[len("<svg ") :].rstrip()}\n</figure>'


def bytes_as_text(tokens: Iterable[int]) -> str:
    """Bytes as a reader sees them: UTF-8, control characters but newline and tab escaped as in \\x1b."""
    decoded = bytes(tokens).decode("utf-8", "backslashreplace")
    return "".join(
        c if c >= " " and c != "\x7f" or c in "\n\t" else f"\\x{ord(c):02x}" for c in decoded
    )


def byte(token: int) -> str:
    """One byte, spaces and line ends visible."""
    shown = {10: "⏎", 9: "⇥", 32: "␣"}.get(token)
    return shown or (chr(token) if 32 < token < 127 else f"\\x{token:02x}")


MARKS = {  # class -> (mark, what it means); the mark tells them apart without colour
    "accepted": ("", "accepted draft token"),
    "rejected": ("✗", "rejected draft token"),
    "thrown": ("·", "thrown away: drafted behind the rejection, or behind the limit"),
    "correction": ("↦", "the target's own token in place of the rejected one"),
    "bonus": ("+", "the target's own token after a fully accepted round"),
}


def rounds(trace: list[dict]) -> str:
    """A run's rounds as a list, each token marked with what became of it."""
    items = "\n".join(f"<li>{_round(one)}</li>" for one in trace)
    return f'<ol class="rounds">\n{items}\n</ol>'


def legend() -> str:
    """What the marks of `rounds` mean."""
    parts = [f"{_token(name, 'x')} {text(meaning)}" for name, (_, meaning) in MARKS.items()]
    return f'<p class="legend">{"; ".join(parts)}.</p>'


def _round(one: dict) -> str:
    accepted, checked = one["accepted"], one["checked"]
    kinds = ["accepted"] * accepted + ["rejected"] * (checked - accepted)
    kinds += ["thrown"] * (len(one["drafted"]) - len(kinds))
    marked = [_token(kind, byte(token)) for kind, token in zip(kinds, one["drafted"])]
    if one["final"]:
        marked.append(_token(one["final"], byte(one["emitted"][-1])))
    return " ".join(marked)


def _token(kind: str, shown: str) -> str:
    mark, meaning = MARKS[kind]
    return f'<span class="t {kind}" title="{text(meaning)}">{mark}{text(shown)}</span>'
