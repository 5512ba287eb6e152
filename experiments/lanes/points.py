"""The points of the lane study, and what figures and tables need to know of it. Imports nothing, so that they need not wait for torch."""

from __future__ import annotations

NAME = "lanes"
VERSION = 1
DRAFT = "rtn3"  # of the plate's two the one that is refused more often: more to roll back
DTYPES = ("float32", "float64", "bfloat16")
THREADS = (1, 2)
# lane width -> draft lengths; without lanes a few show the course of things
GAMMAS = {16: tuple(range(1, 16)), 24: (16,), 0: (1, 2, 4, 8, 12, 16)}
POINTS = [
    {"dtype": dtype, "threads": threads, "lanes": lanes, "gammas": list(gammas)}
    for dtype in DTYPES
    for threads in THREADS
    for lanes, gammas in GAMMAS.items()
]
