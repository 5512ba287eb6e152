"""The page: self-contained, escaped, well formed, whole with and without its parts."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_records import fill, made_result

from experiments import estimate, plate_run
from experiments.__main__ import main
from experiments.figures import FIGURES
from experiments.page_parts import byte, bytes_as_text, rounds
from experiments.plate_table import verdict
from experiments.report import build_page
from experiments.shown import shown
from experiments.store import Store

ROOT = Path(__file__).resolve().parents[1]
VOID = {"meta", "br", "img", "hr", "link"}
EVIL = '<script>alert("1")</script>&\'x'


class Page(HTMLParser):
    """Reads a page; holds its text, ids and tags; a tag that is not closed in order is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.ids, self.tags, self.links, self.text = [], [], set(), [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href"):
                self.links.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def made_run(store: Store, prompt: str = "made") -> None:
    """The plate's run at gamma 4, T 1: two rounds, one with a rejection, one whole."""
    trace = [
        {"drafted": [97, 98, 60, 100], "checked": 3, "accepted": 2, "emitted": [97, 98, 99], "final": "correction"},
        {"drafted": [32, 10, 200, 101], "checked": 4, "accepted": 4, "emitted": [32, 10, 200, 101, 33], "final": "bonus"},
    ]  # fmt: skip
    counts = {
        "rounds": 2,
        "proposed": 8,
        "checked": 7,
        "accepted": 6,
        "emitted": 8,
        "draft_passes": 8,
        "full_rounds": 1,
    }
    result = {
        **counts,
        "tokens": [97, 98, 99, 32, 10, 200, 101, 33],
        "trace": trace,
        "identical": None,
    }
    point = {"draft": "rtn4", "temperature": 1.0, "gamma": 4}
    store.append(plate_run.NAME, {"version": 1, "prompts": prompt, **point}, point, "ok", result)


@pytest.fixture
def store(tmp_path) -> Store:
    made = fill(tmp_path)
    made_run(made)
    return made


def test_the_answer_comes_first_and_everything_is_there(store):
    page = Page(build_page(store))
    answer = verdict(shown(store.of(estimate.NAME)).curves)
    assert page.words.index(answer) < page.words.index("Best γ")
    for heading in ("Best γ", "Figures", "By kind of prompt", "The course page", "Every point", "round by round",
                    "Measured with", "Words", "Make it again"):  # fmt: skip
        assert heading in page.words
    assert "0.72" in page.words and "made" in page.words


def test_the_page_is_self_contained_and_needs_no_script(store):
    text = build_page(store)
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"@import|url\((?!#)", text)
    assert page.tags >= {"svg", "table", "details", "dl"}
    assert text.count("<svg") == len(FIGURES)
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def test_ids_are_unique_and_every_reference_has_its_target(store):
    text = build_page(store)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    wanted = {link[1:] for link in page.links} | set(re.findall(r"url\(#([^)]*)\)", text))
    assert wanted and wanted <= set(page.ids)


def test_figures_follow_the_theme(store):
    """No ink or paper of the light theme is left fixed in a figure."""
    text = build_page(store)
    svgs = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.S))
    assert "var(--ink)" in svgs and "var(--paper)" in svgs
    assert "#1b1d21" not in svgs and "#ffffff" not in svgs


def test_everything_put_in_is_escaped(tmp_path):
    point = {"draft": EVIL, "temperature": 1.0}
    store = Store(tmp_path)
    result = made_result(1.0) | {"kinds": [EVIL] * 6}
    store.append(estimate.NAME, {"version": EVIL, EVIL: EVIL, **point}, point, "ok", result)
    store.append("other", {"x": 1}, {"x": EVIL}, "failed", {"error": EVIL})
    store.notes.append(EVIL)
    text = build_page(store)
    assert "<script" not in text and 'alert("1")' not in text
    assert EVIL in Page(text).words


def test_the_run_shows_what_became_of_each_token(store):
    trace = store.of(plate_run.NAME)[0]["result"]["trace"]
    lines = rounds(trace).splitlines()[1:-1]
    kinds = [re.findall(r'class="t (\w+)"', line) for line in lines]
    assert kinds == [
        ["accepted", "accepted", "rejected", "thrown", "correction"],
        ["accepted"] * 4 + ["bonus"],
    ]
    shown_tokens = [re.findall(r">([^<]*)</span>", line) for line in lines]
    assert shown_tokens == [["a", "b", "✗&lt;", "·d", "↦c"], ["␣", "⏎", "\\xc8", "e", "+!"]]


def test_bytes_are_shown_whatever_they_are():
    assert bytes_as_text([65, 27, 0, 10, 0xC3, 0xA9, 0xFF]) == "A\\x1b\\x00\né\\xff"
    assert [byte(t) for t in (32, 10, 9, 65, 0, 127, 255)] == [
        "␣",
        "⏎",
        "⇥",
        "A",
        "\\x00",
        "\\x7f",
        "\\xff",
    ]
    for token in range(256):
        assert bytes_as_text([token]).isprintable() or token in (9, 10)


def test_an_empty_store_gives_a_page_that_says_so(tmp_path):
    page = Page(build_page(Store(tmp_path)))
    assert "Nothing is measured yet." in page.words


@pytest.mark.parametrize("kept", [1, 4, 8])
def test_a_run_that_was_cut_short_gives_a_page_that_says_what_is_missing(tmp_path, kept):
    store = fill(tmp_path, points=estimate.POINTS[:kept])
    page = Page(build_page(store))
    assert "Not measured: " in page.words and "Best γ" in page.words


def test_null_values_leave_dashes_and_no_nan(store):
    for row in store.of(estimate.NAME)[0]["result"]["accepted"]:
        row[2] = None
    page = Page(build_page(store))
    assert "No value: rtn4 at T = 0.0, γ = 3." in page.words
    assert "–" in page.words
    assert "nan" not in page.words.lower()


def test_failed_points_and_another_version_are_said(tmp_path):
    store = fill(tmp_path, version=estimate.VERSION + 1)
    store.append("estimate", {"x": 1}, {"draft": "rtn2"}, "failed", {"error": "out of luck"})
    page = Page(build_page(store))
    assert "out of luck" in page.words
    assert f"version {estimate.VERSION + 1} of the experiment" in page.words


def test_a_run_without_its_rounds_leaves_them_out(tmp_path):
    store = fill(tmp_path)
    made_run(store)
    store.of(plate_run.NAME)[0]["result"].pop("trace")
    page = Page(build_page(store))
    assert "round by round" not in page.words and "The plate's run" in page.words


def test_the_command_writes_the_page_and_imports_no_torch(store, tmp_path):
    code = (
        "import sys; from experiments.__main__ import main; code = main(['report', '--records', sys.argv[1]]); "
        "print('torch' in sys.modules, code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(tmp_path / "index.html"), "False 0"]
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == build_page(Store(tmp_path))


def test_a_page_that_cannot_be_written_is_one_line(store, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert (
        main(["report", "--records", str(tmp_path), "--out", str(tmp_path / "file" / "x.html")])
        == 2
    )
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "cannot be written" in said.err
