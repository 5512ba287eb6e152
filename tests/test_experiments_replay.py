"""The replay command: its numbers are replay's, its errors tell text from prompts, and its check can fail."""

import json

import numpy as np
import pytest

from experiments import replay_table
from experiments.__main__ import main
from experiments.prompts import Prompt
from experiments.replay_table import identity_holds
from experiments.setting import Setting
from experiments.stats import less_noise, standard_errors
from micro.chance import generator_for
from micro.checkpoint import save_model
from tests.byte_model import byte_model

WINDOW, GAMMAS, SEEDS = 16, 5, 2


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    save_model(folder / "model", byte_model())
    rows = [("a", "lesson", "The attention"), ("b", "copy", "1, 2, 3\n"), ("c", "free", "é")]
    text = "".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in rows)
    (folder / "prompts.jsonl").write_text(text)

    def run(*more):
        return main(
            ["replay", "--model", str(folder / "model"), "--prompts", str(folder / "prompts.jsonl"),
             "--window", str(WINDOW), "--most-gamma", str(GAMMAS), "--seeds", str(SEEDS), *more]
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def results(call):
    """rule, T -> the command's JSON."""
    import contextlib
    import io

    found = {}
    for rule, t in (("token", "1"), ("block", "1"), ("match", "1"), ("coupled", "1"), ("token", "0")):  # fmt: skip
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            assert call("--rule", rule, "-T", t, "--draft", "rtn3", "--json") == 0
        found[rule, t] = json.loads(out.getvalue())
    return found


def test_everything_is_told_for_every_gamma(results):
    for (rule, t), result in results.items():
        assert result["rule"] == rule and result["texts"] == 3 * (SEEDS if t == "1" else 1)
        assert [row["gamma"] for row in result["gammas"]] == list(range(1, GAMMAS + 1))
        for row in result["gammas"]:
            assert row["proposed"] == row["checked"] + row["thrown_away"]
            assert row["emitted"] == pytest.approx(row["accepted"] + row["rounds"])
            assert row["tokens_per_pass"] == pytest.approx(row["emitted"] / row["rounds"])
            assert row["full_share_gap"] == pytest.approx(row["full_share"] - row["alpha"] ** row["gamma"])  # fmt: skip
            gap = row["full_share_gap"] * row["alpha"] / (1 - row["alpha"])
            assert row["formula_gap"] == pytest.approx(gap, abs=1e-9)
        for row, depths in zip(result["gammas"], result["by_depth"]):
            proposed = np.array(depths["accepted_per_proposed"])
            assert len(proposed) == row["gamma"] and proposed[-1] == pytest.approx(row["full_share"])  # fmt: skip
            assert proposed.sum() * row["rounds"] == pytest.approx(row["accepted"])
            assert np.prod(depths["accepted_per_checked"]) == pytest.approx(row["full_share"])
        assert len(result["by_position"]["overlap"]) == WINDOW
        for row, curve in zip(result["gammas"], result["by_position"]["gammas"]):
            assert sum(curve["starts"]) * result["texts"] == pytest.approx(row["rounds"])


def test_rules_stand_in_their_order(results):
    """alpha at gamma 1: block as token; match and coupled below. The closed forms stand likewise."""
    alpha = {rule: results[rule, "1"]["gammas"][0]["alpha"] for rule in ("token", "block", "match", "coupled")}  # fmt: skip
    assert alpha["block"] == alpha["token"] > alpha["coupled"] > alpha["match"]
    form = {rule: results[rule, "1"]["closed_form"] for rule in alpha}
    assert form["block"] == form["token"] == results["token", "1"]["overlap"]
    assert form["token"] > form["coupled"] > form["match"]


def test_a_greedy_text_has_no_error_of_its_own(results):
    greedy = results["token", "0"]["gammas"][2]["tokens_per_pass_error"]
    assert greedy["text"] is None and greedy["prompts"] > 0  # one text a prompt cannot tell
    warm = results["token", "1"]["gammas"][2]["tokens_per_pass_error"]
    assert warm["text"] > 0 and warm["prompts"] > 0


def test_the_table_names_what_it_shows(call, capsys):
    assert call("-T", "1", "--draft", "rtn3", "--rule", "block") == 0
    out, err = capsys.readouterr()
    assert "rtn3, T = 1, rule block: 6 texts of 3 prompts" in out
    assert len(out.splitlines()) == 2 + GAMMAS + 2 + 3 + 1 + 4
    assert "drawing text" in err


def test_counts_that_contradict_each_other_are_a_fault(call, capsys, monkeypatch):
    row = {"alpha": 0.5, "full_share": 0.25, "tokens_per_pass": 1.75}
    assert identity_holds(row) and not identity_holds({**row, "tokens_per_pass": 1.751})
    assert identity_holds({"alpha": 1.0, "full_share": 1.0, "tokens_per_pass": 5.0})
    real = replay_table.row
    monkeypatch.setattr(replay_table, "row", lambda *given: {**real(*given), "full_share": 0.123})
    assert call("-T", "1") == 1
    assert "contradict each other at gamma [1, 2, 3, 4, 5]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option, value, fault",
    [("--rule", "best", "token, block, match, coupled"), ("--draft", "rtn99", "rtn99"),
     ("--window", "90", "prompt 'a'"), ("-T", "-1", "at least 0")],
)  # fmt: skip
def test_wrong_input_is_told_in_one_line(call, capsys, option, value, fault):
    try:
        code = call(option, value)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and fault in err and "Traceback" not in err


# --- standard errors


