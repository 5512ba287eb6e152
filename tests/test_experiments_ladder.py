"""The ladder from end to end on a tiny model, what is chosen where, the figures' geometry, and the laws on made-up drafts."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from experiments import estimate
from experiments.__main__ import main
from experiments.drawing.label_places import places
from experiments.halves import halves, thinned
from experiments.ladder import run as ladder_run
from experiments.ladder.command import found_points
from experiments.ladder.error_laws import fits, groups
from experiments.ladder.frontier import alphas_for
from experiments.ladder.points import LADDER, MIXES
from experiments.ladder.rates import Rates, Rung, winner, winners
from experiments.paths import DATA, WEIGHTS
from experiments.prompts import Prompt, load_prompts
from experiments.setting import Setting
from experiments.stats import Interval
from micro.checkpoint import save_model
from quant.formats import parse_format
from specdec.theory import best_gamma
from tests.byte_model import byte_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model and eight prompts from four plates, two of them of one kind."""
    folder = tmp_path_factory.mktemp("ladder")
    save_model(folder / "model", byte_model())
    rows = [{"id": "plate", "kind": "lesson", "text": "The attention"}]
    for plate, kind in (("01-6", "lesson"), ("02-6", "free"), ("03-6", "lesson"), ("04-6", "free")):
        rows += [{"id": f"{plate}-{n}", "kind": kind, "text": f"{plate} says {n}"} for n in (1, 2)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "prompts.jsonl").write_text(lines)
    return folder


def setting(folder) -> Setting:
    prompts = load_prompts(folder / "prompts.jsonl")
    return Setting(folder / "model", prompts, window=16, seeds=(1,), most_gamma=24, texts_kept=3)


def command(folder, out, *more) -> list[str]:
    base = ["--model", str(folder / "model"), "--prompts", str(folder / "prompts.jsonl")]
    return ["run", "ladder", *base, "--window", "16", "--out", str(out), *more]


# --- what is chosen where -----------------------------------------------------------------------------


def test_no_plate_is_in_both_halves_and_kinds_are_balanced():
    found = SimpleNamespace(prompts=load_prompts(DATA / "prompts.jsonl"))
    parts = [[found.prompts[i] for i in half] for half in halves(found.prompts)]
    plates = [{p.id.rpartition("-")[0] for p in half} for half in parts]
    assert not plates[0] & plates[1] and len(plates[0]) == len(plates[1]) == 12
    for half in parts:
        assert [sum(p.kind == k for p in half) for k in ("lesson", "copy", "free")] == [32, 32, 32]
    assert "plate" not in {p.id for half in parts for p in half}


def test_thinned_prompts_keep_every_plate():
    prompts = load_prompts(DATA / "prompts.jsonl")
    few = thinned(prompts, 4)
    assert [p.id for p in few[:5]] == ["plate", "01-6-1", "01-6-5", "02-6-1", "02-6-5"]
    assert len(few) == 1 + 2 * 24 and thinned(prompts, 1) == prompts


def test_prompts_of_one_plate_cannot_be_parted():
    one = SimpleNamespace(prompts=[p for p in load_prompts(DATA / "prompts.jsonl") if p.id.startswith("01-6")])  # fmt: skip
    with pytest.raises(ValueError, match="prompts of two plates"):
        halves(one.prompts)


def test_the_best_gamma_by_hand():
    """At c = .25: (1 + 1) / 1.25 = 1.6, (1 + 1.5) / 1.5 = 1.67, (1 + 1.7) / 1.75 = 1.54."""
    counts = {"rounds": [10.0, 10.0, 10.0], "accepted": [10.0, 15.0, 17.0]}
    assert ladder_run.best_gamma(counts, 0.25) == 2
    assert ladder_run.best_gamma(counts, 0.0) == 3


@pytest.fixture(scope="module")
def measured(folder) -> tuple[Setting, dict]:
    found = setting(folder)
    return found, ladder_run.run({"draft": "rtn3"}, found)


def test_a_rung_s_counts_are_the_estimate_s_on_the_reporting_prompts(measured):
    """The same texts through the plate's experiment: equal to the four digits that are kept."""
    found, result = measured
    reporting = [found.prompts[i] for i in halves(found.prompts)[1]]
    other = Setting(found.model_dir, reporting, window=16, seeds=(1,), most_gamma=24)
    for temperature in (0.0, 1.0):
        part = result["temperatures"][f"{temperature:g}"]
        beside = estimate.run({"draft": "rtn3", "temperature": temperature}, other)
        for name in ("rounds", "accepted", "checked"):
            column = [row[part["gamma"] - 1] for row in beside[name]]
            assert part["reporting"][name] == pytest.approx(column, rel=6e-4)
        shared = [sum(row[3] for row in beside[name]) for name in ("accepted", "checked")]
        assert [part["shared"][1][n] for n in ("accepted", "checked")] == pytest.approx(shared)
        beta = sum(row[0] for row in beside["overlap"]) / (16 * len(reporting))
        assert part["overlap"][1] == pytest.approx(beta, rel=1e-5)
    assert result["c"]["weights"] == beside["c"]["weights"]


