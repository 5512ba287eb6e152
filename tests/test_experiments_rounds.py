"""Recorded runs: the recorder changes nothing, what it keeps is what the rule saw, and the steps end in the right totals."""

from __future__ import annotations

import json

import pytest
from made_rounds import add_run

from experiments.__main__ import main
from experiments.page.viewer import PANEL, prob, viewer_data
from experiments.prompts import load_prompts
from experiments.setting import Setting
from experiments.store import Store
from experiments.watch import rounds_run
from experiments.watch.recording import record
from experiments.watch.rounds_text import check_text, totals
from micro.checkpoint import save_model
from micro.generate import generate as plain
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.accept import RULES, chance_for, residual
from specdec.decode import generate
from specdec.drafts.model import ModelDraft
from specdec.record import Totals
from tests.byte_model import byte_model

PROMPT = b"The attention"
PROMPTS = [
    {"id": "one", "kind": "lesson", "text": "The attention"},
    {"id": "two", "kind": "copy", "text": "aa bb aa"},
    {"id": "three", "kind": "free", "text": "It was"},
]


@pytest.fixture(scope="module")
def pair():
    target = byte_model()
    copy = quantize_model(target, parse_format("rtn3"))
    return target, lambda: ModelDraft(copy.module, copy.bytes_per_pass)


def recorded(pair, rule: str = "token", temperature: float = 1.0):
    target, draft = pair
    options = {"max_new_tokens": 30, "gamma": 4, "lanes": 16, "sampling": Sampling(temperature)}
    made = record(target, draft(), PROMPT, seed=2, stream="x", rule=rule, **options)
    same = generate(target, draft(), PROMPT, chance=chance_for(rule, 2, "x"), rule=rule, **options)
    return made, same


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", RULES)
def test_recording_changes_no_token_and_no_round(pair, rule, temperature):
    made, same = recorded(pair, rule, temperature)
    assert made.tokens == list(same.tokens)
    assert made.rounds == list(same.rounds)
    assert made.ended == same.ended


def test_a_coin_decides_as_the_rule_says(pair):
    """Every judged token has a coin, and it was accepted exactly where the coin lies below min(1, p / q)."""
    made, _ = recorded(pair)
    judged = 0
    for one in made.shown:
        for node, cell in enumerate(one["drafted"]):
            assert cell["accept"] == pytest.approx(min(1.0, cell["p"] / cell["q"]), rel=1e-5)
            if node < one["checked"]:
                judged += 1
                assert (cell["coin"] < cell["accept"]) == (cell["fate"] == "accepted")
            else:
                assert cell["coin"] is None and cell["fate"] == "thrown away"
    assert judged == sum(one.checked for one in made.rounds) > 10


def test_rules_that_throw_no_coin_record_none(pair):
    for rule in ("match", "coupled"):
        made, _ = recorded(pair, rule)
        assert all(cell["coin"] is None for one in made.shown for cell in one["drafted"])


def test_a_correction_has_a_place_in_the_residual_it_was_drawn_from(pair):
    """At temperature 0 the residual is the one token that the target writes."""
    made, _ = recorded(pair, temperature=0.0)
    refused = [one for one in made.shown if one["final"] and one["final"]["fate"] == "correction"]
    assert refused
    for one in refused:
        (cell,) = [cell for cell in one["drafted"] if cell["fate"] == "rejected"]
        assert cell["residual"] == [[one["final"]["token"], 1.0]]


def test_the_residual_is_the_rules_own(pair):
    import torch

    from experiments.watch.recording import top

    p, q = torch.tensor([0.5, 0.25, 0.25, 0.0]), torch.tensor([0.125, 0.5, 0.125, 0.25])
    assert top(residual(p, q, 1)) == [[0, 0.75], [2, 0.25]]


def test_the_last_step_shows_the_runs_totals(tmp_path):
    """3 + 3 drafted, 1 + 3 accepted, 1 rejected, 1 thrown away, 6 tokens in 2 passes: 2 + 6 / 4 = 3.5 in time."""
    run = add_run(Store(tmp_path))
    (shown,) = viewer_data([run])["runs"]
    panel = dict(zip(PANEL, shown["steps"][-1]["panel"]))
    assert panel == {
        "target passes": "2", "draft passes": "6", "drafted": "6", "accepted": "4", "rejected": "1", "thrown away": "1",
        "tokens of text": "6", "α, accepted / checked": "0.800", "tokens per pass": "3.00",
        "time, in target passes": "3.50", "time of plain decoding": "6", "speed-up so far": "1.71",
    }  # fmt: skip
    done = totals(run)
    assert done == Totals(2, 6, 5, 4, 6, 6, 1)
    assert f"{done.estimated_speed_up(0.25):.2f}" == panel["speed-up so far"]


