"""Bytes to text as they come: nothing lost, nothing held back without need, nothing that a console cannot take."""

import io

import numpy as np
import pytest

from experiments.watch.stream_text import (
    StreamText,
    colours_wanted,
    escape_controls,
    show_byte,
    write_safely,
)


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal, in any encoding."""

    def __init__(self, encoding="utf-8", terminal=True):
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def written(self) -> bytes:
        return self.buffer.getvalue()


def fed(pieces) -> str:
    stream = StreamText()
    return "".join([*(stream.feed(piece) for piece in pieces), stream.finish()])


def test_characters_of_every_width_come_out_whole_when_fed_byte_by_byte():
    text = "aé漢🙂"
    stream = StreamText()
    parts = [stream.feed([byte]) for byte in text.encode()]
    assert "".join(parts) == text
    assert parts == ["a", "", "é", "", "", "漢", "", "", "", "🙂"]
    assert stream.finish() == ""


def test_an_incomplete_tail_is_flushed_as_one_replacement_mark():
    stream = StreamText()
    assert stream.feed([0xF0]) + stream.feed([0x9F]) == ""
    assert stream.finish() == "\ufffd"
    assert stream.feed(b"a") == "a"  # nothing of the tail is left behind


@pytest.mark.parametrize("bad, ascii_byte", [(0xFF, "a"), (0xE6, "b"), (0x92, "c")])
def test_ascii_behind_an_invalid_byte_appears_without_delay(bad, ascii_byte):
    stream = StreamText()
    first = stream.feed([bad])
    assert first + stream.feed([ord(ascii_byte)]) == "\ufffd" + ascii_byte


def test_ten_thousand_random_byte_strings_equal_the_one_shot_decode():
    chance = np.random.default_rng(5)
    # half from all bytes, half from those that build and break multi-byte characters
    breakers = np.array([0x41, 0x80, 0x9F, 0xBF, 0xC3, 0xE0, 0xE6, 0xED, 0xF0, 0xF4, 0xFF])
    for trial in range(10_000):
        length = int(chance.integers(0, 24))
        some = chance.integers(0, 256, length) if trial % 2 else chance.choice(breakers, length)
        data = bytes(some.astype(np.uint8))
        cut = int(chance.integers(1, 5))
        pieces = [data[i : i + cut] for i in range(0, len(data), cut)]
        assert fed(pieces) == data.decode("utf-8", "replace"), data


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_every_byte_can_be_printed_in_every_encoding(encoding):
    stream = Terminal(encoding)
    write_safely(stream, bytes(range(256)).decode("utf-8", "replace") + "漢🙂")
    shown = stream.written().decode(encoding)
    assert ("漢🙂" in shown) == (encoding == "utf-8")
    assert (r"\u6f22\U0001f642" in shown) == (encoding != "utf-8")


def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_the_text_as_it_is():
    raw = "a\x1b[31mb\x07\r\x7f\x9b\n\tc"
    terminal, pipe = Terminal(), Terminal(terminal=False)
    write_safely(terminal, raw)
    write_safely(pipe, raw)
    assert terminal.written() == rb"a\x1b[31mb\x07\x0d\x7f\x9b" + b"\n\tc"
    assert pipe.written().decode() == raw
    assert escape_controls("plain é") == "plain é"


def test_tokens_are_shown_in_ascii():
    assert [show_byte(t) for t in (97, 32, 10, 39, 92, 0, 0xE9)] == [
        "'a'", "' '", r"'\n'", '"\'"', r"'\\'", r"'\x00'", r"'\xe9'",
    ]  # fmt: skip
    assert all(show_byte(t).isascii() for t in range(256))
    assert len({show_byte(t) for t in range(256)}) == 256


def test_colours_only_on_a_terminal_that_takes_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours_wanted(Terminal())
    assert not colours_wanted(Terminal(terminal=False))
    monkeypatch.setenv("TERM", "dumb")
    assert not colours_wanted(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours_wanted(Terminal())
