"""The one home of colours and marks: figures, page and terminal take theirs from here, and so look like one family.

Colours are Okabe and Ito's (2008), told apart by colour-blind readers. A colour is never alone: a draft has its marker, what
became of a token its mark, and a legend names both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# what a figure, a page or a terminal is made of -> (light theme, dark theme)
THEME = {
    "ink": ("#1b1d21", "#e8eaee"),
    "muted": ("#5c616a", "#a3a9b3"),
    "grid": ("#e2e4e8", "#363b44"),
    "paper": ("#ffffff", "#15171b"),
    "panel": ("#f6f7f9", "#1d2026"),
    "alarm": ("#a33b00", "#ffab7a"),
    "focus": ("#0072b2", "#56b4e9"),
}
# (colour, marker as matplotlib names it) of the first draft of a figure or table, the second, ...
LOOKS = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#e69f00", "v"),
    ("#56b4e9", "P"),
    ("#5c616a", "X"),
)
SIGNS = {
    "o": "●",
    "s": "■",
    "^": "▲",
    "D": "◆",
    "v": "▼",
    "P": "✚",
    "X": "✖",
}  # the markers in text


@dataclass(frozen=True)
class Fate:
    """What became of a token. mark: one ASCII character that tells it without colour; light, dark: a tint to stand behind it."""

    mark: str
    colour: str
    light: str
    dark: str
    meaning: str


FATES = {
    "accepted": Fate("+", "#009e73", "#d9efe6", "#17412f", "drafted and kept"),
    "rejected": Fate("x", "#d55e00", "#f9ddd3", "#57291a", "drafted, judged and refused"),
    "thrown away": Fate(
        "-", "#7f858e", "#eceef1", "#2a2e35", "drafted behind a rejection or the end: never judged"
    ),
    "correction": Fate(
        ">", "#0072b2", "#d6e8f6", "#173a57", "the target's own token in place of the rejected one"
    ),
    "bonus": Fate(
        "*", "#cc79a7", "#f5e3ee", "#4a2a3f", "the target's own token after a round accepted whole"
    ),
}


def look(drafts: list[str], draft: str) -> tuple[str, str]:
    """(colour, marker) of a draft among those of a figure, table or page."""
    return LOOKS[drafts.index(draft) % len(LOOKS)]


def sign(drafts: list[str], draft: str) -> str:
    """The draft's marker as a character."""
    return SIGNS[look(drafts, draft)[1]]


def sgr(colour: str) -> str:
    """The nearest colour of the terminal's 6 x 6 x 6 cube, as the code of an escape sequence (xterm's 256 colours)."""
    levels = (0, 95, 135, 175, 215, 255)
    red, green, blue = (
        min(range(6), key=lambda i: abs(levels[i] - int(colour[at : at + 2], 16)))
        for at in (1, 3, 5)
    )
    return f"38;5;{16 + 36 * red + 6 * green + blue}"


def paint(text: str, colour: str, wanted: bool) -> str:
    """Text in a colour for a terminal that takes it; as it is elsewhere."""
    return f"\x1b[{sgr(colour)}m{text}\x1b[0m" if wanted else text


def legend(entries: Iterable[tuple[str, str, str]], coloured: bool) -> str:
    """One line for (mark, name, colour) of each: what `selfdraft trace` and the tables print."""
    return "   ".join(paint(f"{mark} {name}", colour, coloured) for mark, name, colour in entries)


def with_signs(lines: Iterable[str], drafts: list[str], coloured: bool) -> list[str]:
    """A table whose rows begin with a draft's name: each such row gets the draft's marker before it, and its colour. The row of
    headings, which begins with "draft", moves along."""
    out = []
    for line in lines:
        name = line.split(" ", 1)[0]
        if name in drafts:
            colour, _ = look(drafts, name)
            line = paint(f"{sign(drafts, name)} {name}", colour, coloured) + line[len(name) :]
        elif name == "draft":
            line = f"  {line}"
        out.append(line)
    return out


def fate_entries() -> list[tuple[str, str, str]]:
    return [(fate.mark, name, fate.colour) for name, fate in FATES.items()]


def draft_entries(drafts: list[str]) -> list[tuple[str, str, str]]:
    return [(sign(drafts, draft), draft, look(drafts, draft)[0]) for draft in drafts]
