"""The page: self-contained, escaped, well formed, whole with and without its parts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_records import fill, made_result
from made_rounds import add_run

from experiments import estimate
from experiments.__main__ import main
from experiments.drawing.shown import shown
from experiments.figures import FIGURES
from experiments.page import tables as page_tables
from experiments.page.command import build_page, sources
from experiments.page.parts import data_script, rounds
from experiments.page.plate import C_NAMES, READOUTS, plate_data
from experiments.page.text import byte, bytes_as_text, pieces
from experiments.plate import run as plate_run
from experiments.plate.table import verdict
from experiments.store import Store
from experiments.watch import rounds_run
from experiments.watch.rounds_text import title

ROOT = Path(__file__).resolve().parents[1]
VOID = {"meta", "br", "img", "hr", "link", "input"}
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
        if not self.open or self.open[-1] not in ("style", "script"):
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
    for heading in ("The plate, to play with", "Round by round", "Best γ", "Figures", "By kind of prompt", "The course page",
                    "Every point", "all rounds on one sheet", "The frontier", "The zoo", "Exactness", "Provenance", "Words",
                    "Make it again"):  # fmt: skip
        assert heading in page.words
    assert "0.72" in page.words and "made" in page.words


def test_the_page_is_self_contained_and_small(store):
    text = build_page(store)
    page = Page(text)
    assert not page.tags & {"link", "img", "iframe", "object"}
    assert "default-src 'none'" in text and "script src" not in text
    assert len(text.encode()) < 3_000_000
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"@import|url\((?!#)", text)
    assert page.tags >= {"svg", "table", "details", "dl"}
    assert text.count("<svg") == len(FIGURES) + 2  # and the two charts of the plate
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
    assert "<script>alert" not in text and 'alert("1")' not in text
    assert EVIL in Page(text).words


def test_the_plate_s_run_shows_what_became_of_each_token(store):
    trace = store.of(plate_run.NAME)[0]["result"]["trace"]
    lines = rounds(trace).splitlines()[1:-1]
    kinds = [re.findall(r'class="t (\w+)"', line) for line in lines]
    assert kinds == [
        ["accepted", "accepted", "rejected", "thrown", "correction"],
        ["accepted"] * 4 + ["bonus"],
    ]
    shown_tokens = [re.findall(r">([^<]*)</span>", line) for line in lines]
    assert shown_tokens == [
        ["+a", "+b", "x&lt;", "-d", "&gt;c"],
        ["+␣", "+⏎", "+\\xc8", "+e", "*!"],
    ]


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
    assert not re.search(r"\bnan\b", page.words.lower())


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
    assert "all rounds on one sheet" not in page.words and "The plate's run" in page.words


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


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes most of a page's time; what is looked at here is not drawn by matplotlib."""
    monkeypatch.setattr(page_tables, "figures", lambda records: [])


def strings(store: Store) -> dict[str, str]:
    """Every string that the page shows from its tables: place -> string."""
    found = {}

    def walk(value, place):
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for name, inner in items:
                walk(inner, f"{place}/{name}")
        else:
            found[place] = value

    for name, body in scripts(build_page(store)).items():
        walk(json.loads(body, parse_constant=pytest.fail), name)
    return found


def scripts(page: str) -> dict[str, str]:
    """id -> the text of each data script."""
    return dict(
        re.findall(r'<script type="application/json" id="([^"]*)">(.*?)</script>', page, re.S)
    )


def changed(store: Store, change) -> dict[str, str]:
    """The strings that differ once `change` was applied to the store's records."""
    before = strings(store)
    change(store)
    after = strings(store)
    assert before.keys() == after.keys()
    return {place: after[place] for place in after if after[place] != before[place]}


def test_one_c_changed_in_one_record_changes_its_own_numbers_and_no_other(store, no_figures):
    """The nominal c of rtn3 at T = 0.5: of all settings only those of that draft, T and c, and there only what depends on c."""
    point = {"draft": "rtn3", "temperature": 0.5}

    def change(store):
        (record,) = [r for r in store.of(estimate.NAME) if r["point"] == point]
        record["result"]["c"]["nominal"] = 0.2501

    found = changed(store, change)
    data = plate_data(sources(store))
    names = dict(data["controls"])
    key = [
        names["draft"].index("rtn3"),
        names["temperature"].index("0.5"),
        0,
        C_NAMES.index("nominal"),
    ]
    prefix = ",".join(map(str, key))
    readout = re.compile(rf"plate-data/settings/{prefix},\d/shown/(\d+)")
    numbers = [readout.fullmatch(place) for place in found if "/shown/" in place]
    assert numbers and all(numbers)
    assert {list(READOUTS)[int(m[1])] for m in numbers} <= {
        "speed",
        "by_formula",
        "c",
        "best_speed",
    }
    assert found[f"plate-data/settings/{prefix},0/shown/{list(READOUTS).index('c')}"] == "0.2501"
    others = [place for place in found if f"/{prefix}" not in place]
    assert others == []


