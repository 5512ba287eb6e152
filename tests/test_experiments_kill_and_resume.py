"""Killed at random moments and resumed, a run ends equal to the undisturbed one; a resume that is none would be noticed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from experiments.kill_and_resume import TARGETS
from experiments.paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the check forks")
# a resume that begins anew with another seed; and one that is refused
PLANTED = """
import sys
from dataclasses import replace
from experiments import kill_and_resume as module
train, more = module.TARGETS["train"], sys.argv.pop(1).split()
def broken(inputs, out):
    words = train.command(inputs, out)
    return words if not out.exists() else [w for w in words if w != "--resume"] + more
module.TARGETS["train"] = replace(train, command=broken)
sys.exit(module.run(module.arguments().parse_args(sys.argv[1:])))
"""


def check(*words: str) -> subprocess.CompletedProcess:
    """In a process of its own with one thread: forking one whose torch has begun to compute is not safe."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "times"),
    [("train", 2), *(pytest.param(what, 10, marks=pytest.mark.slow) for what in TARGETS)],
)
def test_a_kill_at_any_moment_changes_nothing(what, times):
    done = check("-m", "experiments.kill_and_resume", "--what", what, "--times", str(times))
    assert done.returncode == 0, done.stdout + done.stderr
    killed = int(re.search(r"killed (\d+) times before the end", done.stdout)[1])
    assert 0 < killed <= times and "0 differences" in done.stdout


@pytest.mark.parametrize(
    ("more", "fault"),
    [("--fresh --seed 2", "weights differs"), ("--lr 0", "the resumed run ended with 2")],
)
def test_a_resume_that_is_none_is_noticed(more, fault):
    done = check("-c", PLANTED, more, "--what", "train", "--times", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert fault in done.stdout
