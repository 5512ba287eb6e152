"""The bank of rounds against the loop itself, the walk over it by hand, and what the records say."""

import numpy as np
import pytest
import torch

from experiments.exact.check import texts as loop_texts
from experiments.exact.small_model import small_micro
from experiments.lengths.bank import Bank, ask, fill, fixed, oracle, policy, stopped
from experiments.lengths.figure import lengths
from experiments.lengths.run import VERSION, fit
from experiments.lengths.table import by_luck, lines, rows_of
from experiments.prompts import Prompt
from experiments.setting import Setting, Texts
from micro.chance import SeededChance, generator_for
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.drafts.confidence import LeastProbability, PredictedOverlap
from specdec.drafts.lengths import PlusTwoMinusOne
from specdec.drafts.model import ModelDraft

KEPT = np.array([[2, 0, 1, 3, 0, 0, 1, 0]])  # of chains of at most 3, from 8 starts


def test_a_walk_by_hand():
    """gamma 2: from 0 two are kept, next start 3, two kept again, start 6, one kept, start 8: out."""
    bank = Bank(KEPT, {"s": np.full((1, 8), 1)}, 3)
    counts = fixed(bank, 2)
    assert [counts.rounds[0], counts.drafted[0], counts.kept[0]] == [3, 6, 5]
    counts = oracle(bank)  # 0 (2), 3 (3), 7 (0)
    assert [counts.rounds[0], counts.drafted[0], counts.kept[0]] == [3, 5, 5]
    counts = stopped(bank, "s")  # one at a time: 0 (1), 2 (1), 4 (0), 5 (0), 6 (1)
    assert [counts.rounds[0], counts.drafted[0], counts.kept[0]] == [5, 5, 3]
    counts = policy(
        bank, PlusTwoMinusOne(1)
    )  # 1 of 1; then from 2: 3 drafted, 1 kept; from 4: 2, 0; from 5: 1, 0; from 6: 1, 1
    assert [counts.rounds[0], counts.drafted[0], counts.kept[0]] == [5, 8, 3]
    assert fixed(bank, 2).speed_up(0.5, np.array([0])) == 8 / (3 + 3)
    assert (
        ask(bank, lambda n, start, rounds: 99).drafted == 3 * ask(bank, lambda *_: 99).rounds
    ).all()


def small_setting(window: int, most: int, count: int):
    target = small_micro(context=64)
    rng = generator_for(0, "prompts")
    prompts = [Prompt(f"p-{i}", "free", bytes(rng.integers(0, target.vocab, 3 + i % 4).tolist()))
               for i in range(count)]  # fmt: skip
    setting = Setting(None, prompts, window=window, seeds=(1,), most_gamma=most)
    setting.__dict__["model"] = target
    return setting, quantize_model(target, parse_format("absmax2")).module


def test_the_bank_counts_what_the_loop_counts():
    """Of 150 texts each: tokens kept and drafted a round of a stopped draft, bank against loop, to 5 of their standard errors.
    A bank that forgot what is drafted behind a refusal, or drew the refused token from q, drafts otherwise by more."""
    window, most, stop = 12, 4, LeastProbability(0.025)
    setting, model = small_setting(window, most, 150)
    texts = setting.texts(1.0)
    q = setting.score(model, texts, 1.0)
    bank = fill(setting, model, texts, q, 1.0, {"stop": stop}, most)
    found = stopped(bank, "stop")
    made = np.zeros((3, len(setting.prompts)))
    for n, prompt in enumerate(setting.prompts):
        done = loop_texts(setting.model, ModelDraft(model, 1, stop), prompt.tokens, window + most, most,
                          Sampling(1.0), SeededChance(5, prompt.id))  # fmt: skip
        start = 0
        for one in done.rounds:
            if start < window:
                made[:, n] += (1, one.proposed, one.accepted)
            start += len(one.emitted)
    for ours, loop in ((found.drafted, made[1]), (found.kept, made[2])):
        rates, errors = [], []
        for above, below in ((ours, found.rounds), (loop, made[0])):
            rate = above.sum() / below.sum()
            rates.append(rate)
            errors.append(np.sqrt(((above - rate * below) ** 2).sum()) / below.sum())
        assert abs(rates[0] - rates[1]) < 5 * np.hypot(*errors)
        assert 0 < np.hypot(*errors) < 0.1 * rates[1]
    assert (
        1.2 < found.drafted.sum() / found.rounds.sum() < most - 0.2
    )  # the stop does stop, not always


