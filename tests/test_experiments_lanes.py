"""The lane study: nothing differs in lanes, what differs without is counted where it lies, and each verdict can turn."""

from __future__ import annotations

import json

import matplotlib
import pytest
import torch

from experiments import plot
from experiments.__main__ import main
from experiments.drawing.style import SIZE, to_png
from experiments.identity.comparison import plain_text
from experiments.identity.controls import PLANTS
from experiments.identity.counts import Counts
from experiments.lanes import cost as lanes_cost
from experiments.lanes import study as lanes_study
from experiments.lanes.figure import forks
from experiments.lanes.points import DTYPES, GAMMAS, POINTS
from experiments.lanes.study import LaneSetting, in_type, quarter, starts
from experiments.lanes.table import below, edges, lines, quantile, report, without
from experiments.paths import DATA, WEIGHTS
from experiments.prompts import Prompt, load_prompts
from experiments.store import Store
from micro.checkpoint import save_model
from micro.sampling import Sampling
from tests.byte_model import byte_model, twin_model

PROMPTS = [Prompt("a", "free", b"The attention"), Prompt("b", "copy", b"1, 2, 3, ")]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def setting_of(model, texts=2, new_tokens=20) -> LaneSetting:
    setting = LaneSetting(
        None, starts(PROMPTS, texts, new_tokens, model.context), new_tokens=new_tokens
    )
    setting.model = model
    return setting


def point(lanes, gammas, dtype="float32", threads=1) -> dict:
    return {"dtype": dtype, "threads": threads, "lanes": lanes, "gammas": list(gammas)}


def total(result) -> Counts:
    return sum((Counts(**one) for one in result["counts"].values()), Counts())


def test_texts_start_all_over_the_context_and_run_into_its_end():
    found = starts(PROMPTS, 5, 16, 96)
    assert [len(p.tokens) for p in found] == [16, 32, 48, 64, 80, 88, 94, 92, 95]
    assert found[0].text == b"The attention1, 2, 3, "[:16]
    assert {p.kind for p in found} == {"free", "copy"}
    with pytest.raises(ValueError, match="--tokens 96 do not fit a context of 96"):
        starts(PROMPTS, 5, 96, 96)


