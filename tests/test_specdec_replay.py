"""Replay says what the loop would have done, text by text, without a coin.

Against full enumeration of the loop on table models: to 1e-11 of a count, conditional on the text (expected counts are sums of
products that are right to 1e-16, divided by the text's own probability, here never below 1e-4).
"""

import itertools

import numpy as np
import pytest
import torch

from experiments.exact.laws import walks
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance, generator_for
from micro.sampling import Sampling
from specdec.closed_forms import CLOSED_FORMS
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft
from specdec.record import Totals
from specdec.replay import acceptance_given_output, replay
from specdec.replay_rules import match_given_output, replay_block, replay_rule
from specdec.table import TableModel, near, random_model, table_law
from specdec.theory import tokens_per_pass

PROMPT = [1, 0]
COUNTS = ("rounds", "checked", "accepted", "full_rounds")


def inside(generation, window: int) -> Totals:
    """Totals of the rounds that start in the window's positions; each counts whole."""
    start, kept = 0, []
    for one in generation.rounds:
        if start < window:
            kept.append(one)
        start += len(one.emitted)
    return Totals.of(kept)


def expected_by_walking(runs, window: int) -> dict[tuple, np.ndarray]:
    """text -> expected counts of the loop, given that this text came out."""
    sums: dict[tuple, np.ndarray] = {}
    for probability, generation in runs:
        totals = inside(generation, window)
        row = probability * np.array([1.0, *(getattr(totals, name) for name in COUNTS)])
        sums[generation.tokens] = sums.get(generation.tokens, 0.0) + row
    return {text: row[1:] / row[0] for text, row in sums.items() if row[0] > 1e-4}


def probabilities(model: TableModel, text, sampling) -> np.ndarray:
    """(1, len(text)): what `model` gave each token of `text`."""
    laws = [table_law(model, (*PROMPT, *text[:i]), sampling) for i in range(len(text))]
    return np.array([[float(law[token]) for law, token in zip(laws, text)]])


def by_replay(rule: str, p_x, q_x, gamma: int, window: int):
    if rule == "block":
        return replay_block(p_x, q_x, gamma, window)
    factor = {"token": acceptance_given_output, "match": match_given_output}[rule]
    return replay(factor(p_x, q_x), gamma, window)


CUT = Sampling(0.7, top_k=2, top_p=0.9)
WALKED = [  # rule, vocabulary, gamma, window, sampling: match draws at every place, so its walks must be shorter
    *(("token", *case) for case in ((2, 1, 3), (2, 2, 3), (2, 3, 2), (3, 2, 1))),
    *(("block", *case) for case in ((2, 1, 3), (2, 2, 3), (2, 3, 2), (3, 2, 1))),
    *(("match", *case) for case in ((2, 1, 3), (2, 2, 2), (3, 1, 2))),
]


@pytest.mark.parametrize("rule, vocab, gamma, window", WALKED)
@pytest.mark.parametrize("sampling", [Sampling(), CUT])
def test_replay_equals_enumeration_of_the_loop(rule, vocab, gamma, window, sampling):
    """Texts run gamma past the window, so that every round that starts inside it drafts gamma and has room for its bonus."""
    target = random_model(vocab, seed=vocab + gamma)
    far = [] if (rule, gamma) != ("token", 2) else [random_model(vocab, seed=31)]
    for model in (near(target, spread=1.0), *far):
        runs = walks(target, ModelDraft(model, 1), PROMPT, max_new_tokens=window + gamma,
                     gamma=gamma, sampling=sampling, rule=rule)  # fmt: skip
        walked = expected_by_walking(runs, window)
        assert len(walked) > vocab
        for text, want in walked.items():
            p_x = probabilities(target, text, sampling)
            q_x = probabilities(model, text, sampling)
            got = by_replay(rule, p_x, q_x, gamma, window)
            got = np.array([getattr(got, name)[0] for name in COUNTS])
            assert np.abs(got - want).max() < 1e-11


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_a_point_mass_has_a_factor_of_one_or_nothing(rule):
    script = [0, 1, 1, 0, 1]
    target, window, gamma = random_model(2, seed=21), 3, 2
    runs = walks(target, ScriptedDraft([*PROMPT, *script]), PROMPT,
                 max_new_tokens=window + gamma, gamma=gamma, rule=rule)  # fmt: skip
    for text, want in expected_by_walking(runs, window).items():
        p_x = probabilities(target, text, Sampling())
        q_x = np.array([[float(a == b) for a, b in zip(text, script)]])
        got = by_replay(rule, p_x, q_x, gamma, window)
        assert np.abs([getattr(got, n)[0] - w for n, w in zip(COUNTS, want)]).max() < 1e-11


