"""The course that lies beside the packages in a clone: what counts are made of and what calibration looks at."""

from __future__ import annotations

from pathlib import Path

from micro.text import read_course

DATA = Path(__file__).resolve().parents[1] / "data"


def held_in() -> bytes:
    """The training plates, joined. Raises FileFault where the course cannot be read."""
    return read_course(DATA).joined("train")
