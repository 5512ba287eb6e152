"""Runs the tiers of `selfdraft exact`: over the program as it is, and over each planted fault. Returns data; prints nothing.

A job is a tuple of names, so that worker processes can build their own checks. A fault is tried in a tier on the checks of
its family, first with those that have no draft or several, then with the near one, then with the far one; of each of the three
as far as the first check that catches it.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context

from experiments.exact.check import DRAFTS, LEVELS, Check, Outcome, judge, up_to
from experiments.exact.faults import FAULTS, Fault, plant
from experiments.exact.tiers import TIERS

CLEAN = ""  # the fault's name of a clean run


@dataclass(frozen=True)
class Job:
    """A check of the program as it is (fault CLEAN, `check` its number in the tier), or a fault in a tier."""

    tier: str
    level: str
    fault: str = CLEAN
    check: int = 0


@dataclass(frozen=True)
class Found:
    """What one draft's checks of a tier found. reached: how often the planted line ran in them; None in a clean run."""

    fault: str
    tier: str
    draft: str
    outcome: Outcome
    reached: int | None
    seconds: float

    @property
    def caught(self) -> bool:
        """What broke off before the planted line ran was not caught by anyone."""
        return self.outcome.caught and self.reached != 0

    @property
    def state(self) -> str:
        """`caught`, `missed`, or `not reached` where the planted line never ran."""
        return "caught" if self.caught else "not reached" if self.reached == 0 else "missed"


@lru_cache
def checks_of(tier: str, level: str) -> list[Check]:
    """A tier's checks up to a level. Raises ValueError on an unknown one."""
    if tier not in TIERS or level not in LEVELS:
        raise ValueError(f"no checks of tier {tier!r}, level {level!r}")
    return up_to(level, importlib.import_module(f"experiments.exact.{tier}").checks())


def clean_jobs(tiers: Iterable[str], level: str) -> list[Job]:
    return [Job(t, level, CLEAN, i) for t in tiers for i in range(len(checks_of(t, level)))]


def fault_jobs(tiers: Iterable[str], names: Iterable[str], cheapest_only: bool) -> list[Job]:
    """Every fault in every tier, or in its cheapest one alone."""
    tiers = list(tiers)
    return [
        Job(tier, "probe", name)
        for name in names
        for tier in tiers
        if not cheapest_only or tier == FAULTS[name].cheapest
    ]


def perform(job: Job) -> list[Found]:
    """One job's findings."""
    if job.fault == CLEAN:
        check = checks_of(job.tier, job.level)[job.check]
        start = time.perf_counter()
        outcome = judge(check)
        seconds = time.perf_counter() - start
        return [Found(CLEAN, job.tier, check.draft, outcome, None, seconds)]
    return list(try_fault(FAULTS[job.fault], job.tier, job.level))


def try_fault(fault: Fault, tier: str, level: str = "probe") -> Iterator[Found]:
    """A Found for each draft that the tier has checks with, of this fault's family."""
    checks = [c for c in checks_of(tier, level) if c.family in (fault.family, "")]
    for draft in DRAFTS:
        mine = [check for check in checks if check.draft == draft]
        if mine:
            yield _try(fault, tier, draft, mine)


def _try(fault: Fault, tier: str, draft: str, checks: list[Check]) -> Found:
    start, worst = time.perf_counter(), None
    with plant(fault) as reached:
        for check in checks:
            outcome = judge(check)
            if worst is None or outcome.caught or _share(outcome) > _share(worst):
                worst = outcome
            if outcome.caught:
                break
    seconds = time.perf_counter() - start
    return Found(fault.name, tier, draft, worst, reached.count, seconds)


def _share(outcome: Outcome) -> float:
    """Evidence as a share of what was allowed."""
    return outcome.evidence / outcome.limit if outcome.limit else 0.0


def run_jobs(jobs: list[Job], workers: int) -> Iterator[list[Found]]:
    """Findings in the jobs' order, here or in several processes."""
    if workers == 1 or len(jobs) == 1:
        yield from map(perform, jobs)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker)
    try:
        yield from pool.map(perform, jobs)
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    torch.set_num_threads(1)


def cores() -> int:
    """Processor cores this process may use, at most 4."""
    if hasattr(os, "sched_getaffinity"):
        return min(4, len(os.sched_getaffinity(0)))
    return min(4, os.cpu_count() or 1)
