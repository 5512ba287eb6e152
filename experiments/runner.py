"""Runs an experiment's points: finished ones are read from the store, the rest measured and recorded one by one."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from tqdm import tqdm

from experiments.setting import Setting
from experiments.store import Store, key_of


class Experiment(Protocol):
    """A module with these. identity: what a point's result depends on; run: the result, strict JSON."""

    NAME: str
    VERSION: int
    POINTS: list[dict]

    def identity(self, point: dict, setting: Setting) -> dict: ...

    def run(self, point: dict, setting: Setting) -> dict: ...


def measure(
    experiment: Experiment,
    setting: Setting,
    store: Store,
    fresh: bool = False,
    points: list[dict] | None = None,
) -> tuple[list[dict], int]:
    """All records of the experiment's points (or of `points`), in their order, and how many were measured now.

    An error in a point is recorded as failed and raised again: a failed point is not done.
    """
    points = experiment.POINTS if points is None else points
    inputs = [experiment.identity(point, setting) for point in points]
    keys = [key_of(experiment.NAME, given) for given in inputs]
    todo = [i for i, key in enumerate(keys) if fresh or not store.done(experiment.NAME, key)]
    with progress_bar(len(todo), experiment.NAME) as bar:
        setting.progress = bar.say
        for i in todo:
            place = (experiment.NAME, inputs[i], points[i])
            try:
                result = experiment.run(points[i], setting)
            except Exception as error:
                store.append(*place, "failed", {"error": str(error)})
                raise
            store.append(*place, "ok", result)
            bar.step()
    return [store.done(experiment.NAME, key) for key in keys], len(todo)


QUIET_SECONDS = 5.0  # between plain lines where there is no terminal


class progress_bar:  # noqa: N801 - used as a function
    """A bar on a terminal; elsewhere a plain line now and then; nothing where there is nothing to do. total None: not known before."""

    def __init__(self, total: int | None, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.bar, self.last = None, 0.0

    def __enter__(self) -> progress_bar:
        if self.total != 0 and sys.stderr.isatty():
            self.bar = tqdm(total=self.total, desc=self.what, leave=False)
        return self

    def __exit__(self, *error) -> None:
        if self.bar is not None:
            self.bar.close()

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(text)
        elif self.total != 0 and time.monotonic() - self.last > QUIET_SECONDS:
            self.last = time.monotonic()
            of = "" if self.total is None else f"/{self.total}"
            print(f"{self.what}: {self.done}{of} done, {text}", file=sys.stderr, flush=True)

    def step(self) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.update()