def test_the_control_a_wrong_factor_shows():
    """min(1, p / q), the chance given the drafted token, is not the chance given the output."""
    target = random_model(2, seed=4)
    model = near(target, spread=1.0)
    runs = walks(target, ModelDraft(model, 1), PROMPT, max_new_tokens=5, gamma=2)
    worst = 0.0
    for text, want in expected_by_walking(runs, 3).items():
        p_x, q_x = (probabilities(m, text, Sampling()) for m in (target, model))
        got = replay(acceptance_given_output(q_x, p_x), 2, 3)
        worst = max(worst, abs(got.rounds[0] - want[0]))
    assert worst > 1e-2


# --- the surplus, a control variate


@pytest.mark.parametrize("rule", ["token", "match", "coupled"])
@pytest.mark.parametrize("sampling", [Sampling(), CUT])
def test_surplus_is_of_mean_zero_over_every_text(rule, sampling):
    """All 3^4 texts of a table model, each by its probability: exact, and not so with chances that are another rule's."""
    target, gamma, window = random_model(3, seed=8), 2, 3
    model = near(target, spread=1.0)
    texts = list(itertools.product(range(3), repeat=window - 1 + gamma))
    p, q = (
        np.array([[table_law(m, (*PROMPT, *t[:i]), sampling).double().numpy() for i in range(len(t))] for t in texts])
        for m in (target, model)
    )  # fmt: skip
    x = np.array(texts)
    p_x, q_x = (np.take_along_axis(law, x[..., None], -1)[..., 0] for law in (p, q))
    weights, possible = p_x.prod(1), p_x.prod(1) > 0
    assert weights.sum() == pytest.approx(1, abs=1e-6)  # laws are float32
    (one,) = replay_rule(rule, p[possible], q[possible], x[possible], [gamma], window)

    def mean(form: str) -> float:
        surplus = one.surplus(CLOSED_FORMS[form](p, q)[possible])
        assert np.abs(surplus).max() > 0.1
        return float(weights[possible] @ surplus)

    assert abs(mean(rule)) < 1e-6
    assert abs(mean("match" if rule != "match" else "token")) > 1e-2


# --- laws of the counts


def random_chances(texts=50, length=90, seed=1) -> np.ndarray:
    return generator_for(seed, "chances").beta(2.0, 0.7, size=(texts, length))


@pytest.mark.parametrize("gamma", [1, 2, 4, 8, 15])
def test_identity_between_tokens_per_pass_alpha_and_full_rounds(gamma):
    totals = replay(random_chances(), gamma, 64).totals()
    alpha, M = totals.alpha, totals.full_share
    assert totals.tokens_per_pass == pytest.approx(1 + alpha * (1 - M) / (1 - alpha), rel=1e-12)
    over = tokens_per_pass(alpha, gamma) - totals.tokens_per_pass
    assert over == pytest.approx((M - alpha**gamma) * alpha / (1 - alpha), abs=1e-12)