def test_gamma_comes_from_the_choosing_prompts_alone(measured):
    found, result = measured
    for part in result["temperatures"].values():
        assert part["gamma"] == ladder_run.best_gamma(part["choosing"], result["c"]["weights"])
        assert part["cached"]["gamma"] == ladder_run.best_gamma(part["choosing"], result["c"]["with_cache"])  # fmt: skip


def test_kl_and_agreement_by_hand(measured):
    found, _ = measured
    texts = found.texts(1.0)
    same = ladder_run.distances(texts, texts.laws, found)
    assert same == {"kl": [0, 0], "agreement": [1, 1]}
    # q = half p, half uniform; first choices stay; KL of one position by its definition
    q = (texts.laws + 1 / 256) / 2
    p = texts.laws[:, :16].double()
    kl = torch.special.xlogy(p, p / q[:, :16].double()).sum(-1).mean(1).numpy()
    found_kl = ladder_run.distances(texts, q, found)
    for half, value in zip(halves(found.prompts), found_kl["kl"]):
        assert value == pytest.approx(kl[half].mean(), rel=1e-5)
    assert found_kl["agreement"] == [1, 1]


def test_the_error_of_the_weights_is_what_the_report_adds_up_to(measured):
    found, result = measured
    draft = found.draft("rtn3")
    error = signal = 0.0
    for name, q in draft.packed.items():
        weight = found.model.get_parameter(name).double()
        error += float((weight - q.dequantize().double()).square().sum())
        signal += float(weight.square().sum())
    assert result["relative_squared_error"] == pytest.approx(error / signal, rel=1e-9)


# --- the command --------------------------------------------------------------------------------------


def test_the_command_measures_once_and_draws(folder, tmp_path, capsys):
    out = tmp_path / "out"
    only = ["--only", "rtn4,mse3-fp8+gptq,had+mse2"]
    assert main(command(folder, out, *only, "--json")) == 0
    first = json.loads(capsys.readouterr().out)
    assert [one["draft"] for one in first["rungs"]] == ["rtn4", "mse3-fp8+gptq", "had+mse2"]
    for one in first["rungs"]:
        assert set(one["temperatures"]) == {"0", "0.5", "1"}
        at = one["temperatures"]["1"]["speed_up"]
        assert at["low"] <= at["value"] <= at["high"]
    assert {p.name for p in out.glob("*.png")} == {"frontier.png", "error-laws.png"}
    assert main(command(folder, out, *only)) == 0
    text = capsys.readouterr().out
    assert "Measured 0 points, 3 were on record" in text and "Best of all:" in text
    assert "up to 3.5 bits per weight: mse3-fp8+gptq" in text
    assert main(command(folder, out, *only, "--markdown")) == 0
    table = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[1] for row in table[2:]] == ["had+mse2", "mse3-fp8+gptq", "rtn4"]
    assert len({row.count("|") for row in table}) == 1


def test_a_format_that_does_not_exist_is_refused(folder, tmp_path, capsys):
    assert main(command(folder, tmp_path / "out", "--only", "rtn4,xyz3")) == 2
    said = capsys.readouterr().err
    assert "unknown format 'xyz3'" in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()
    for nothing in (",", ""):
        assert main(command(folder, tmp_path / "out", "--only", nothing)) == 2


