"""What replay tells beyond totals: depths in the round, positions in the text, every gamma and rule at once."""

import numpy as np
import pytest

from experiments.exact.laws import walks
from micro.chance import generator_for
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.drafts.model import ModelDraft
from specdec.replay import replay
from specdec.replay_rules import replay_rule
from specdec.table import near, random_model, table_law

PROMPT = [1, 0]


def made_up(texts=30, length=50, vocab=5, seed=1, spread=0.7):
    """Laws p, q (texts, length, vocab) and x drawn from p."""
    rng = generator_for(seed, "whole")
    logits = rng.normal(size=(texts, length, vocab)) * 2
    p, q = (np.exp(z) / np.exp(z).sum(-1, keepdims=True)
            for z in (logits, logits + spread * rng.normal(size=logits.shape)))  # fmt: skip
    x = (p.cumsum(-1) < rng.random((texts, length, 1))).sum(-1)
    return p, q, x


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_depths_and_positions_equal_enumeration_of_the_loop(rule):
    """Given each text, to 1e-10: counts are sums of products right to 1e-16 over a text's probability, above 1e-5."""
    gamma, window, sampling = 2, 2, Sampling()
    target = random_model(2, seed=5)
    model = near(target, spread=1.0)
    found: dict[tuple, list] = {}
    for chance, done in walks(target, ModelDraft(model, 1), PROMPT,
                              max_new_tokens=window + gamma, gamma=gamma, rule=rule):  # fmt: skip
        sums = found.setdefault(done.tokens, [0.0, *np.zeros((4, max(window, gamma)))])
        start = 0
        sums[0] += chance
        for one in done.rounds:
            if start < window:
                sums[1][start] += chance
                sums[2][: one.accepted] += chance
                for at, kind in ((sums[3], one.checked), (sums[4], one.accepted)):
                    at[start : min(start + kind, window)] += chance
            start += len(one.emitted)
    assert len(found) == 2 ** (window + gamma)
    for text, (mass, *want) in found.items():
        assert mass > 1e-5
        prefixes = [(*PROMPT, *text[:i]) for i in range(len(text))]
        p, q = (
            np.array([[table_law(m, prefix, sampling).numpy() for prefix in prefixes]])
            for m in (target, model)
        )
        (got,) = replay_rule(rule, p, q, np.array([text]), [gamma], window)
        for name, values in zip(("starts", "kept", "checked_at", "accepted_at"), want):
            assert np.abs(getattr(got, name)[0] - values / mass).max() < 1e-10, name


@pytest.mark.parametrize("rule", RULES)
def test_counts_hang_together_and_the_identity_holds(rule):
    gammas, window = range(1, 9), 40
    for one in replay_rule(rule, *made_up(), gammas, window):
        totals = one.totals()
        alpha, M = totals.alpha, totals.full_share
        assert totals.tokens_per_pass == pytest.approx(1 + alpha * (1 - M) / (1 - alpha), rel=1e-12)
        assert one.starts[:, 0] == pytest.approx(1) and one.starts.shape == (30, window)
        assert one.checked_by_depth.sum(1) == pytest.approx(one.checked)
        assert (np.diff(one.kept) <= 1e-12).all() and (one.kept[:, 0] <= one.rounds).all()
        # what whole rounds do behind the window is in the counts and not in the positions
        assert (one.accepted_at.sum(1) <= one.accepted + 1e-9).all()
        assert (one.checked_at.sum(1) <= one.checked + 1e-9).all()
        # a position is an accepted token or the last of a round, behind which the next starts: all but the window's end
        ends = window - one.accepted_at.sum(1) - one.starts[:, 1:].sum(1)
        assert (ends >= -1e-9).all() and (ends <= 1 + 1e-9).all()


def test_a_constant_chance_gives_geometric_depths():
    one = replay(np.full((2, 80), 0.8), 4, 64)
    rounds = one.rounds[0]
    assert one.kept[0] / rounds == pytest.approx(0.8 ** np.arange(1, 5))
    assert one.accepted_at / one.checked_at == pytest.approx(np.full((2, 64), 0.8))


@pytest.mark.parametrize("spread", [0.2, 0.7, 3.0])
def test_block_never_accepts_less_than_token_on_average(spread):
    """Given a text block may lose; over the texts' law it does not. 400 texts: here it never does even in the sum."""
    p, q, x = made_up(texts=400, length=30, spread=spread)
    gains = [
        block.totals().tokens_per_pass - token.totals().tokens_per_pass
        for token, block in zip(*(replay_rule(r, p, q, x, range(1, 7), 24) for r in ("token", "block")))
    ]  # fmt: skip
    assert gains[0] == pytest.approx(0, abs=1e-12)  # one drafted token is judged alike
    assert min(gains) > -1e-12 and gains[-1] > gains[1] > 0


def test_greedy_laws_make_every_rule_one():
    p, q, x = made_up()
    p, q = ((law == law.max(-1, keepdims=True)).astype(float) for law in (p, q))
    x = p.argmax(-1)
    token, *others = (replay_rule(rule, p, q, x, [3], 40)[0] for rule in RULES)
    assert 0 < token.accepted.sum() < token.checked.sum()
    for other in others:
        assert np.array_equal(token.kept, other.kept) and np.array_equal(token.starts, other.starts)


def test_texts_are_worked_on_in_parts_of_any_size(monkeypatch):
    data = made_up(texts=7)
    whole = replay_rule("coupled", *data, [3], 40)[0].kept
    monkeypatch.setattr("specdec.replay_rules.TEXTS", 3)
    assert np.array_equal(replay_rule("coupled", *data, [3], 40)[0].kept, whole)