def test_errors_are_those_of_many_repetitions():
    """800 made-up studies of 12 prompts x 3 texts, prompts fixed or drawn anew: the mean estimated variance is the studies' own.

    A variance from 800 studies is off by 5%; both are told apart (the prompts' own spread is four times the texts').
    """
    rng = generator_for(1, "studies")
    P, S, studies = 12, 3, 800
    owner = np.repeat(np.arange(P), S)

    def study(means):
        below = rng.uniform(8, 12, size=P * S)
        above = (means[owner] + 0.2 * rng.normal(size=P * S)) * below
        errors = standard_errors(above, below, owner)
        return above.sum() / below.sum(), errors.text**2, errors.prompts**2

    fixed = rng.normal(3, 0.4, size=P)
    at_fixed = np.array([study(fixed) for _ in range(studies)])
    assert at_fixed[:, 1].mean() == pytest.approx(at_fixed[:, 0].var(), rel=0.2)
    anew = np.array([study(rng.normal(3, 0.4, size=P)) for _ in range(studies)])
    assert anew[:, 2].mean() == pytest.approx(anew[:, 0].var(), rel=0.2)
    assert at_fixed[:, 2].mean() > 4 * at_fixed[:, 1].mean()


def test_what_cannot_be_told_is_none():
    a, b = np.array([1.0, 2.0, 3.0]), np.ones(3)
    assert standard_errors(a, b, np.arange(3)).text is None
    assert standard_errors(a, b, np.zeros(3)).prompts is None
    same = standard_errors(np.array([2.0, 2.0, 4.0, 4.0]), np.ones(4), np.array([0, 0, 1, 1]))
    assert same.text == 0 and same.prompts > 0


def test_a_control_leaves_the_mean_and_takes_noise():
    """1,000 made-up studies of 6 prompts x 8 texts whose noise is half the control's: the same mean, half the variance, and the error
    that is told is the studies' own. A variance from 1,000 studies is off by 4.5%."""
    rng = generator_for(2, "controls")
    owner = np.repeat(np.arange(6), 8)
    means = rng.normal(3, 0.4, size=6)

    def study():
        luck, below = rng.normal(size=48), rng.uniform(8, 12, size=48)
        above = means[owner] * below + 0.5 * luck + 0.5 * rng.normal(size=48)
        calm = less_noise(above, below, owner, luck)
        ratios = above.sum() / below.sum(), calm.sum() / below.sum()
        return *ratios, standard_errors(calm, below, owner).text ** 2

    plain, calm, told = np.array([study() for _ in range(1000)]).T
    assert calm.mean() == pytest.approx(plain.mean(), abs=4 * plain.std() / 1000**0.5)
    assert calm.var() == pytest.approx(plain.var() / 2, rel=0.2)
    assert told.mean() == pytest.approx(calm.var(), rel=0.2)


def test_a_slope_read_off_few_texts_is_paid_for():
    """3,000 made-up studies of 3 prompts x 3 texts and a control that explains nothing: of 6 degrees of freedom the slope takes one, and
    it adds noise of its own, 1 / (6 - 2). Without both the variance told would be a third too small; it is known to 3% here."""
    rng = generator_for(3, "few")
    owner, below = np.repeat(np.arange(3), 3), np.ones(9)

    def study():
        luck, above = rng.normal(size=9), rng.normal(3, 1, size=9)
        calm = less_noise(above, below, owner, luck)
        return calm.mean(), standard_errors(calm, below, owner, fitted=1).text ** 2

    calm, told = np.array([study() for _ in range(3000)]).T
    assert calm.var() == pytest.approx((1 / 9) * (1 + 1 / 4), rel=0.12)
    assert told.mean() == pytest.approx(calm.var(), rel=0.12)
    two = np.array([0, 0])
    assert standard_errors(np.array([1.0, 2.0]), np.ones(2), two).text > 0
    assert standard_errors(np.array([1.0, 2.0]), np.ones(2), two, fitted=1).text is None


def test_a_control_without_any_luck_changes_nothing():
    above, below, owner = np.array([3.0, 4.0, 5.0, 6.0]), np.ones(4), np.array([0, 0, 1, 1])
    assert (less_noise(above, below, owner, np.zeros(4)) == above).all()


def test_less_noise_is_told_for_every_rule_that_has_a_closed_form(results):
    for (rule, t), result in results.items():
        for row in result["gammas"]:
            calm = row["less_noise"]
            if rule == "block":
                assert calm is None
                continue
            plain, error = row["tokens_per_pass"], row["tokens_per_pass_error"]["text"]
            if t == "0":  # no luck where no coin is thrown
                assert calm["tokens_per_pass"] == plain and calm["error"]["text"] is None
                continue
            assert 0 < abs(calm["tokens_per_pass"] - plain) < 5 * error
            assert calm["error"]["text"] < error


def test_texts_drawn_prompt_by_prompt_are_the_same_texts(tmp_path):
    """Their laws to 1e-5, which is another order of sums."""
    save_model(tmp_path, byte_model())
    prompts = [Prompt("a", "lesson", list(b"The attention")), Prompt("b", "copy", list(b"1, 2"))]
    one, two = (
        Setting(tmp_path, prompts, window=16, most_gamma=5, by_prompt=by) for by in (False, True)
    )
    for temperature in (0.0, 1.0):
        a, b = one.texts(temperature), two.texts(temperature)
        assert a.tokens.tolist() == b.tokens.tolist() and a.owner.tolist() == b.owner.tolist()
        assert (a.laws - b.laws).abs().max() < 1e-5
        module = one.draft("rtn3").module
        q, r = (s.score(module, a, temperature) for s in (one, two))
        assert (q - r).abs().max() < 1e-5