def test_a_mix_that_was_not_searched_for_is_left_out_and_told_of(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(MIXES, "mix-3.25", tmp_path / "missing.json")
    shipped = Setting(WEIGHTS, [])
    names = [point["draft"] for point in found_points(shipped)]
    assert names == [name for name in LADDER if name != "mix-3.25"]
    said = capsys.readouterr().err
    assert "mix-3.25 is left out" in said and said.count("\n") == 1


def test_tuned_copies_of_another_model_are_left_out_and_told_of(folder, capsys):
    names = [point["draft"] for point in found_points(Setting(folder / "model", []))]
    assert names == [name for name in LADDER if not name.endswith("+tuned")]
    said = capsys.readouterr().err
    assert "rtn3+tuned is left out" in said and "make a draft of its own by `selfdraft tune" in said


def test_a_tuned_copy_is_a_rung_like_any_other():
    """At the bytes of its format, closer to the target, and its content is part of the key."""
    rows = [Prompt(f"{plate}-{i}", "copy", b"The attention") for plate in "ab" for i in range(2)]
    setting = Setting(WEIGHTS, rows, window=8, seeds=(1,), most_gamma=4, texts_kept=3)
    tuned, plain = (ladder_run.run({"draft": d}, setting) for d in ("rtn2+tuned", "rtn2"))
    assert tuned["c"] == plain["c"] and tuned["bits_per_weight"] == plain["bits_per_weight"] == 2.5
    assert tuned["kl"][1] < plain["kl"][1] / 2
    tuned, plain = (ladder_run.identity({"draft": d}, setting) for d in ("rtn2+tuned", "rtn2"))
    assert tuned["tuned"] and "tuned" not in plain


def test_the_ladder_has_some_fifty_rungs_over_all_that_exists():
    assert 40 <= len(LADDER) == len(set(LADDER)) <= 55
    formats = [parse_format(name) for name in LADDER if name not in MIXES and "+tuned" not in name]
    assert {f.bits for f in formats} == {2, 3, 4, 5, 6, 8}
    assert {f.group for f in formats} == {16, 32, 64, 128}
    assert {f.scale for f in formats} == {"fp16", "fp8", "e8m0"}
    assert {f.scheme for f in formats} == {"rtn", "absmax", "minmax", "mse", "nf", "fp"}
    for flag in ("rotated", "weighed", "compensated"):
        assert any(getattr(f, flag) for f in formats)


# --- winners, laws ------------------------------------------------------------------------------------


def made(draft: str, bits: float, chosen: float, lost: tuple[float, float], error: float, kl) -> Rung:  # fmt: skip
    one = Interval(2.0, 1.9, 2.1)
    rates = Rates(4, one, one, one, chosen, 0.9, 4, 1.5)
    c = {"nominal": bits / 16, "weights": bits / 16, "with_cache": bits / 14}
    alphas = tuple(1 - x for x in lost)
    return Rung(draft, bits, c, error, kl, 0.9, alphas, {1.0: rates})


def test_winners_are_chosen_on_the_choosing_prompts_within_their_class():
    def one(draft, bits, chosen):
        return made(draft, bits, chosen, (0.1, 0.1), 0.1, (0.1, 0.1))

    rungs = [one("a", 3.5, 2.0), one("b", 3.25, 2.1), one("c", 3.5, 2.1), one("d", 4.5, 2.2), one("e", 2.5004, 1.0)]  # fmt: skip
    found = winners(rungs)
    # b and c tie: the fewer bits; a float32 beside a matrix does not lift e into the next class
    assert {most: r.draft for most, r in found.items()} == {2.5: "e", 3.5: "b", 4.5: "d"}
    assert winner(rungs).draft == "d"


def test_a_law_that_holds_is_found_and_one_that_does_not_is_told():
    """1 - alpha = .4 sqrt(KL) exactly; of the weights' error it is the square, so a free line has slope 2."""
    names = ["rtn8", "rtn6", "rtn5", "rtn4", "rtn3", "rtn2", "rtn3+gptq"]
    lost = np.geomspace(0.01, 0.4, len(names)).tolist()
    rungs = [made(n, 3.5, 2.0, (x, x), x**0.5, ((x / 0.4) ** 2,) * 2) for n, x in zip(names, lost)]
    weights, kl = fits(rungs)
    assert kl.k == pytest.approx(0.4) and kl.slope == pytest.approx(1)
    assert all(spread < 1e-9 for spread in kl.spread.values())
    assert weights.slope == pytest.approx(2) and weights.spread["left out"] > 0.3
    group = groups(rungs)
    assert group["rtn3+gptq"] == "made with inputs in view"
    assert [group[n] for n in names[:4]] == ["fitted", "left out", "fitted", "left out"]
    # what is judged is the reporting half: a draft left out that does twice as badly there is off by ln 2
    changed = [replace(r, alphas=(r.alphas[0], 1 - 2 * (1 - r.alphas[1]))) if r.draft == "rtn6" else r for r in rungs]  # fmt: skip
    again = fits(changed)[1]
    assert again.k == kl.k
    assert {p[0]: p[4] for p in again.points}["rtn6"] == pytest.approx(np.log(2))


def test_too_few_drafts_fit_no_law():
    assert fits([made("rtn4", 4.5, 2.0, (0.1, 0.1), 0.1, (0.1, 0.1))]) == []


# --- figures' geometry ----------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.15, 0.22, 0.28])
@pytest.mark.parametrize("speed", [1.25, 2.0, 2.5])
def test_curves_of_equal_speed_up_are_the_closed_form_s(c, speed):
    alpha = float(alphas_for((speed,), np.array([c]))[0, 0])
    assert best_gamma(alpha, c)[1] == pytest.approx(speed, rel=1e-3)


def test_a_speed_up_out_of_reach_has_no_curve():
    """1 / c is the limit: 2 at c = .5."""
    assert np.isnan(alphas_for((2.0,), np.array([0.5]))).all()


def test_labels_cover_neither_each_other_nor_points_nor_the_edge():
    rng = np.random.default_rng(0)
    points = [tuple(p) for p in rng.uniform((60, 60), (440, 540), (40, 2))]
    sizes = [(float(w), 10.0) for w in rng.uniform(25, 90, 40)]
    frame, taken = (0, 0, 500, 600), [(400, 560, 500, 600)]
    boxes = places(points, sizes, frame, taken)

    def meet(a, b):
        return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]

    for i, box in enumerate(boxes):
        assert (box[2] - box[0], box[3] - box[1]) == pytest.approx(sizes[i])
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= 500 and box[3] <= 600
        assert not any(meet(box, other) for other in boxes[i + 1 :] + taken)
        assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)
