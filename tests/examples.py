"""Property tests that count what they met, on the same examples every time.

Each property is a function from an example to a label ("loaded", "refused"); anything but a one-line ValueError or an exit
with 2 must come out of it as an error. Ten times as many examples run under `-m slow`; `-rP` shows the counts.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCALES = pytest.mark.parametrize("scale", [1, pytest.param(10, marks=pytest.mark.slow)])
HANG = 60  # seconds for one example, each of which takes milliseconds: no clock of a busy machine reaches it

WHOLE = st.one_of(
    st.integers(-2, 600), st.integers(-(1 << 70), 1 << 70), st.sampled_from([1 << 31, 1 << 63, 10**40])
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "\n", "a\nb", "\x00", "\ud800", "../x", "llama", "default", "é" * 300]),
)
SCALARS = st.one_of(st.none(), st.booleans(), WHOLE, st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)


def count(property: Callable[[object], str], strategy: st.SearchStrategy, examples: int) -> Counter:
    """How often `property` gave each label over `examples` examples; printed, too."""
    met: Counter = Counter()

    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=timedelta(seconds=HANG),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def run(example):
        with no_hang():
            met[property(example)] += 1

    run()
    print(f"{sum(met.values())} examples: " + ", ".join(f"{n} {what}" for what, n in met.items()))
    return met


@contextmanager
def no_hang():
    """Ends what inside it takes longer than HANG by an error."""

    def ring(number, frame):
        raise AssertionError(f"one example took more than {HANG} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def one_line(error: ValueError) -> str:
    """The text of an error that a person may see: one line, and not empty."""
    text = str(error)
    assert text and len(text.splitlines()) == 1, repr(text)
    return text
