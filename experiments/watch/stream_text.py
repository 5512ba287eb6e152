"""Bytes that arrive one by one, as text a terminal can show.

A character of UTF-8 is up to four bytes, and a byte model writes one at a time: what may still become a character is held
back, what cannot is replaced at once. Whatever the cut into pieces, the joined text is `bytes.decode("utf-8", "replace")`
of the whole.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable
from typing import TextIO


class StreamText:
    """An incremental decoder. `feed` bytes as they come, `finish` at the end: an incomplete tail becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that is certain now; "" where a character is still incomplete."""
        return self._decoder.decode(bytes(tokens))

    def finish(self) -> str:
        """What was held back; the decoder starts anew."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


def write_safely(stream: TextIO, text: str) -> None:
    """Write and flush text, whatever the stream's encoding: what it lacks is escaped, as in \\xe9.

    On a terminal control characters are escaped too: a model's stray bytes must not move the cursor or change colours.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if stream.isatty():
        text = escape_controls(text)
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def escape_controls(text: str) -> str:
    """Control characters but newline and tab as \\x1b and the like; C1 controls (U+0080 ... U+009F) among them."""
    return "".join(
        f"\\x{ord(c):02x}" if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 else c
        for c in text
    )


def show_byte(token: int) -> str:
    """A token in three to six ASCII characters, quoted: 'a', ' ', '\\n', '\\xe9'."""
    return ascii(chr(token)) if token < 128 else f"'\\x{token:02x}'"


def colours_wanted(stream: TextIO) -> bool:
    """Escapes only on a terminal that takes them; NO_COLOR (no-color.org) turns them off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
