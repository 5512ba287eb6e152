"""How much of two texts was compared, how much of it differed, and the lines that say what that is evidence of."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """How much was compared, how much of it differed, and how much could not have shown a fault. Entries are single numbers.

    Dead are: a row whose logits are all one number; a text of two rows or more whose rows are all the same; a vector (one layer's
    keys or values at one position) of zeros.
    """

    texts: int = 0
    texts_differing: int = 0
    texts_dead: int = 0
    tokens: int = 0
    rows: int = 0
    rows_differing: int = 0
    rows_dead: int = 0
    entries: int = 0
    entries_differing: int = 0
    vectors_dead: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def dead(self) -> dict[str, int]:
        """What is dead, by name; empty where everything compared could have shown a fault."""
        found = {
            "texts": self.texts_dead,
            "rows": self.rows_dead,
            "cache vectors": self.vectors_dead,
        }
        return {name: count for name, count in found.items() if count}

    @property
    def identical(self) -> bool | None:
        """False where anything differs; None where nothing does but some of it is dead: no claim."""
        if self.texts_differing or self.rows_differing or self.entries_differing:
            return False
        return None if self.dead else True


def controls_line(found: dict[str, bool]) -> str:
    """What was planted, and what of it passed."""
    missed = [name for name, seen in found.items() if not seen]
    if missed:
        return f"controls: NOT noticed when planted on both sides: {', '.join(missed)}"
    return f"controls: planted on both sides and noticed: {', '.join(found)}"


def dead_line(dead: dict[str, int]) -> str:
    """Why what agrees is no evidence, from Counts.dead."""
    counts = ", ".join(f"{count:,} {name}" for name, count in dead.items())
    return f"dead: {counts} (all one number, all the same, or zeros): two broken engines would agree on these too"
