"""Intervals over prompts: they cover what they should, keep a prompt's seeds together, and choose the best gamma anew."""

from __future__ import annotations

import numpy as np
import pytest
from made_records import made_result

from experiments.plate.curves import Curve, by_kind, curve, paired_difference
from experiments.stats import interval, resample_weights


def record(result: dict, draft: str = "rtn4") -> dict:
    return {"point": {"draft": draft, "temperature": 1.0}, "result": result}


def counted(accepted: list[list[float]], gammas: tuple[int, ...]) -> dict:
    """A result of 10 rounds for each prompt and gamma, (prompts, gammas) accepted; what is not asked about is 1."""
    prompts, ones = len(accepted), [[1.0] * len(gammas) for _ in accepted]
    return {
        "gammas": list(gammas), "prompts": [str(i) for i in range(prompts)], "kinds": ["lesson"] * prompts,
        "rounds": [[10.0] * len(gammas)] * prompts, "checked": ones, "full_rounds": ones, "accepted": accepted,
        "overlap": [[1.0]] * prompts, "positions": [[1.0]] * prompts,
        "c": {"nominal": 0.2, "weights": 0.2, "with_cache": 0.2}, "mean_context": 1,
    }  # fmt: skip


def test_a_mean_s_interval_covers_the_truth_as_often_as_it_says():
    """400 samples of 60 prompts from an exponential law of mean 1. The percentile interval of so skewed a mean covers
    about 93%; 0.895 ... 0.975 is that -/+ 3 standard errors (0.0128) or more: a lawful run fails in under 1 of 300 seeds."""
    rng = np.random.default_rng(1)
    weights = resample_weights(60, resamples=500)
    hits = 0
    for _ in range(400):
        found = interval(weights @ rng.exponential(size=60) / 60)
        hits += found.low <= 1 <= found.high
    assert 0.895 <= hits / 400 <= 0.975


def test_weights_draw_as_many_prompts_as_there_are():
    weights = resample_weights(7)
    assert (weights[0] == 1).all()
    assert (weights.sum(1) == 7).all()
    assert len(np.unique(weights[1:], axis=0)) > 500  # of the 1,716 ways to draw 7 of 7
    assert (resample_weights(7, seed=1) != weights).any()


def test_weights_cannot_be_altered_by_a_user():
    with pytest.raises(ValueError, match="read-only"):
        resample_weights(7)[0, 0] = 2


def test_seeds_of_a_prompt_stay_together():
    """Four prompts, 50 seeds each that all agree: 200 texts, but only four independent things to resample. The interval of
    alpha over prompts is that of four values, ten times wider than 200 texts drawn one by one would give."""
    accepted = [[0.0], [50.0], [0.0], [50.0]]
    whole = counted(accepted, (1,)) | {"checked": [[50.0]] * 4}
    one = curve(record(whole))
    over_prompts = one.at(one.alpha, 1)
    texts = resample_weights(200) @ np.repeat([0.0, 1.0, 0.0, 1.0], 50) / 200
    over_texts = interval(texts)
    assert over_prompts.value == over_texts.value == 0.5
    assert (over_prompts.low, over_prompts.high) == (0.0, 1.0)
    assert over_texts.high - over_texts.low < 0.2


def test_the_best_gamma_is_chosen_again_in_each_resample():
    """Prompts of two opposite sorts: half do well at gamma 1 alone, half at gamma 4 alone. A resample with more of one sort
    is best at that sort's gamma, so the best speed-up never falls below what a fixed gamma's interval reaches down to."""
    sorts = [[9.0, 0.0]] * 10 + [[0.0, 18.0 * 0.9]] * 10
    one = curve(record(counted(sorts, (1, 4))))
    c = 0.2
    gamma, best = one.best(c)
    fixed = one.at(one.speed_up(c), gamma)
    assert best.value == fixed.value
    assert best.low > fixed.low + 0.05
    assert {int(g) for g in one.gammas[one.speed_up(c).argmax(1)]} == {1, 4}
    assert best.low == pytest.approx(interval(one.speed_up(c).max(1)).low)


def test_the_best_gamma_passes_over_what_has_no_value():
    result = made_result(2.0)
    whole = curve(record(result))
    gamma, _ = whole.best(0.28)
    for row in result["accepted"]:
        row[gamma - 1] = None
    gap = curve(record(result))
    other, best = gap.best(0.28)
    assert other != gamma
    assert np.isfinite([best.value, best.low, best.high]).all()
    assert np.isnan(gap.formula[0, gamma - 1])
    assert np.isfinite(np.delete(gap.formula[0], gamma - 1)).all()


def test_nothing_but_gaps_has_no_best():
    result = made_result(2.0)
    result["accepted"] = [[None] * 5 for _ in result["accepted"]]
    with pytest.raises(ValueError, match="[Nn]a[Nn]"):
        curve(record(result)).best(0.28)


def test_drafts_are_compared_on_the_same_texts():
    """Prompts differ by far more than drafts do: each draft's own interval is wide, that of the difference is a point,
    since the better one has 0.2 more tokens per pass on every prompt."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0, 8, size=(40, 1))
    better, worse = (curve(record(counted((base + more).tolist(), (1,)))) for more in (2.0, 0.0))
    gap = paired_difference(better, worse)
    assert gap.value == pytest.approx(0.2 / 1.2)
    assert gap.high - gap.low < 1e-9
    own = better.at(better.speed_up(0.2), 1)
    assert own.high - own.low > 0.1


def test_a_gap_between_different_texts_would_be_wide():
    """The same two drafts, had each been measured on its own order of prompts."""
    base = np.random.default_rng(0).uniform(0, 8, size=(40, 1))
    one, other = (
        curve(record(counted((b + more).tolist(), (1,))))
        for b, more in ((base, 2.0), (base[::-1], 0.0))
    )
    gap = paired_difference(one, other)
    assert gap.high - gap.low > 0.1


def test_kinds_split_the_prompts_and_add_up():
    result = made_result(1.0, prompts=9)
    kinds = by_kind(record(result))
    assert list(kinds) == ["lesson", "copy", "free"]
    whole: Curve = curve(record(result))
    summed = sum(one.accepted[0] for one in kinds.values())
    assert summed == pytest.approx(whole.accepted[0])
    alone = np.array(result["accepted"])[1::3].sum(0)
    assert kinds["copy"].accepted[0] == pytest.approx(alone)


def test_tokens_per_pass_is_totals_over_totals():
    """Prompts of very different lengths: 1 + 30 / 20, not the mean of 1 + 10 / 1 and 1 + 20 / 19."""
    result = counted([[10.0], [20.0]], (1,)) | {"rounds": [[1.0], [19.0]]}
    assert curve(record(result)).tokens_per_pass[0, 0] == pytest.approx(2.5)
