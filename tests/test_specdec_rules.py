"""Block verification, match and coupled sampling: their own laws, beside the exactness that test_specdec_enumerate shows."""

import numpy as np
import pytest
import torch

from experiments.exact.laws import walks
from experiments.exact.small_model import small_micro
from micro.chance import KeyedChance, SeededChance, every_branch, generator_for
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.accept import RULES, chance_for, token_rule, verify
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TreeDraft
from specdec.proposal import Proposal
from specdec.replay import replay
from specdec.replay_rules import coupled_given_output, match_given_output, replay_block
from specdec.table import constant_model, near, random_model


def accepted(target, model, gamma, rule, sampling=None):
    """Expected accepted tokens of one round with room for its bonus."""
    sampling = sampling or Sampling()
    runs = walks(target, ModelDraft(model, 1), [0], max_new_tokens=gamma + 1, gamma=gamma,
                 sampling=sampling, rule=rule)  # fmt: skip
    return sum(chance * generation.rounds[0].accepted for chance, generation in runs)


def accepted_once(p_rows, q_rows, rule):
    """The same, of a chain from independent laws q (gamma, V), judged by p (gamma + 1, V)."""

    def kept(chance):
        tokens = [chance.draw(q, place) for place, q in enumerate(q_rows)]
        proposal = Proposal.chain(tokens, list(q_rows), passes=len(tokens))
        return len(verify(proposal, p_rows, chance, rule=rule).kept)

    return sum(chance * length for chance, length in every_branch(kept))


# --- block


def test_the_papers_two_token_example():
    """Target (1/3, 2/3), draft (2/3, 1/3), two drafted tokens: 10/9 kept by the token rule, 11/9 by the block."""
    target, model = constant_model([1 / 3, 2 / 3]), constant_model([2 / 3, 1 / 3])
    assert accepted(target, model, 2, "token") == pytest.approx(10 / 9, abs=1e-12)
    assert accepted(target, model, 2, "block") == pytest.approx(11 / 9, abs=1e-12)


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_block_never_keeps_less_than_token(gamma):
    gains = []
    for seed in range(12):
        target = random_model(3, seed)
        for model in (near(target), near(target, spread=3.0), random_model(3, seed + 50)):
            gains.append(one_round_gain(target, model, gamma))
    assert min(gains) > -1e-12
    assert max(gains) > 1e-3 if gamma > 1 else max(gains) < 1e-12  # one token is judged alike


def one_round_gain(target, model, gamma):
    """Block's kept tokens less token's, given by replay's chances over every text of gamma tokens."""
    gain, texts = 0.0, np.indices((3,) * gamma).reshape(gamma, -1).T
    for text in texts:
        p_x, q_x = (
            np.array([[float(Sampling().probs(m.logits((0, *text[:i])))[t]) for i, t in enumerate(text)]])
            for m in (target, model)
        )  # fmt: skip
        block = replay_block(p_x, q_x, gamma, 1).accepted[0]
        token = replay(np.minimum(1, q_x / p_x), gamma, 1).accepted[0]
        gain += float(p_x.prod()) * (block - token)
    return gain


def test_block_equals_token_at_temperature_0():
    for seed in range(6):
        target = random_model(4, seed)
        for model in (near(target), random_model(4, seed + 50)):
            runs = [
                list(walks(target, ModelDraft(model, 1), [0], max_new_tokens=9, gamma=4,
                           sampling=Sampling(0.0), rule=rule))
                for rule in ("token", "block")
            ]  # fmt: skip
            assert runs[0] == runs[1] and len(runs[0]) == 1


def test_block_keeps_all_of_an_equal_draft():
    p = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])  # float32, as micro's laws are
    assert accepted_once(p, p[:2], "block") == pytest.approx(2, abs=1e-7)


def test_block_is_exact_where_laws_are_disjoint():
    """Nothing is ever kept, and the residual is the target's own law."""
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]).double()
    q = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).double()
    proposal = Proposal.chain([2, 1], list(q), passes=2)
    outcomes = list(every_branch(lambda chance: verify(proposal, p, chance, rule="block")))
    assert all(v.kept == () and v.checked == 1 and v.rejected for _, v in outcomes)
    assert {v.token: chance for chance, v in outcomes} == pytest.approx({0: 0.5, 1: 0.5})


# --- match


def test_match_accepts_sum_of_p_q():
    rng = generator_for(1, "match")
    for vocab in (2, 3, 6):
        p, q = (torch.from_numpy(rng.dirichlet([1.0] * vocab, size=2)) for _ in range(2))
        want = float((p[0] * q[0]).sum())
        assert accepted_once(p, q[:1], "match") == pytest.approx(want, abs=1e-12)
        given = match_given_output(p[0].numpy(), q[0].numpy())
        assert float((p[0].numpy() * given).sum()) == pytest.approx(want, abs=1e-12)


# --- coupled


def coupled_alpha(p, q) -> float:
    """sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i), by replay's factor."""
    x = np.nonzero(p)[0]
    P, Q = (np.broadcast_to(law, (len(x), len(p))) for law in (p, q))
    return float((p[x] * coupled_given_output(P, Q, x)).sum())


def some_laws(vocab, count=40):
    rng = generator_for(vocab, "coupled")
    for _ in range(count):
        yield rng.dirichlet([0.6] * vocab), rng.dirichlet([0.6] * vocab)


