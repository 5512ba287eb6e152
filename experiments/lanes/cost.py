"""What lanes cost: a target pass and a token of plain text, padded to each lane width, beside the unpadded path.

All widths of one number type take turns on one thread (experiments/bench/timing.py), by the clock of the process: on one thread it tells
the time it takes alone, however busy the machine. A pass stands behind half a context; a pass of five real rows, as gamma 4
checks them, is timed without lanes too, since in lanes it costs what one row costs.
"""

from __future__ import annotations

import time
from dataclasses import asdict

from experiments.bench.jobs import Job, passes_job
from experiments.bench.timing import Session, compare, take_turns
from experiments.lanes.points import DTYPES
from experiments.lanes.study import LaneSetting, in_type
from experiments.options import set_threads
from micro.chance import SeededChance
from micro.generate import generate
from micro.model import Transformer
from micro.sampling import Sampling

NAME = "lanes-cost"
VERSION = 1
POINTS = [{"dtype": dtype} for dtype in DTYPES]
WIDTHS = (8, 16, 24)
CHECKED = 5  # rows of a pass that checks gamma 4
TOKENS, PROMPT = 32, list(b"The attention")
WARMUPS = 2


def identity(point: dict, setting: LaneSetting) -> dict:
    """What is measured; how long it takes depends on the machine, which the record names."""
    return setting.identity(
        version=VERSION, widths=list(WIDTHS), tokens=TOKENS, repeats=setting.repeats, **point
    )


def run(point: dict, setting: LaneSetting) -> dict:
    """times_ms of every job, and each width's ratios to the unpadded path: what -> width -> ratio with its interval."""
    set_threads(1)
    setting.progress(f"what lanes cost in {point['dtype']}")
    ways = jobs(in_type(setting.model, point["dtype"]))
    session = take_turns(ways, setting.repeats, WARMUPS, clock=time.process_time)
    return {
        "times_ms": {name: timing.summary() for name, timing in session.timings.items()},
        "ratios": {
            "a pass of 1 row": _ratios(session, "pass", "pass, off"),
            f"a pass of {CHECKED} rows": _ratios(session, "pass", f"pass of {CHECKED}, off"),
            "a token of plain text": _ratios(session, "token", "token, off"),
        },
    }


def jobs(model: Transformer) -> dict[str, Job]:
    """name -> job, in the order they take turns."""
    found = {
        "pass, off": passes_job(model, 1, 0),
        f"pass of {CHECKED}, off": passes_job(model, CHECKED, 0),
        "token, off": _text(model, 0),
    }
    for width in WIDTHS:
        found[f"pass, {width} lanes"] = passes_job(model, 1, width)
        found[f"token, {width} lanes"] = _text(model, width)
    return found


def _text(model: Transformer, lanes: int) -> Job:
    tokens = min(TOKENS, model.context - len(PROMPT))
    return lambda turn: len(generate(model, PROMPT, tokens, Sampling(0), SeededChance(0), lanes))


def _ratios(session: Session, unit: str, off: str) -> dict[str, dict]:
    return {str(width): asdict(compare(session, f"{unit}, {width} lanes", off)) for width in WIDTHS}