def test_the_fit_finds_the_curve_that_made_the_acceptance():
    """p = a q at the drafted token for a known a(H, ln q) would need p by token; here q and p agree on easy positions and not on
    hard ones, so predicted acceptance must fall with entropy, and its mean must be the mean acceptance."""
    rng = np.random.default_rng(0)
    V, N, L = 8, 6, 60
    sharp = torch.full((V,), 0.01).index_fill(0, torch.tensor([0]), 0.93)
    flat = torch.full((V,), 1 / V)
    other = torch.full((V,), 0.02).index_fill(0, torch.tensor([5]), 0.86)
    hard = torch.from_numpy(rng.random((N, L)) < 0.5)[..., None]
    p, q = torch.where(hard, other, sharp), torch.where(hard, flat, sharp)
    texts = Texts(torch.zeros(N, L, dtype=torch.long), p, torch.arange(N))
    level, by_entropy, by_log, mean = fit(texts, q, np.arange(N))
    stop = PredictedOverlap(level, by_entropy, by_log, 0.5)
    easy, difficult = stop.predicted(sharp, 0), stop.predicted(flat, 3)
    assert easy > 0.97  # accepted always
    beta = float(torch.minimum(other, flat).sum())
    assert abs(difficult - beta) < 0.1  # 180 draws of it: deviation below .04
    share = float(hard.float().mean())
    assert abs(mean - (1 - share + share * beta)) < 0.08


def made_record(draft="rtn3", temperature=1.0) -> dict:
    def counts(rounds, drafted, kept, chosen=""):
        return {"chosen": chosen, "choosing": 1.0, "rounds": rounds, "drafted": drafted, "kept": kept}  # fmt: skip

    return {
        "point": {"draft": draft, "temperature": temperature},
        "inputs": {"version": VERSION, "draft": draft, "temperature": temperature},
        "environment": {"time": "2026-11-30T00:00:00Z"},
        "result": {
            "c": 0.25,
            "fit": {"level": 1.0, "by_entropy": -0.5, "by_log": 0.25, "usual": 0.8},
            "formula_least": 0.6,
            "prompts": ["a", "b"],
            "policies": {
                "fixed": counts([10, 10], [40, 40], [20, 20], "4"),
                "oracle": counts([10, 10], [20, 20], [20, 20]),
                "recent alpha": counts([10, 10], [30, 30], [20, 20], "recent,5"),
            },
        },
    }


def test_shares_of_the_gap_by_hand():
    """60 tokens: over 20 + 80/4 = 40 passes 1.5, oracle 60 / 30 = 2, the policy 60 / 35; (1.714 - 1.5) / .5 = 43%."""
    by_name = {row.name: row for row in rows_of([made_record()])}
    assert by_name["fixed"].speed_up.value == 1.5 and by_name["oracle"].speed_up.value == 2.0
    share = by_name["recent alpha"].share
    assert share.value == pytest.approx((60 / 35 - 1.5) / 0.5)
    assert share.low == pytest.approx(share.value)  # two prompts alike: no spread
    assert by_name["recent alpha"].tokens == 3.0 and by_name["recent alpha"].drafted == 3.0
    text = "\n".join(lines([made_record()]))
    assert (
        "43 [43, 43]" in text
        and "recent,5" in text
        and "sigmoid(1 -0.5 H(q) +0.25 ln q(x))" in text
    )


def test_the_gap_that_luck_alone_makes():
    """alpha 1/2, c 1/4, at most 2: fixed 1 gives 1.5 / 1.25 = 1.2, fixed 2 1.75 / 1.5; the oracle 1.75 / (1 + .75 / 4)."""
    assert by_luck(0.5, 0.25, 2) == pytest.approx((1.2, 1.75 / 1.1875))
    assert "oracle" in lines([made_record()])[-1]


def test_the_figure_of_records_and_of_none():
    from experiments.drawing.style import to_png

    for records in ([made_record(), made_record("rtn4"), made_record(temperature=0.5)], []):
        assert to_png(lengths(records)).startswith(b"\x89PNG")
