"""Figures: drawn from records alone, gaps and foreign versions said, the same bytes each time, no display and no torch."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from made_records import fill, made_result

from experiments import estimate
from experiments.__main__ import main
from experiments.drawing.palette import LOOKS
from experiments.drawing.shown import one_setting, shown
from experiments.drawing.style import SIZE, spread, to_png, to_svg, whiskers
from experiments.figures import FIGURES
from experiments.plot import draw, figures_of
from experiments.store import Store

ROOT = Path(__file__).resolve().parents[1]
EVERY = pytest.mark.parametrize("name", FIGURES)


@pytest.fixture
def records(tmp_path) -> list[dict]:
    return fill(tmp_path).of(estimate.NAME)


def words(figure) -> str:
    """All text of a figure."""
    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


@EVERY
def test_every_figure_says_what_it_shows(records, name):
    figure = FIGURES[name](records)
    said = words(figure)
    for draft in estimate.DRAFTS:
        assert draft in said
    assert "6 prompts" in said and "95%" in said
    assert "Not measured" not in said and "No value" not in said
    assert FIGURES[name].__doc__


@EVERY
def test_text_is_large_enough_for_a_readme(records, name):
    """Shown 800 pixels wide, 8 inches across: 9 points are 12.5 pixels."""
    figure = FIGURES[name](records)
    assert figure.get_size_inches()[0] == 8
    sizes = [t.get_fontsize() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]
    assert min(sizes) >= SIZE == 9


def test_speed_up_names_its_c_and_draws_the_line_at_1(records):
    figure = FIGURES["speed-up"](records)
    assert "c by weight bytes: rtn4 0.280" in words(figure).replace("\u00a0", " ")
    for axes in figure.axes:
        assert any(set(line.get_ydata()) == {1} for line in axes.lines)


def test_tokens_per_pass_draws_measured_formula_and_ceiling(records):
    figure = FIGURES["tokens-per-pass"](records)
    found = shown(records)
    assert len(figure.axes) == 3
    for axes, temperature in zip(figure.axes, found.temperatures):
        drawn = [np.asarray(line.get_ydata()) for line in axes.lines]
        for one in found.at(temperature):
            for expected in (one.tokens_per_pass[0], one.formula[0]):
                assert any(y.shape == expected.shape and np.allclose(y, expected) for y in drawn)
        ceiling = axes.lines[-1]
        assert np.allclose(ceiling.get_ydata(), np.asarray(ceiling.get_xdata()) + 1)
        assert len(axes.collections) == 3  # a band for each draft


def test_drafts_differ_in_marker_as_well_as_colour():
    assert (
        len({colour for colour, _ in LOOKS}) == len({marker for _, marker in LOOKS}) == len(LOOKS)
    )


@EVERY
def test_a_missing_point_is_a_gap_and_is_said(records, name):
    assert "Not measured: absmax3 at T = 1.0." in words(FIGURES[name](records[:-1])).replace(
        "\u00a0", " "
    )


@EVERY
def test_null_values_are_a_gap_and_are_said(records, name):
    for row in records[0]["result"]["accepted"]:
        row[2] = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = FIGURES[name](records)
        to_png(figure)
    assert "No value: rtn4 at T = 0.0, γ = 3." in words(figure).replace("\u00a0", " ")


@EVERY
def test_nothing_but_nulls_is_a_message(records, name):
    for record in records:
        record["result"]["accepted"] = [[None] * 5] * 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = FIGURES[name](records)
        to_png(figure)
    assert "No finished records" in words(figure)


@pytest.mark.parametrize("spoil", [
    lambda r: r["result"].pop("accepted"), lambda r: r["result"].update(rounds="many"), lambda r: r["result"].update(c=None),
    lambda r: r["result"].update(c={"weights": None}), lambda r: r["result"].update(accepted=[[1.0]]),
    lambda r: r["result"].update(kinds=["lesson"]), lambda r: r["result"].update(prompts=[]),
])  # fmt: skip
def test_a_record_of_another_shape_is_named_and_left_out(records, spoil):
    spoil(records[0])
    found = shown(records)
    assert [note[:31] for note in found.notes] == ["Cannot be read: rtn4 at T = 0.0"]
    assert len(found.curves) == len(records) - 1


@EVERY
@pytest.mark.parametrize("count", [0, 1])
def test_no_records_and_a_single_one_are_drawn(records, name, count):
    figure = FIGURES[name](records[:count])
    assert len(to_png(figure)) > 1000
    assert ("No finished records" in words(figure)) == (count == 0)


@EVERY
@pytest.mark.parametrize("accepted", [0.0, 8.0])
def test_single_prompt_single_gamma_nothing_or_all_accepted(records, name, accepted):
    """No spread, no slope, alpha 0 or 1: still a figure, and no warning."""
    record = records[0]
    one = [[8.0]]
    record["result"] = made_result(0.0, prompts=1) | {
        "gammas": [1], "rounds": one, "checked": one, "full_rounds": [[accepted]], "accepted": [[accepted]],
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(to_png(FIGURES[name]([record]))) > 1000


@EVERY
def test_zero_checked_is_a_gap_without_a_warning(records, name):
    for row in records[0]["result"]["checked"]:
        row[0] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = words(FIGURES[name](records))
    assert "No value: rtn4" in said


@EVERY
def test_another_version_draws_a_warning(tmp_path, name):
    old = fill(tmp_path, version=estimate.VERSION + 1).of(estimate.NAME)
    said = words(FIGURES[name](old)).replace("\u00a0", " ").replace("\n", " ")
    assert f"Made by version {estimate.VERSION + 1} of the experiment" in said


def test_settings_are_never_mixed_the_last_is_shown(tmp_path):
    store = fill(tmp_path)
    point = estimate.POINTS[0]
    newer = store.append(
        estimate.NAME, {"version": 1, "weights": "other", **point}, point, "ok", made_result(0.0)
    )
    newer["environment"]["time"] = "9999-01-01T00:00:00Z"
    chosen, notes = one_setting(store.of(estimate.NAME), estimate.VERSION)
    assert chosen == [newer]
    assert notes == ["Not shown: 9 records of other settings in the same folder."]


def test_a_dollar_in_a_draft_s_name_is_a_dollar(tmp_path):
    points = [{"draft": "a$_$<b>&", "temperature": 1.0}]
    records = fill(tmp_path, points=points).of(estimate.NAME)
    for figure in FIGURES.values():
        assert len(to_png(figure(records))) > 1000


def test_more_drafts_than_colours_are_drawn(tmp_path):
    points = [{"draft": f"draft{i}", "temperature": 1.0} for i in range(len(LOOKS) + 2)]
    records = fill(tmp_path, points=points).of(estimate.NAME)
    assert f"draft{len(LOOKS) + 1}" in words(FIGURES["speed-up"](records))


def test_redrawing_gives_the_same_bytes(records, tmp_path):
    store = Store(tmp_path)
    first = draw("estimate", store.of("estimate"), tmp_path / "one")
    second = draw("estimate", store.of("estimate"), tmp_path / "two")
    assert [p.name for p in first] == [f"{n}.{e}" for n in FIGURES for e in ("png", "svg")]
    for one, two in zip(first, second):
        content = one.read_bytes()
        assert content == two.read_bytes()
        assert len(content) > 1000
        assert not re.search(rb"<dc:date>|20\d\d-\d\d-\d\dT|tIME", content)


def test_sixty_figures_leave_no_warning_and_no_figure_behind(records):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            FIGURES["alpha"](records[:3])
    gc.collect()
    assert sum(type(o) is matplotlib.figure.Figure for o in gc.get_objects()) == 0


def test_drawing_changes_no_setting_of_the_caller(records):
    before = dict(matplotlib.rcParams)
    to_svg(FIGURES["alpha"](records), "alpha")
    assert dict(matplotlib.rcParams) == before


def test_the_user_s_own_style_does_not_come_in(records):
    plain = to_png(FIGURES["alpha"](records))
    with matplotlib.rc_context(
        {"font.size": 30, "axes.grid": False, "savefig.dpi": 10, "lines.linewidth": 9}
    ):
        assert to_png(FIGURES["alpha"](records)) == plain


def test_labels_keep_apart_and_keep_their_order():
    values = [1.0, 1.01, 5.0, 0.99, 5.2]
    places = spread(values, 0.5)
    in_order = [places[i] for i in np.argsort(values)]
    assert (np.diff(in_order) >= 0.5 - 1e-9).all()
    assert places[1] > places[0] > places[3]
    assert spread([1.0, 3.0], 0.5) == [1.0, 3.0]
    assert spread([], 1.0) == []


def test_an_interval_that_misses_its_estimate_has_no_negative_whisker():
    assert whiskers(np.array([2.0]), np.array([1.0]), np.array([3.0])).tolist() == [[0.0], [2.0]]


@pytest.mark.parametrize(
    "environment",
    [
        {"DISPLAY": None, "MPLBACKEND": None},
        {"DISPLAY": "bad:9", "MPLBACKEND": "TkAgg", "HOME": "/proc", "XDG_CONFIG_HOME": "/proc", "XDG_CACHE_HOME": "/proc"},
    ],
    ids=["no-display", "wrong-display-backend-and-home"],
)  # fmt: skip
def test_the_command_needs_no_torch_no_display_and_no_home(records, tmp_path, environment):
    """In a fresh interpreter; no torch, no pyplot, no window toolkit among what it imported."""
    code = (
        "import sys; from experiments.__main__ import main; code = main(['plot', '--records', sys.argv[1]]); "
        "print([m for m in ('torch', 'matplotlib.pyplot', 'tkinter') if m in sys.modules], code)"
    )
    env = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[] 0"
    assert len(done.stdout.splitlines()) == 2 * len(FIGURES) + 1
    assert all(p.stat().st_size > 1000 for p in tmp_path.glob("*.png"))


def test_every_experiment_s_reference_figures_are_drawn_from_the_reference_s_records(tmp_path):
    """Each file that the command draws stands in the reference, and no figure stands there that it does not draw."""
    reference = ROOT / "experiments" / "reference"
    assert main(["plot", "--records", str(reference), "--out", str(tmp_path)]) == 0
    drawn, kept = (
        {path.name for path in folder.iterdir() if path.suffix in (".png", ".svg")}
        for folder in (tmp_path, reference)
    )
    assert drawn == kept - {"page.png"}


def test_no_experiment_s_figures_need_torch():
    code = "import sys; from experiments.plot import DRAWN, figures_of; [figures_of(n) for n in DRAWN]; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)  # fmt: skip
    assert done.stdout.strip() == "False", done.stderr


def test_of_several_settings_the_last_is_shown_each_point_once():
    def record(draft, time, **inputs):
        inputs = {"draft": draft, **inputs}
        return {"point": {"draft": draft}, "inputs": inputs, "environment": {"time": time}}

    old = [record("a", "1", seeds=[1]), record("b", "2", seeds=[1])]
    new = [record("a", "3", seeds=[1, 2]), record("b", "4", seeds=[1, 2])]
    kept, notes = one_setting(old + new)
    assert kept == new and "2 records of other settings" in notes[0]
    assert one_setting(new) == (new, []) and one_setting([]) == ([], [])
    # inputs that belong to a point part no settings; of a point measured with another one the newer record stands
    mixes = [record("a", "1", mix="x"), record("b", "2", mix="y"), record("a", "3", mix="z")]
    assert one_setting(mixes)[0] == mixes[2:]
    assert one_setting(mixes, own=("mix",))[0] == mixes[1:]
    runs = [record("a", "1", steps=1, text="t"), record("b", "2", steps=2, text="t")]
    assert one_setting(runs, shared=("text",)) == (runs, [])


REFERENCE_FILES = {name: f"{name}.jsonl" for name in ("loop", "lanes", "ladder", "sensitivity", "tuned", "zoo", "trees",
                                                      "shared", "lengths", "recipe", "text-amount")}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE_FILES)
def test_what_an_interrupted_run_left_is_drawn(name):
    """The first and the last records alone, and a few of them."""
    path = ROOT / "experiments" / "reference" / REFERENCE_FILES[name]
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    records = [record for record in records if record["experiment"] == name]
    for part in (records[:1], records[:4], records[-1:], records[1::3]):
        for figure in figures_of(name).values():
            assert len(to_png(figure(part))) > 1000


def test_a_record_that_cannot_be_read_is_told_and_the_other_figures_are_drawn(tmp_path, capsys):
    for name in ("loop", "shared"):
        lines = (ROOT / "experiments" / "reference" / f"{name}.jsonl").read_text().splitlines()
        record = json.loads(lines[0])
        if name == "loop":
            record["result"] = {}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    assert main(["plot", "--records", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "shared.png" in out and "loop.png" not in out
    assert "plot: loop: not drawn" in err and "Traceback" not in err and err.count("\n") == 1


def test_figures_of_fresh_records_are_those_of_records_read_again(tmp_path):
    """Key by key in the same order: what was just measured lies in memory as the next run will read it."""
    store = Store(tmp_path)
    made = store.append("x", {"b": 1, "a": 2}, {"z": 1}, "ok", {"fixed": 1, "+2": {"d": 1, "c": 2}})
    assert json.dumps(made) == json.dumps(Store(tmp_path).of("x")[0])


def test_wrong_input_is_one_line_that_names_it(tmp_path, capsys):
    assert main(["plot", "--records", str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1 and str(tmp_path / "none") in said.err


def test_an_output_that_cannot_be_written_is_one_line_and_harms_nothing(records, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["plot", "--records", str(tmp_path), "--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and str(tmp_path / "file") in said.err
    assert (tmp_path / "file").read_text() == "mine"


def test_the_command_warns_of_versions_and_torn_lines(tmp_path, capsys):
    fill(tmp_path, version=estimate.VERSION + 1)
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"schema": 1, "ke')
    assert main(["plot", "--records", str(tmp_path)]) == 0
    torn, version = capsys.readouterr().err.splitlines()
    assert "torn" in torn and f"version {estimate.VERSION + 1}" in version