def test_identity_in_the_loop_itself():
    """Rounds that are not cut: all but the last one of a text."""
    target = random_model(3, seed=6)
    done = []
    for seed in range(20):
        steps = rounds(target, ModelDraft(near(target), 1), [0], max_new_tokens=40, gamma=3,
                       sampling=Sampling(), chance=SeededChance(seed))  # fmt: skip
        done += [one for one, _ in steps if one.proposed == 3 and one.final]
    totals = Totals.of(done)
    alpha, M = totals.alpha, totals.full_share
    assert 0.3 < alpha < 1
    assert totals.tokens_per_pass == pytest.approx(1 + alpha * (1 - M) / (1 - alpha), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("gamma", [1, 4, 10])
def test_constant_chances_give_the_formula(alpha, gamma):
    totals = replay(np.full((3, 80), alpha), gamma, 64).totals()
    assert totals.alpha == pytest.approx(alpha, abs=1e-12)
    assert totals.tokens_per_pass == pytest.approx(tokens_per_pass(alpha, gamma), rel=1e-12)
    assert totals.full_share == pytest.approx(alpha**gamma, abs=1e-12)


def test_slowly_drifting_difficulty_is_over_predicted():
    """Half the text at 1, half at 1/2, gamma 4. Rounds of 5 and of f(1/2) = 1.9375 tokens over equal stretches of text."""
    stretches = np.tile(np.repeat([1.0, 0.5], 1000), 20)
    totals = replay(np.r_[stretches, np.ones(4)][None], 4, len(stretches)).totals()
    truth = 2 / (1 / 5 + 1 / tokens_per_pass(0.5, 4))
    # but for rounds astride an edge
    assert totals.tokens_per_pass == pytest.approx(truth, rel=1e-4)
    assert round(truth, 3) == 2.793
    # over equal stretches of n tokens: n/5 rounds keep 4 of 4; n/1.9375 keep .9375 of 1.875
    easy, hard = 1 / 5, 1 / 1.9375
    alpha = (4 * easy + 0.9375 * hard) / (4 * easy + 1.875 * hard)
    assert round(tokens_per_pass(alpha, 4), 3) == 2.915
    assert round(tokens_per_pass(0.75, 4), 3) == 3.051
    assert totals.tokens_per_pass < tokens_per_pass(totals.alpha, 4) < tokens_per_pass(0.75, 4)


def test_whole_rounds_easy_or_hard_are_under_predicted_by_the_mean():
    """Each round is easy or hard with equal chance, gamma 4: not a law of positions, so from Totals of the two kinds."""
    easy = replay(np.ones((1, 9)), 4, 1).totals()
    hard = replay(np.full((1, 9), 0.5), 4, 1).totals()
    both = easy + hard
    assert round(tokens_per_pass(0.75, 4), 3) == 3.051
    assert round(both.tokens_per_pass, 3) == 3.469
    assert round(tokens_per_pass(both.alpha, 4), 3) == 3.639


def test_counts_hang_together():
    a = random_chances()
    for gamma in (1, 3, 9):
        expected = replay(a, gamma, 64)
        totals = expected.totals()
        assert totals.proposed == totals.draft_passes == pytest.approx(gamma * totals.rounds)
        assert totals.emitted == pytest.approx(totals.accepted + totals.rounds)
        assert totals.checked == pytest.approx(totals.accepted + totals.rounds - totals.full_rounds)
        # every position of the window is emitted by some round; the last one overshoots by at most gamma
        per_text = expected.accepted + expected.rounds
        assert (per_text >= 64 - 1e-9).all() and (per_text <= 64 + gamma + 1e-9).all()


def test_weights_count_texts_as_often_as_they_say():
    a = random_chances(texts=4)
    weighted = replay(a, 3, 40).totals(np.array([2.0, 0.0, 1.0, 0.0]))
    by_hand = replay(a[[0, 0, 2]], 3, 40).totals()
    for name, value in weighted.to_json().items():
        assert value == pytest.approx(getattr(by_hand, name), rel=1e-12)


def test_a_text_that_is_too_short_is_refused():
    replay(np.ones((1, 8)), 4, 5)
    with pytest.raises(ValueError, match="texts of 7 positions; window 5 and gamma 4 need 8"):
        replay(np.ones((1, 7)), 4, 5)
    with pytest.raises(ValueError, match="texts of 7 positions"):
        replay_block(np.ones((1, 7)), np.ones((1, 7)), 4, 5)


# --- against the loop with real caches


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_replay_agrees_with_the_loop_on_a_small_micro(rule):
    """At equal texts: the loop's own. Given the text, rounds minus replay's expectation has mean 0, so its mean over 60 texts
    lies within 5 standard errors (chance of a false alarm 6e-7); a standard error is below 2% of the rounds.
    """
    window, gamma, texts, sampling = 24, 3, 60, Sampling()
    target = small_micro(vocab=32, context=64)
    draft = make_draft(target, "rtn3")
    differences, all_rounds = [], 0
    for seed in range(texts):
        prompt = [seed % 32, 5]
        done = generate(target, draft, prompt, max_new_tokens=window + gamma, gamma=gamma,
                        sampling=sampling, chance=SeededChance(seed), rule=rule)  # fmt: skip
        text = [*prompt, *done.tokens]
        p_x, q_x = (_scored(m, text, len(prompt), sampling) for m in (target, draft.model))
        expected = by_replay(rule, p_x, q_x, gamma, window)
        totals = inside(done, window)
        all_rounds += totals.rounds
        differences.append([getattr(totals, n) - getattr(expected, n)[0] for n in COUNTS])
    differences = np.array(differences)
    errors = differences.std(0, ddof=1) / texts**0.5
    assert (errors > 0).all() and errors[0] < 0.02 * all_rounds / texts
    assert (np.abs(differences.mean(0)) < 5 * errors).all()


@torch.inference_mode()
def _scored(model, tokens, start: int, sampling) -> np.ndarray:
    laws = sampling.probs(model(torch.tensor([tokens]))[0][0, start - 1 : -1])
    chosen = torch.tensor(tokens[start:])[:, None]
    return laws.gather(1, chosen)[:, 0].double().numpy()[None]
