"""The README tells the truth: its commands run, its tables are the reference records, its paths exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import readme_tables
from experiments.paths import REFERENCE, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TOOL = ".venv/bin/selfdraft"

# Commands a test does not run as they stand, with the reason; every other one is run
COSTLY = {
    "plate": "minutes; make plate and tests/test_experiments_plate.py run it",
    "identity": "50,000 tokens; tests/test_experiments_identity.py runs it on a few",
    "train": "minutes, and needs a text of one's own; tests/test_experiments_train.py runs it briefly",
    "bench": "times decoding for minutes",
    "exact": "a minute and more; tests/test_experiments_exact.py runs every tier",
    "replay": "600 texts of the whole course's prompts; tests/test_experiments_replay.py runs it on a few",
    "run": "an experiment takes minutes; its own test runs it in small",
}


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def lines(language: str) -> list[str]:
    """Command lines, comments off."""
    found = [
        line.split("  #")[0].strip() for block in blocks(language) for line in block.splitlines()
    ]
    return [line for line in found if line]


CALLS = [shlex.split(line)[1:] for line in lines("sh") if line.startswith(TOOL)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where a reader stands after `selfdraft plate`, the reference records in place of measured ones."""
    where = tmp_path_factory.mktemp("reader")
    shutil.copytree(REFERENCE, where / "results" / "plate")
    return where


def run_python(arguments: list[str], where: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.mark.parametrize("call", [c for c in CALLS if c[0] not in COSTLY], ids=" ".join)
def test_a_command_runs_as_the_readme_gives_it(call, folder):
    done = run_python(["-m", "experiments", *call], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("call", [c for c in CALLS if c[0] in COSTLY], ids=" ".join)
def test_a_costly_command_takes_the_options_the_readme_gives_it(call, folder):
    """--help behind them: the parser meets every option before it stops there."""
    done = run_python(["-m", "experiments", *call, "--help"], folder)
    assert done.returncode == 0, done.stderr
    options = [word for word in call if word.startswith("-")]
    assert all(re.search(rf"(?<![\w-]){option}\b", done.stdout) for option in options)


def test_every_line_of_shell_is_one_that_is_checked():
    known = (
        TOOL,
        "make plate",
        "make test",
        "python3 -m venv .venv",
        ".venv/bin/python -m pip install",
    )
    assert [line for line in lines("sh") if not line.startswith(known)] == []
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M).group(1).split()
    assert set(re.findall(r"\bmake (?:PYTHON=\S+ )?(plate|test|lint|reference)\b", README)) <= set(
        targets
    )


def test_the_lines_for_powershell_are_the_others_with_its_paths():
    plain = [line for line in blocks("sh") if "-m venv" in line]
    there = blocks("powershell")
    assert len(plain) == len(there) == 1
    translated = plain[0].replace("python3 ", "python ").replace(".venv/bin/", ".venv\\Scripts\\")
    assert there[0] == translated


def test_the_python_example_runs():
    (block,) = blocks("python")
    done = run_python(["-c", block], ROOT)
    assert done.returncode == 0, done.stderr
    alpha, tokens_per_pass = map(float, done.stdout.split()[-2:])
    assert 0 <= alpha <= 1 <= tokens_per_pass <= 5


@pytest.mark.parametrize("name", readme_tables.TABLES)
def test_a_table_is_what_the_reference_records_render(name):
    found = readme_tables.between(name).findall(README)
    assert len(found) == 1, f"the README has {len(found)} places for table:{name}"
    assert found[0][1] == readme_tables.render(name)


def test_no_table_is_without_a_renderer_and_nothing_is_left_to_fill_in():
    assert set(re.findall(r"<!-- table:(\S+) -->", README)) == set(readme_tables.TABLES)
    assert "@@" not in README


def test_links_and_figures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets and [path for path in targets if not (ROOT / path).exists()] == []


def test_the_tree_names_every_module_of_the_libraries_and_every_folder_of_experiments():
    (tree,) = (block for block in blocks("text") if block.startswith("micro/"))
    named, package = set(), ""
    for line in tree.splitlines():
        name = line.split()[0]
        package = name if not line.startswith(" ") else package
        path = ROOT / (name if name == package else package + name)
        assert path.exists(), f"the tree names {path.relative_to(ROOT)}"
        named.add(path)
    libraries = (ROOT / package for package in ("micro", "quant", "specdec"))
    modules = {path for folder in libraries for path in folder.glob("[!_]*.py")}
    folders = {path.parent for path in (ROOT / "experiments").glob("*/__init__.py")}
    assert (modules | folders) - named == set()


def test_every_file_of_the_reference_has_a_command_that_makes_it():
    folder = ROOT / "experiments" / "reference"
    words = set(re.findall(r"[\w./-]+", (folder / "README.md").read_text()))
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    named = {path for path in files if {str(path), str(path.with_suffix(""))} & words}
    assert files - named == {Path("README.md")}


def test_reference_page_names_no_place_of_the_machine_that_made_it():
    """Its commands work in any clone: they name the folder from the clone's root."""
    page = (ROOT / "experiments" / "reference" / "index.html").read_text(encoding="utf-8")
    assert "selfdraft plot --records experiments/reference " in page


def test_reference_page_shows_the_reference_records():
    """Figures aside, whose curves another matplotlib may draw otherwise."""
    from experiments.page.command import build_page
    from experiments.store import Store

    reference = ROOT / "experiments" / "reference"
    pages = build_page(Store(reference)), (reference / "index.html").read_text(encoding="utf-8")
    made, kept = (re.sub(r"<svg.*?</svg>", "", page, flags=re.S) for page in pages)
    assert made == kept


def test_page_of_records_inside_the_clone_is_named_from_its_root():
    from experiments.page.command import build_page
    from experiments.store import Store

    page = build_page(Store(ROOT / "experiments" / "reference"))  # an absolute path
    assert str(ROOT) not in page and "--records experiments/reference " in page
