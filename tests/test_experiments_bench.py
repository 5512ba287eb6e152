"""The bench's arithmetic, with clocks made up: nothing here depends on how fast a machine is."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.bench.jobs import Line
from experiments.bench.timing import Ratio, Timing, compare, median_ranks, ratio, take_turns
from micro.checkpoint import save_model
from micro.model import ModelConfig, Transformer


class FakeClock:
    """Time passes only where a job says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def job(self, seconds, units: int = 1, log: list | None = None, name: str = ""):
        def run(turn: int) -> int:
            self.now += seconds(turn) if callable(seconds) else seconds
            if log is not None:
                log.append((name, turn))
            return units

        return run


def test_jobs_take_turns_and_warm_ups_are_not_timed():
    clock, log = FakeClock(), []
    jobs = {"a": clock.job(1.0, log=log, name="a"), "b": clock.job(3.0, log=log, name="b")}
    session = take_turns(jobs, repeats=3, warmups=2, clock=clock)
    assert log == [(n, t) for t in (0, 1) for n in "ab"] + [(n, t) for t in range(3) for n in "ab"]
    assert session.timings["a"].seconds == (1.0,) * 3
    assert session.timings["b"].seconds == (3.0,) * 3
    assert session.outside == session.inside == 12.0


def test_a_drift_that_hits_both_leaves_the_ratio():
    """The machine slows threefold on the way: means of separate runs would show it, pairs do not."""
    clock = FakeClock()
    jobs = {
        "slow": clock.job(lambda t: 2.0 * (1 + t), units=4),
        "fast": clock.job(lambda t: 1.0 * (1 + t), units=4),
    }
    found = compare(take_turns(jobs, 9, 0, clock), "slow", "fast")
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_units_count():
    """Twice the tokens in twice the time is no difference."""
    clock = FakeClock()
    jobs = {"n": clock.job(1.0, units=10), "2n": clock.job(2.0, units=20)}
    assert compare(take_turns(jobs, 6, 0, clock), "2n", "n").value == 1.0


def test_unequal_repeats_are_refused():
    counts = iter((3, 4))
    with pytest.raises(ValueError, match="made 4 units, then 3"):
        take_turns({"odd": lambda turn: next(counts)}, 2, 0, FakeClock())


def test_summary_is_milliseconds_a_unit_with_its_spread():
    summary = Timing((1.0, 2.0, 3.0, 4.0, 5.0), units=1000).summary()
    assert summary == {"median": 3.0, "q1": 2.0, "q3": 4.0, "min": 1.0, "max": 5.0}


@pytest.mark.parametrize("count, k", [(6, 1), (8, 1), (9, 2), (15, 4), (20, 6)])
def test_median_ranks_are_the_sign_test_s(count, k):
    """Textbook ranks of a 95% interval of the median."""
    found, confidence = median_ranks(count)
    below = sum(math.comb(count, i) for i in range(k)) / 2**count
    assert found == k and confidence == pytest.approx(1 - 2 * below) and confidence >= 0.95


def test_too_few_pairs_say_their_confidence():
    assert median_ranks(3) == (1, pytest.approx(0.75))
    assert ratio([1, 2, 4], [1, 1, 1]).confidence == pytest.approx(0.75)


def test_interval_of_the_median_holds_it_as_often_as_it_says():
    """2,000 samples of 9 pairs: coverage 96.1% by the sign test; four standard errors are 1.7 points."""
    rng = np.random.default_rng(1)
    samples = np.exp(rng.normal(size=(2000, 9)))
    hits = [r.low <= 1 <= r.high for r in (ratio(s.tolist(), [1.0] * 9) for s in samples)]
    assert np.mean(hits) == pytest.approx(0.961, abs=0.0175)


def test_a_loss_is_reported_as_one():
    """Below 1 is neither clipped nor hidden, and a goal that is missed is MISSED."""
    slower = ratio([1.0] * 6, [2.0] * 6)
    assert slower.value == 0.5
    assert Line.of("x", slower, "at least", 1.7).met is False
    assert Line.of("x", Ratio(1.05, 1, 1.1, 0.95), "at most", 1.1).met is True
    assert Line.of("x", slower).met is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "model"
    config = ModelConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=288,
    )  # fmt: skip
    save_model(folder, Transformer(config, seed=5))
    return folder


def test_the_whole_bench_in_small(model, capsys):
    options = ["--model", str(model), "--tokens", "4", "--repeats", "2", "--warmups", "1", "--json"]
    assert main(["bench", *options]) == 0
    out = capsys.readouterr().out
    result = json.loads(out.splitlines()[-1])
    assert result["identical"] is True
    assert {"machine", "threads", "device", "dtype", "torch"} <= set(result["environment"])
    assert result["settings"]["repeats"] == 2 and result["settings"]["warmups"] == 1
    for jobs in result["times_ms"].values():
        for spread in jobs.values():
            assert (
                spread["min"] <= spread["q1"] <= spread["median"] <= spread["q3"] <= spread["max"]
            )
    names = " ".join(line["name"] for line in result["ratios"])
    for wanted in (
        "lanes cost",
        "measured speed-up",
        "over transformers",
        "over assisted",
        "2 N tokens",
        "draft = target",
    ):
        assert wanted in names
    assert 0 < result["clock"]["inside_share"] <= 1
    assert "MISSED" in out or "met" in out


def test_wrong_input_is_one_line(model, capsys):
    assert main(["bench", "--model", str(model), "--tokens", "300"]) == 2
    assert "--tokens 300" in capsys.readouterr().err
    assert main(["bench", "--model", str(model), "--tokens", "4", "--draft", "no9"]) == 2
    assert "unknown draft 'no9'" in capsys.readouterr().err
    for option in (["--quick"], ["--gamma", "5"], ["--draft", "rtn3"], ["--tokens", "9"]):
        assert main(["bench", "--model", str(model), "--precision", *option]) == 2
        assert f"{option[0]} does not go with --precision" in capsys.readouterr().err