@pytest.mark.parametrize("vocab", [2, 3, 8, 64])
def test_coupled_acceptance_lies_between_its_bounds(vocab):
    for p, q in some_laws(vocab):
        tv = np.abs(p - q).sum() / 2
        assert (1 - tv) / (1 + tv) - 1e-12 <= coupled_alpha(p, q) <= 1 - tv + 1e-12
        assert coupled_alpha(p, p) == pytest.approx(1.0, abs=1e-12)
        assert coupled_alpha(p, q) == pytest.approx(coupled_alpha(q, p), abs=1e-12)


def test_coupled_acceptance_of_two_tokens_is_the_overlap():
    """With two tokens both draws are thresholds on one variable, which is maximal coupling."""
    for p, q in some_laws(2):
        assert coupled_alpha(p, q) == pytest.approx(np.minimum(p, q).sum(), abs=1e-12)


def test_coupled_factor_at_point_masses_and_zeros():
    p = np.array([[0.25, 0.75, 0.0]] * 2)
    point = np.array([[0.0, 1.0, 0.0]] * 2)
    assert coupled_given_output(p, point, np.array([0, 1])) == pytest.approx([0.0, 1.0])
    q = np.array([[0.5, 0.0, 0.5]])
    assert coupled_given_output(p[:1], q, np.array([0])) == pytest.approx(
        [1 / (0.25 * (1 + 3 + 1))]
    )


def test_coupled_factor_is_what_shared_noise_does():
    """200,000 draws under shared Gumbel noise, as KeyedChance draws: each cell within 5 deviations (at most .0056)."""
    rng, n = generator_for(1, "gumbel"), 200_000
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.25, 0.05, 0.3])
    noise = rng.gumbel(size=(n, 4))
    x, y = (np.argmax(np.log(law) + noise, axis=1) for law in (p, q))
    for token in range(4):
        want = p[token] * coupled_given_output(p[None], q[None], np.array([token]))[0]
        got = ((x == token) & (y == token)).mean()
        assert abs(got - want) < 5 * (want * (1 - want) / n) ** 0.5


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 1.5])
def test_coupled_text_is_the_same_with_any_draft_and_with_none(temperature):
    target, sampling = random_model(6, seed=3), Sampling(temperature, top_p=0.95)
    drafts = [
        ModelDraft(near(target), 1),
        ModelDraft(random_model(6, seed=50), 1),
        ModelDraft(target, 1),
        ScriptedDraft([1, 2, 3] * 30),
        TreeDraft(near(target), (-1, -1, 0, 1), "with"),
    ]
    for seed in range(5):
        want = plain(target, [1, 2], 40, sampling, KeyedChance(seed))
        for draft in drafts:
            done = generate(target, draft, [1, 2], max_new_tokens=40, gamma=4, sampling=sampling,
                            chance=KeyedChance(seed), rule="match")  # fmt: skip
            assert list(done.tokens) == want


def test_coupled_text_of_micro_in_lanes():
    target = small_micro()
    for seed in range(3):
        want = plain(target, [1, 2], 60, Sampling(), KeyedChance(seed), lanes=8)
        done = generate(target, make_draft(target, "rtn3"), [1, 2], max_new_tokens=60, gamma=4,
                        sampling=Sampling(), chance=KeyedChance(seed), lanes=8, rule="match")  # fmt: skip
        assert list(done.tokens) == want
        assert done.totals.alpha > 0.5  # independent draws would match far less often


def test_the_same_noise_with_an_ordinary_residual_is_biased(monkeypatch):
    """The control: keyed draws judged by the token rule. The target's first token must then be off, as the literature says."""
    monkeypatch.setitem(RULES, "coupled", token_rule)
    p = [0.4, 0.4, 0.2]
    target, model = constant_model(p), constant_model([0.01, 0.29, 0.7])
    n, counts = 4_000, np.zeros(3)
    for seed in range(n):
        done = generate(target, ModelDraft(model, 1), [0], max_new_tokens=1, gamma=1,
                        sampling=Sampling(), chance=KeyedChance(seed), rule="coupled")  # fmt: skip
        counts[done.tokens[0]] += 1
    assert abs(counts / n - p).max() > 0.03  # the bias is .057, the noise .008


@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_rule_with_a_residual_refuses_keyed_chance(rule):
    target = constant_model([0.5, 0.5])
    with pytest.raises(ValueError, match=f"rule '{rule}' is biased under keyed chance"):
        generate(target, ModelDraft(target, 1), [0], max_new_tokens=4, gamma=1,
                 sampling=Sampling(), chance=KeyedChance(1), rule=rule)  # fmt: skip
    assert isinstance(chance_for(rule, 1), SeededChance)
    assert isinstance(chance_for("coupled", 1), KeyedChance)


def test_coupled_replay_agrees_with_the_loop():
    """At equal texts, over 300 keyed texts of 3 tokens' vocabulary: mean difference within 5 standard errors."""
    target = random_model(4, seed=8)
    model, gamma, window = near(target, spread=1.0), 2, 12
    differences = []
    for seed in range(300):
        done = generate(target, ModelDraft(model, 1), [1], max_new_tokens=window + gamma, gamma=gamma,
                        sampling=Sampling(), chance=KeyedChance(seed), rule="match")  # fmt: skip
        p, q = (
            np.stack([Sampling().probs(m.logits((1, *done.tokens[:i]))).numpy() for i in range(window + gamma)])
            for m in (target, model)
        )  # fmt: skip
        a = coupled_given_output(p, q, np.array(done.tokens))
        start, count = 0, 0
        for one in done.rounds:
            count += start < window
            start += len(one.emitted)
        differences.append(count - replay(a[None], gamma, window).rounds[0])
    error = np.std(differences, ddof=1) / 300**0.5
    assert 0 < error < 0.1 and abs(np.mean(differences)) < 5 * error
