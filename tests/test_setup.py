"""Set-up: a Python that cannot run the workshop is refused in one sentence, and the files around the code agree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.setup_check import here, refusal

ROOT = Path(__file__).resolve().parents[1]
FINE = ((3, 12), "CPython", 64, "Linux", "x86_64", False)


@pytest.mark.parametrize(
    "fine",
    [
        FINE,
        ((3, 10), "CPython", 64, "Linux", "aarch64", False),
        ((3, 13), "CPython", 64, "Darwin", "arm64", False),
        ((3, 11), "CPython", 64, "Windows", "AMD64", False),
    ],
)
def test_a_python_that_torch_is_built_for_passes(fine):
    assert refusal(*fine) == ""


@pytest.mark.parametrize(
    "place, value, said",
    [
        (0, (3, 9), "this is 3.9"),
        (0, (2, 7), "this is 2.7"),
        (1, "PyPy", "PyPy"),
        (2, 32, "32-bit"),
        (3, "Darwin", "Intel Macs"),
        (5, True, "musl"),
    ],
)
def test_any_other_is_refused_in_one_sentence(place, value, said):
    text = refusal(*FINE[:place], value, *FINE[place + 1 :])
    assert said in text and "\n" not in text and ". " not in text


def test_this_python_passes():
    assert refusal(*here()) == ""


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("fault", ["import sys; sys.exit('too old')", "no such python"])
def test_make_stops_with_one_line_before_anything_is_made(fault, tmp_path):
    python = tmp_path / "python"
    if fault.startswith("import"):  # a Python that refuses itself
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{fault}"\n')
        python.chmod(0o755)
    for target in ("plate", "reference", "test", "lint"):
        done = subprocess.run(
            ["make", target, f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"],
            cwd=ROOT, capture_output=True, text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 2 and said.count("\n") == 1, said
        assert ("too old" if fault.startswith("import") else str(python)) in said
        assert not (tmp_path / "venv").exists()


def test_the_makefile_stays_short():
    assert len((ROOT / "Makefile").read_text().splitlines()) < 40


def test_the_licence_and_the_version_are_the_same_everywhere():
    project, citation = (ROOT / "pyproject.toml").read_text(), (ROOT / "CITATION.cff").read_text()
    version = re.search(r'^version = "(.*)"', project, re.M).group(1)
    assert f"\nversion: {version}\n" in citation and "\nlicense: MIT\n" in citation
    assert (ROOT / "LICENSE").read_text().startswith("MIT License") and '"MIT"' in project