def test_one_count_changed_in_one_record_changes_the_numbers_of_its_gamma(store, no_figures):
    """Accepted tokens of rtn4 at T = 1, gamma 3: tokens per pass there, and at no other gamma."""

    def change(store):
        (record,) = [
            r
            for r in store.of(estimate.NAME)
            if r["point"] == {"draft": "rtn4", "temperature": 1.0}
        ]
        for row in record["result"]["accepted"]:
            row[2] *= 0.5  # of no speed-up the best, before or after

    found = changed(store, change)
    shown = [place.split("/") for place in found if "/shown/" in place]
    touched = {
        (place[2].rsplit(",", 2)[0], place[2].rsplit(",", 1)[1], list(READOUTS)[int(place[4])])
        for place in shown
    }
    data = dict(plate_data(sources(store))["controls"])
    draft, temperature = data["draft"].index("rtn4"), data["temperature"].index("1")
    assert {key for key, _, _ in touched} == {f"{draft},{temperature},0"}
    numbers = {name for _, gamma, name in touched if gamma == "2"}
    assert numbers >= {"tokens", "alpha", "speed", "formula", "by_formula"}
    assert {name for _, gamma, name in touched if gamma != "2"} <= {"best", "best_speed"}


def test_one_p_changed_in_a_recorded_run_changes_that_number_alone(tmp_path, no_figures):
    store = fill(tmp_path)
    add_run(store)

    def change(store):
        store.of("rounds")[0]["result"]["rounds"][0]["drafted"][1]["p"] = 0.123

    found = changed(store, change)
    assert found == {"viewer-data/runs/0/rounds/0/1/facts/1/1": "0.123"}


@pytest.mark.parametrize("name", ["plate.js", "viewer.js"])
def test_the_page_s_scripts_hold_no_formula(name):
    """Nothing that computes or formats a number: no product, quotient or power, no Math, no parsing, no rounding."""
    code = (ROOT / "experiments" / "page" / name).read_text()
    code = re.sub(r"^\s*//.*$|\s// .*$", "", code, flags=re.M)
    code = re.sub(r'"[^"\n]*"', '""', code)
    assert not re.findall(
        r"[*/%]|Math|Number|parseInt|parseFloat|toFixed|toPrecision|toLocale|Intl|eval", code
    )
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser", code)
    # sums: strings that are joined, and the number of a step
    sums = re.findall(r"[\w\]\).]+ [-+] [\w(.]+", re.sub(r'\+ ""|"" \+', "", code))
    assert set(sums) <= {"now + 1", "now - 1", "length - 1"} | {
        s for s in sums if s.endswith("length - 1")
    }


def test_data_cannot_leave_its_script():
    hostile = {"</script><!--": "\u2028\u2029 <script> & \ud800 \x00"}
    script = data_script("x", hostile)
    body = scripts(script)["x"]
    assert json.loads(body) == hostile
    assert body.isascii() and not set("<>&") & set(body)
    with pytest.raises(ValueError):
        data_script("x", [float("nan")])


def test_foreign_bytes_are_pieces_that_can_be_told_from_text():
    data = "é\u202eb\n".encode() + b"\x92\x00\xe2\x82"
    assert pieces(data) == [["é", False], ["\\u202e", True], ["b\n", False], ["\\x92", True], ["\\x00", True],
                            ["\\xe2", True], ["\\x82", True]]  # fmt: skip


def test_a_section_without_records_names_the_command_that_makes_them(store, no_figures):
    page = build_page(store)
    for command in ("run rounds", "run ladder", "run zoo", "exact"):
        assert f"<code>selfdraft {command}</code></p>" in page


def test_other_rules_stand_beside_the_plate_s_own(tmp_path, no_figures):
    """An estimate under another rule is one more choice; figures, tables and the answer stay the token rule's."""
    store = fill(tmp_path)
    point = {"draft": "rtn4", "temperature": 1.0}
    before = verdict(shown(store.of(estimate.NAME)).curves)
    inputs = {"version": estimate.VERSION, "weights": "made", "rule": "block", **point}
    store.append(estimate.NAME, inputs, point, "ok", made_result(9.0))
    page = build_page(store)
    assert before in Page(page).words
    data = json.loads(scripts(page)["plate-data"])
    assert dict(data["controls"])["rule"] == ["token", "block"]
    assert {key.split(",")[2] for key in data["settings"]} == {"0", "1"}


def test_runs_stand_in_the_experiments_order_whenever_they_were_made(tmp_path, no_figures):
    store = Store(tmp_path)
    late, early = rounds_run.POINTS[3], rounds_run.POINTS[0]
    for point in ({"gamma": 7}, late, early):
        add_run(store, **point)
    options = re.findall(r'<option value="\d">([^<]*)</option>', build_page(store))
    assert options == [
        *map(title, ({"point": early}, {"point": late})),
        "lesson, rtn4, T = 1, γ = 7",
    ]


def test_provenance_names_machine_versions_inputs_and_commands(store, no_figures):
    page = Page(build_page(store))
    environment = store.of(estimate.NAME)[0]["environment"]
    for value in (
        environment["commit"],
        environment["machine"],
        environment["torch"],
        environment["python"],
        "selfdraft plate",
    ):
        assert str(value) in page.words