def test_steps_go_draft_verify_compare_append(tmp_path):
    (shown,) = viewer_data([add_run(Store(tmp_path))])["runs"]
    phases = [step["phase"] for step in shown["steps"]]
    assert phases == ["start", *["draft"] * 3, "verify", *["compare"] * 2, "append",
                      *["draft"] * 3, "verify", *["compare"] * 3, "append"]  # fmt: skip
    assert [step["states"] for step in shown["steps"][:8]] == [
        "....", "d...", "dd..", "ddd.", "vvv.", "avv.", "arv.", "artc",
    ]  # fmt: skip
    assert [phases[i] for i in shown["ends"]] == ["start", "append", "append"]
    assert [step["shown"] for step in shown["steps"]] == [0] * 7 + [2] * 8 + [6]
    assert shown["text"][0] == ["a", False, "accepted"]
    assert shown["text"][-1] == ["\\x00", True, "bonus"]
    said = [step["say"] for step in shown["steps"]]
    assert said[6] == "b: coin 0.6250 ≥ min(1, p / q) = 0.1250: rejected."
    assert (
        said[7]
        == "2 tokens join the text; the last is the target's own e, a correction; 1 thrown away."
    )


def test_what_hovering_shows_is_the_records(tmp_path):
    (shown,) = viewer_data([add_run(Store(tmp_path))])["runs"]
    cell = shown["rounds"][0][1]
    assert cell["facts"] == [["q, of the draft", "0.800"], ["p, of the target", "0.100"],
                             ["min(1, p / q)", "0.125"], ["coin", "0.625"]]  # fmt: skip
    assert cell["bars"][1] == [["e", "75.0%", "0.750"], ["␣", "25.0%", "0.250"]]
    correction, bonus = shown["rounds"][0][3], shown["rounds"][1][3]
    assert correction["bars"] == ["the residual it was drawn from", cell["bars"][1]]
    assert bonus["bars"] == ["the target's law", [["\\x00", "60.0%", "0.600"]]]
    thrown = dict(shown["rounds"][0][2]["facts"])
    assert thrown["coin"] == "none: never judged"


def test_a_probability_is_never_shown_as_0_or_1_where_it_is_neither():
    assert [prob(x) for x in (0.0, 1e-9, 0.0005, 0.5, 0.9999, 1.0)] == [
        "0.000",
        "< .001",
        "0.001",
        "0.500",
        "> .999",
        "1.000",
    ]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    save_model(folder / "model", byte_model(context=160))
    (folder / "p.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    options = ["--model", str(folder / "model"), "--prompts", str(folder / "p.jsonl")]
    line = ["run", "rounds", *options, "--out", str(folder / "r")]
    return line, folder


def test_the_command_records_every_run_once_and_checks_its_text(measured, capsys):
    line, folder = measured
    assert main(line) == 0
    said = capsys.readouterr().out
    assert f"Recorded {len(rounds_run.POINTS)} runs" in said
    records = Store(folder / "r").of(rounds_run.NAME)
    assert [r["point"] for r in records] == rounds_run.POINTS
    for one in records:
        result, comparable = one["result"], one["point"]["rule"] == "coupled" or not one["point"]["temperature"]  # fmt: skip
        assert result["same_text"] is (True if comparable else None)
        assert [t for r in result["rounds"] for t in r["emitted"]] == result["tokens"]
        assert len(result["tokens"]) == rounds_run.TOKENS
    assert main(line) == 0
    assert "Recorded 0 runs" in capsys.readouterr().out


def test_the_compared_text_is_plain_decodings(measured):
    line, folder = measured
    main(line)
    setting = Setting(folder / "model", load_prompts(folder / "p.jsonl"))
    (greedy,) = [r for r in Store(folder / "r").of("rounds") if r["point"]["gamma"] == 10 and not r["point"]["temperature"]]  # fmt: skip
    text = plain(
        setting.model, b"aa bb aa", rounds_run.TOKENS, Sampling(0.0), chance_for("token", 1)
    )
    assert greedy["result"]["id"] == "two"
    assert greedy["result"]["tokens"] == text


def test_a_text_that_differs_is_said_and_fails_the_command(measured, capsys, monkeypatch):
    line, folder = measured
    monkeypatch.setattr(rounds_run, "_plain", lambda *_: [0])
    assert main([*line, "--fresh"]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    run = add_run(Store(folder / "other"), temperature=0.0)
    run["result"]["same_text"] = False
    assert "DIFFERS" in check_text(run)


def test_the_points_are_what_the_viewer_promises():
    points = rounds_run.POINTS
    assert {p["kind"] for p in points} == {"lesson", "copy", "free"}
    assert {p["draft"] for p in points} >= {"rtn4", "rtn3"}
    assert {p["temperature"] for p in points} == {0.0, 1.0}
    assert min(p["gamma"] for p in points) <= 2 and max(p["gamma"] for p in points) >= 10
    assert max(p["gamma"] for p in points) < rounds_run.LANES
