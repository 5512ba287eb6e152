"""Bytes and foreign text as a reader may see them: what is no text is shown as such and can neither hide nor reorder its neighbours."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# controls, formats (right-to-left marks among them), halves of pairs, unassigned; line and paragraph separators
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
SPACES = {10: "⏎", 9: "⇥", 32: "␣"}


def visible(text: str) -> str:
    """`text` with what nobody sees spelled out, as in \\x1b and \\u202e; newline and tab stay."""
    return "".join(c if c in "\n\t" or not _unseen(c) else _spelled(c) for c in text)


def _unseen(c: str) -> bool:
    return unicodedata.category(c) in UNSEEN


def _spelled(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def bytes_as_text(tokens: Iterable[int]) -> str:
    """Bytes as UTF-8; what is none, and what nobody sees, spelled out."""
    return visible(bytes(tokens).decode("utf-8", "backslashreplace"))


def byte(token: int) -> str:
    """One byte, spaces and line ends visible."""
    shown = SPACES.get(token)
    return shown or (chr(token) if 32 < token < 127 else f"\\x{token:02x}")


def pieces(data: Iterable[int]) -> list[list]:
    """Bytes as runs of [text, is a chip]: a chip spells out a byte that is no text, or a character nobody sees.

    Line ends keep their sign before them, so that a text that ends in one shows it.
    """
    runs: list[list] = []
    for c in bytes(data).decode("utf-8", "surrogateescape"):
        if 0xDC80 <= ord(c) <= 0xDCFF:  # a byte that is no UTF-8
            runs.append([f"\\x{ord(c) - 0xDC00:02x}", True])
        elif c not in "\n\t" and _unseen(c):
            runs.append([_spelled(c), True])
        elif runs and not runs[-1][1]:
            runs[-1][0] += c
        else:
            runs.append([c, False])
    return runs


def token_piece(token: int) -> list:
    """[text, is a chip] of one byte inside a text."""
    if token in (9, 10) or 32 <= token < 127:
        return [chr(token), False]
    return [f"\\x{token:02x}", True]
