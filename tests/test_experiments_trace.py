"""`selfdraft trace`: every token has the fate its round gave it, and the panel's figures are those of the rounds."""

import io
import json
import re
import sys

import pytest

from experiments.__main__ import main
from experiments.drawing.palette import FATES, fate_entries, legend, paint, sgr
from experiments.watch.cost_panel import WIDTH, nominal_bits, time_lines
from experiments.watch.trace import cells, grid
from micro.checkpoint import load_model, save_model
from quant.bytes import pass_bytes
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.drafts.stored import save_quantized
from specdec.record import Round
from specdec.theory import tokens_per_pass
from tests.byte_model import byte_model

SGR = re.compile(r"\x1b\[([\d;]+)m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


@pytest.fixture
def call(folder, capsys):
    def run(*options):
        line = ["trace", "--prompt", "The attention", "--draft", "rtn3", "--model", str(folder)]
        assert main([*line, *options]) == 0
        return capsys.readouterr().out

    return run


def a_round(drafted, kept, checked, final="", emitted=None):
    n = len(drafted)
    probabilities = tuple((i + 1) / 10 for i in range(n))
    accepted = [drafted[node] for node in kept]
    emitted = tuple(accepted + [99] * bool(final)) if emitted is None else emitted
    return Round(emitted, tuple(drafted), tuple(kept), checked, final, n, n + 1, probabilities,
                 probabilities[::-1], 0.25 if final else None, draft_bytes=10 * n)  # fmt: skip


@pytest.mark.parametrize(
    "done, fates",
    [
        (a_round([1, 2, 3], [0], 2, "correction"), ["accepted", "rejected", "thrown away", "correction"]),
        (a_round([1, 2], [0, 1], 2, "bonus"), ["accepted", "accepted", "bonus"]),
        (a_round([1, 2], [0, 1], 2), ["accepted", "accepted"]),  # no room for a bonus
        (a_round([1, 2, 3], [0], 1), ["accepted", "thrown away", "thrown away"]),  # a stop
        (a_round([1, 2], [], 1, "correction"), ["rejected", "thrown away", "correction"]),
    ],
)  # fmt: skip
def test_every_token_has_its_fate(done, fates):
    row = cells(done)
    assert [cell.fate for cell in row] == fates
    assert sum(cell.fate == "thrown away" for cell in row) == done.thrown_away
    assert [cell.p for cell in row[: done.proposed]] == list(done.p)
    assert [cell.q for cell in row[: done.proposed]] == list(done.q)
    if done.final:
        assert (row[-1].token, row[-1].p, row[-1].q) == (99, 0.25, None)


def test_marks_and_colours_both_tell_fates_apart():
    assert len({fate.mark for fate in FATES.values()}) == len(FATES)
    assert len({sgr(fate.colour) for fate in FATES.values()}) == len(FATES)
    row = cells(a_round([97, 10, 200], [0], 2, "correction"))
    plain, coloured = grid(row, 80, False), grid(row, 80, True)
    assert [SGR.sub("", line) for line in coloured] == plain
    assert plain == [
        r"    +'a'    x'\n'   -'\xc8' >'c'",
        "  p  0.100   0.200   0.300   0.250",
        "  q  0.300   0.200   0.100",
    ]
    fates = ("accepted", "rejected", "thrown away", "correction")
    assert SGR.findall(coloured[0])[::2] == [sgr(FATES[fate].colour) for fate in fates]


def test_the_legend_names_every_mark_in_its_colour():
    plain, coloured = legend(fate_entries(), False), legend(fate_entries(), True)
    assert plain == "+ accepted   x rejected   - thrown away   > correction   * bonus"
    assert SGR.sub("", coloured) == plain
    for name, fate in FATES.items():
        assert paint(f"{fate.mark} {name}", fate.colour, True) in coloured


def test_terminal_colours_are_the_nearest_of_the_cube():
    """0, 95, 135, 175, 215, 255 are the cube's levels: #0072b2 is (0, 95, 175), 16 + 36 x 0 + 6 x 1 + 3."""
    assert sgr("#0072b2") == "38;5;25"
    assert sgr("#ffffff") == "38;5;231" and sgr("#000000") == "38;5;16"


def test_a_narrow_terminal_folds_and_loses_nothing():
    row = cells(a_round([97, 98, 99], [0, 1, 2], 3, "bonus"))
    assert len(grid(row, 80, False)) == 3
    folded = grid(row, 1, False)
    assert len(folded) == 3 * 4
    assert [line.strip() for line in folded[::3]] == ["+'a'", "+'b'", "+'c'", "*'c'"]


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_marks_on_screen_add_up_to_the_panel(call, temperature):
    out = call("-T", temperature)
    data = json.loads(call("-T", temperature, "--json"))
    token_lines = [line for line in out.split("+ accepted")[0].splitlines() if line[:4] == "    "]
    marks = "".join(re.findall(r"(?:^|\s)([-+x>*])(?=['\"])", "\n".join(token_lines)))
    fates = [fate for done in data["rounds"] for fate in done["fates"]]
    assert marks == "".join(FATES[fate].mark for fate in fates)
    totals = data["costs"]["totals"]
    assert fates.count("accepted") == totals["accepted"]
    assert fates.count("accepted") + fates.count("rejected") == totals["checked"]
    assert fates.count("thrown away") == data["costs"]["thrown_away"]
    finals = fates.count("correction") + fates.count("bonus")
    assert fates.count("accepted") + finals == totals["emitted"] == 40
    assert out.count("round ") == totals["rounds"] + 0
    for name in ("proposed", "checked", "accepted", "emitted"):
        mark = re.escape(FATES[name].mark) if name in FATES else " "
        assert re.search(rf"^{mark} {name} +{totals[name]}$", out, re.M)
    for name in FATES:
        assert re.search(rf"^{re.escape(FATES[name].mark)} {name} +{fates.count(name)}$", out, re.M)


def test_the_panel_holds_c_formula_and_speed_up(call, folder):
    data = json.loads(call("--json", "--gamma", "3"))
    costs, totals = data["costs"], data["costs"]["totals"]
    target = load_model(folder)
    draft = quantize_model(target, parse_format("rtn3")).bytes_per_pass
    cache = target.cache_bytes(costs["mean_context"])
    assert costs["c"] == {
        "nominal": 3 / 16,
        "weights": draft / pass_bytes(target),
        "with_cache": (draft + cache) / (pass_bytes(target) + cache),
    }
    for name, c in costs["c"].items():
        expected = totals["emitted"] / (totals["rounds"] + c * totals["draft_passes"])
        assert costs["estimated_speed_up"][name] == pytest.approx(expected, rel=1e-12)
    assert costs["formula"] == tokens_per_pass(totals["accepted"] / totals["checked"], 3)
    assert 13 <= costs["mean_context"] <= 13 + 40
    emitted = [token for done in data["rounds"] for token in done["emitted"]]
    assert len(emitted) == 40 and all(0 <= token < 256 for token in emitted)


def test_a_stored_draft_is_traced_like_its_format(call, folder, tmp_path):
    save_quantized(tmp_path / "d", quantize_model(load_model(folder), parse_format("rtn3")))
    stored = json.loads(call("--json", "--draft", str(tmp_path / "d")))
    named = json.loads(call("--json"))
    assert stored["rounds"] == named["rounds"] and stored["costs"] == named["costs"]


def test_any_other_draft_is_traced_by_its_bytes(call):
    """jacobi reads no weights, so its speed-up is its tokens per pass; bits and a cache are a copy's alone."""
    costs = json.loads(call("--json", "--draft", "jacobi", "-T", "0"))["costs"]
    assert costs["c"] == {"weights": 0.0}
    assert costs["estimated_speed_up"] == {"weights": costs["tokens_per_pass"]}
    assert "bits / 16" not in call("--draft", "jacobi", "-T", "0")


def test_a_tuned_drafts_bits_are_its_formats():
    assert (
        nominal_bits("rtn3+tuned") == nominal_bits("rtn3") == 3 and nominal_bits("jacobi") is None
    )


def test_the_time_line_is_to_scale():
    """13 tokens in 4 rounds with 4, 4, 4 and 3 draft passes of .1 take 4 + 1.5 = 5.5 target passes."""
    rounds = [
        a_round([1] * 4, [0], 2, "correction"),
        a_round([1] * 4, [0, 1], 3, "correction"),
        a_round([1] * 4, [0, 1, 2, 3], 4, "bonus"),
        a_round([1] * 3, [0, 1, 2], 3),
    ]
    _, plain, speculative, _ = time_lines(rounds, 100)
    assert plain.split()[:2] == ["plain", "13.0"] and speculative.split()[:2] == [
        "speculative",
        "5.5",
    ]
    bars = [line.split()[2] for line in (plain, speculative)]
    assert bars[0] == "#" * WIDTH
    assert abs(len(bars[1]) - WIDTH * 5.5 / 13) <= 1  # a character is a whole step
    assert abs(bars[1].count("#") - WIDTH * 4 / 13) <= 4  # each pass rounds by up to one
    assert re.fullmatch(r"(\.+#+){4}", bars[1])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("variable, value", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_on_a_terminal_unless_it_refuses(call, monkeypatch, variable, value):
    plain = call()
    assert "\x1b" not in plain  # no terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screens = []
    for _ in range(2):
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        call()
        screens.append(screen.getvalue())
        monkeypatch.setenv(variable, value)
    assert paint("x", FATES["accepted"].colour, True)[:9] in screens[0] and "\x1b" not in screens[1]
    assert SGR.sub("", screens[0]) == screens[1]


def test_one_column_is_enough(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert "tokens per pass" in call("--gamma", "10", "--lanes", "off")
