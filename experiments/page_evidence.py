"""The page's sections on other experiments' records: the frontier of formats, the zoo of drafts, what exactness tests catch.

A section whose records are missing says which command makes them.
"""

from __future__ import annotations

from experiments.page_parts import missing, paragraph, section, table
from experiments.store import Store


def frontier(store: Store) -> str:
    """Formats by alpha and true c over curves of equal speed-up."""
    title = "The frontier of formats"
    return section(title, missing("No ladder of formats is on record. It is measured by", "selfdraft run ladder"))  # fmt: skip


def zoo(store: Store) -> str:
    """Every other way to draft, on the same scale."""
    title = "The zoo: other ways to draft"
    return section(title, missing("No other draft is on record. They are measured by", "selfdraft run zoo"))  # fmt: skip


def exactness(store: Store) -> str:
    """Planted faults by the tier of tests that catches them."""
    title = "Exactness: would a fault be seen?"
    records = store.of("exact")
    if not records:
        return section(title, missing("No planted fault is on record. They are tried by", "selfdraft exact"))  # fmt: skip
    return section(title, paragraph(""), table("", (), []))