def test_by_default_200_000_tokens_are_compared_in_lanes():
    prompts = load_prompts(DATA / "prompts.jsonl")
    texts = starts(prompts, lanes_study.TEXTS, lanes_study.NEW_TOKENS, 512)
    tokens = sum(min(lanes_study.NEW_TOKENS, 512 - len(p.tokens)) for p in texts)
    padded = [p for p in POINTS if p["lanes"]]
    assert tokens * sum(len(p["gammas"]) for p in padded) >= 200_000
    assert {(p["dtype"], p["threads"]) for p in padded} == {(d, t) for d in DTYPES for t in (1, 2)}
    assert sorted(GAMMAS[16] + GAMMAS[24]) == list(range(1, 17))
    assert all(max(gammas) < lanes for lanes, gammas in GAMMAS.items() if lanes)
    assert any(len(p.tokens) == 511 for p in texts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_model_computes_in_its_type_from_weights_to_law(dtype):
    """In float64, 96 tokens one by one and all at once agree to 1e-11, logits being of size 10: one step in float32 would
    leave 1e-6. In float32 and bfloat16 they must not, or this test would see nothing."""
    model, wanted = in_type(byte_model(), dtype), getattr(torch, dtype)
    plain = plain_text(model, PROMPTS[0].tokens, 80, 8)
    assert plain.logits[0].dtype == plain.cache.keys.dtype == plain.cache.values.dtype == wanted
    whole = model(torch.tensor([[*plain.prompt, *plain.tokens[:-1]]]))[0][
        0, len(plain.prompt) - 1 :
    ]
    assert whole.dtype == wanted
    apart = float((whole.double() - torch.stack(plain.logits).double()).abs().max())
    assert (apart < 1e-11) if dtype == "float64" else (1e-7 < apart < 1)
    law = Sampling(0.7, 20, 0.9).probs(plain.logits[0])
    assert law.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert byte_model().dtype == torch.float32  # the copy alone changed


@pytest.mark.parametrize("dtype, threads, lanes, gammas", [
    ("float32", 1, 16, (1, 15)), ("float64", 1, 24, (16,)), ("bfloat16", 1, 16, (4,)), ("float32", 2, 16, (3,)),
])  # fmt: skip
def test_in_lanes_nothing_differs(dtype, threads, lanes, gammas):
    setting = setting_of(twin_model(), 1, 12)
    result = lanes_study.run(point(lanes, gammas, dtype, threads), setting)
    assert torch.get_num_threads() == threads
    counts = total(result)
    room = [min(12, 96 - len(p.tokens)) for p in setting.prompts]
    assert counts.tokens == counts.rows == sum(room) * len(gammas)
    assert counts.texts == len(room) * len(gammas) and counts.entries > 0
    assert counts.identical is True and result["forks"] == [] and result["gaps"] == {}
    assert result["unsafe"] == []
    assert sum(result["margins"].values()) == sum(room)


def test_without_lanes_forks_are_found_where_the_margin_is_a_rounding():
    result = lanes_study.run(point(0, (2, 4)), setting_of(twin_model()))
    counts = total(result)
    assert counts.identical is False and len(result["forks"]) == counts.texts_differing > 0
    for gamma, text, place, margin in result["forks"]:
        assert gamma in (2, 4) and 0 <= text < 6 and 0 <= place < 20
        assert 0 <= margin < 1e-4  # twins: logits of size 10, some roundings of 1e-6 apart
    assert sum(result["gaps"].values()) == counts.rows_differing > 0
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_bins_are_quarters_of_a_power_of_ten():
    assert [quarter(x) for x in (0.002, 1.0, 9.9, 0.0, None, float("nan"))] == [
        "-2.75", "0", "0.75", "zero", "none", "none",
    ]  # fmt: skip
    bins = {"0": 1, "zero": 2, "-3": 4, "none": 9}
    assert [count for _, count in edges(bins)] == [2, 4, 1]
    assert quantile(bins, 0.2) == 0 and quantile(bins, 0.5) == pytest.approx(10**-2.875)
    assert quantile(bins, 1) == pytest.approx(10**0.125) and quantile({}, 0.5) is None
    assert below(bins, quantile(bins, 0.5)) == 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


@pytest.fixture
def few_points(monkeypatch):
    monkeypatch.setattr(lanes_study, "POINTS", [point(8, (3,)), point(0, (3,))])
    monkeypatch.setattr(lanes_cost, "POINTS", [{"dtype": "float32"}])
    monkeypatch.setattr(lanes_cost, "WIDTHS", (8,))
    monkeypatch.setattr(lanes_cost, "TOKENS", 2)


def command(folder, out, *more):
    sizes = ["--texts", "1", "--tokens", "8", "--repeats", "2"]
    return main(["run", "lanes", "--model", str(folder), "--out", str(out), *sizes, *more])


def test_the_command_prints_tables_and_does_not_measure_twice(folder, tmp_path, few_points, capsys):
    assert command(folder, tmp_path / "out") == 0
    out = capsys.readouterr().out
    assert "identical: yes. In lanes: 0 of 5 texts" in out and "Measured 3 points" in out
    assert "controls: planted on both sides and noticed" in out and "a pass of 5 rows" in out
    for ending in ("png", "svg"):
        assert (tmp_path / "out" / f"lanes.{ending}").stat().st_size > 10_000
    assert command(folder, tmp_path / "out", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["identical"] is True and found["total"]["tokens"] == 8 + 4 + 1 + 4 + 1
    assert found["controls"] == dict.fromkeys(PLANTS, True) and "Measured 0 points, 3 were" in err
    assert found["without_lanes"][0]["rows_share"] > 0
    record = Store(tmp_path / "out").of("lanes")[0]
    assert record["environment"]["dtype"] == "float32" and record["inputs"]["lanes"] == 8
    assert list(found["cost"][0]["ratios"]["a pass of 1 row"]) == ["8"]


@pytest.fixture
def no_figure(monkeypatch):
    monkeypatch.setattr(plot, "draw", lambda name, records, out: [out / "lanes.png"])


def test_a_difference_in_lanes_exits_1(
    folder, tmp_path, few_points, no_figure, capsys, monkeypatch
):
    def unpadded(model, prompt, new_tokens, lanes):
        return plain_text(model, prompt, new_tokens, 0)

    monkeypatch.setattr(lanes_study, "plain_text", unpadded)
    torch.set_num_threads(2)
    assert command(folder, tmp_path) == 1
    assert torch.get_num_threads() == 2  # the points set their own
    assert "identical: NO" in capsys.readouterr().out


def test_a_lane_that_differs_makes_no_claim(
    folder, tmp_path, few_points, no_figure, capsys, monkeypatch
):
    monkeypatch.setattr(lanes_study, "probe", lambda model, lanes: (3,))
    assert command(folder, tmp_path) == 1
    out = capsys.readouterr().out
    assert "no claim. In lanes" in out and "lanes [3] of 8" in out


def test_a_model_of_zeros_makes_no_claim(tmp_path, few_points, no_figure, capsys):
    model = byte_model()
    for parameter in model.parameters():
        parameter.zero_()
    save_model(tmp_path / "zeros", model)
    assert command(tmp_path / "zeros", tmp_path / "out") == 1
    out = capsys.readouterr().out
    assert "no claim. In lanes: 0 of 5 texts, 0 of 18 rows" in out
    assert "dead: 3 texts, 18 rows, " in out  # two of the five texts have one new token only


def test_a_control_that_passes_unnoticed_makes_no_claim():
    result = lanes_study.run(point(8, (3,)), setting_of(byte_model(), 1, 4))
    record = {"point": point(8, (3,)), "result": result, "inputs": {"torch": "x"}}
    assert report([record], [], {"a": True})["identical"] is True
    found = report([record], [], {"a": True, "b": False})
    assert found["identical"] is None
    assert "NOT noticed when planted on both sides: b" in "\n".join(lines(found))


def made(lanes, dtype, forked, version=lanes_study.VERSION) -> dict:
    counts = Counts(
        texts=4, texts_differing=forked, tokens=40, rows=40, rows_differing=10 * forked, entries=9
    )
    result = {
        "lengths": [16, 17, 18, 19], "unsafe": [], "counts": {"1": vars(counts), "4": vars(counts)},
        "forks": [[1, 0, 6, 0.002]] * forked + [[4, 0, 8, 0.004]] * forked,
        "gaps": {"-3": 20} if forked else {}, "margins": {"zero": 1, "-2.75": 9, "0.25": 30},
    }  # fmt: skip
    inputs = {"version": version, "new_tokens": 10, "torch": "2", **point(lanes, (1, 4), dtype)}
    return {
        "point": point(lanes, (1, 4), dtype),
        "inputs": inputs,
        "result": result,
        "environment": {"time": ""},
    }


def test_what_happens_without_lanes_is_summed_up():
    found = without(made(0, "bfloat16", 1))
    assert found["rows_share"] == found["texts_share"] == 0.25
    assert found["median_place"] == 7 and found["earliest_place"] == 6
    assert found["median_margin"] == pytest.approx(0.003) and found["largest_margin"] == 0.004
    assert found["median_gap"] == pytest.approx(10**-2.875) and found["close_rows_share"] == 1 / 40
    calm = without(made(0, "float64", 0))
    assert calm["median_gap"] is calm["median_place"] is calm["largest_margin"] is None


def words(figure) -> str:
    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def test_the_figure_says_what_it_shows_in_letters_large_enough():
    records = [made(0, "float32", 0), made(0, "bfloat16", 2), made(16, "float32", 0)]
    figure = forks(records)
    said = words(figure)
    assert "float32" in said and "bfloat16" in said and "float64" not in said
    assert "4 texts of at most 10 new tokens" in said.replace("\n", " ")
    assert "In fixed lanes 0 of 80 rows differ." in said.replace("\n", " ")
    sizes = [t.get_fontsize() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]
    assert min(sizes) >= SIZE and figure.get_size_inches()[0] == 8
    rows, texts, places, margins = figure.axes
    assert (
        places.lines[1].get_ydata().tolist() == [0.0] * 6 + [0.25] * 2 + [0.5] * 2
    )  # 4 of 8 texts
    assert "forks, but for the 0 of 4 at exact ties" in said.replace("\n", " ").replace("\xa0", " ")
    assert [line.get_ydata().tolist() for line in texts.lines] == [[0.0, 0.0], [0.5, 0.5]]
    assert [line.get_ydata().tolist() for line in rows.lines] == [[0.0, 0.0], [0.5, 0.5]]
    assert to_png(figure) == to_png(forks(records))


def test_the_figure_tells_of_other_versions_and_of_nothing_to_draw():
    assert "version 0" in words(forks([made(0, "float32", 1, version=0)]))
    assert "selfdraft run lanes" in words(forks([])) and "selfdraft run lanes" in words(
        forks([made(16, "float32", 0)])
    )


def micro_setting(texts, new_tokens) -> LaneSetting:
    setting = LaneSetting(WEIGHTS, load_prompts(DATA / "prompts.jsonl"), new_tokens=new_tokens)
    setting.prompts = starts(setting.prompts, texts, new_tokens, setting.model.context)
    return setting


def test_the_micro_that_ships_is_identical_in_lanes():
    result = lanes_study.run(point(16, (4, 15)), micro_setting(2, 48))
    counts = total(result)
    assert counts.tokens == 2 * (48 + 48 + 24 + 6 + 4 + 1)
    assert counts.identical is True and result["unsafe"] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_micro_that_ships_is_identical_in_every_type(dtype, threads):
    setting = micro_setting(6, 96)
    for lanes, gammas in ((16, (1, 2, 7, 15)), (24, (16,))):
        result = lanes_study.run(point(lanes, gammas, dtype, threads), setting)
        assert total(result).identical is True and result["unsafe"] == []
    result = lanes_study.run(point(0, (7,), dtype, threads), setting)
    assert total(result).rows_differing > 0.5 * total(result).rows  # why lanes are needed
