"""The real generate() with real caches and seeded chance: are its texts distributed as the target's?

With K cells and n draws, |frequencies - law|_1 > sqrt(2 (K ln 2 + ln 1/a) / n) happens with chance at most a (Weissman et al.
2003). Each comparison spends a = 1e-6, and there are fewer than 100 of them. Each test says the smallest total variation that it
sees with chance 1 - a: that bound itself, since an error of total variation d is 2 d in this norm, and noise hides at most one
bound of it. Seeds are fixed: a failure repeats.
"""

import itertools
import math

import numpy as np
import pytest
import torch

import specdec.accept
from experiments.exact_laws import law_of, target_law, walks
from experiments.small_model import small_micro
from micro.chance import SeededChance, generator_for
from micro.sampling import Sampling
from specdec.accept import RULES, verify
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import TreeDraft
from specdec.proposal import Proposal
from specdec.table import near, random_model

FALSE_ALARM = 1e-6


def seen(cells: int, draws: int) -> float:
    """The bound: what noise exceeds with chance FALSE_ALARM, and the smallest total variation that is surely seen."""
    return math.sqrt(2 * (cells * math.log(2) + math.log(1 / FALSE_ALARM)) / draws)


def agrees(counts: np.ndarray, law: np.ndarray) -> bool:
    draws = counts.sum()
    return np.abs(counts / draws - law).sum() <= seen(len(law), draws)


def shifted(law: np.ndarray, distance: float) -> np.ndarray:
    """A law at exactly this total variation: mass goes from the likeliest cells to the last one that is not among them."""
    law, left = law.copy(), distance
    order = np.argsort(-law)
    for cell in order[:-1]:
        taken = min(left, law[cell])
        law[cell], left = law[cell] - taken, left - taken
    law[order[-1]] += distance
    assert left < 1e-12
    return law


# --- the instrument


@pytest.mark.parametrize("cells, draws", [(8, 4_000), (81, 6_000), (243, 20_000)])
def test_an_error_of_the_stated_size_is_caught_and_none_is_not(cells, draws):
    law = generator_for(cells, "law").dirichlet([0.5] * cells)
    wrong = shifted(law, seen(cells, draws))
    assert np.abs(wrong - law).sum() / 2 == pytest.approx(seen(cells, draws))
    rng = generator_for(1, "draws")
    assert sum(not agrees(rng.multinomial(draws, wrong), law) for _ in range(10)) >= 9
    assert all(agrees(rng.multinomial(draws, law), law) for _ in range(200))


# --- tables


def counted(target, draft, cells, draws, gamma, **options) -> np.ndarray:
    counts = dict.fromkeys(cells, 0)
    for seed in range(draws):
        done = generate(target, draft, [1, 0], max_new_tokens=len(cells[0]), gamma=gamma,
                        sampling=Sampling(), chance=SeededChance(seed), **options)  # fmt: skip
        counts[done.tokens] += 1
    return np.array(list(counts.values()))


def table_test(draft_of, gamma, draws, **options):
    target = random_model(3, seed=2)
    law = target_law(target, [1, 0], gamma + 2)
    counts = counted(target, draft_of(target), list(law), draws, gamma, **options)
    return agrees(counts, np.array(list(law.values())))


DRAFTS = {
    "near": lambda target: ModelDraft(near(target), 1),
    "far": lambda target: ModelDraft(near(target, spread=4.0), 1),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", DRAFTS)
def test_joint_law_of_three_tokens(draft, rule):
    """gamma 1, 27 cells, 3,000 draws: sees a total variation of .148."""
    assert seen(27, 3_000) < 0.148
    assert table_test(DRAFTS[draft], 1, 3_000, rule=rule)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", DRAFTS)
def test_joint_law_of_five_tokens(draft, rule):
    """gamma 3, 243 cells, 20,000 draws: sees a total variation of .136."""
    assert seen(243, 20_000) < 0.136
    assert table_test(DRAFTS[draft], 3, 20_000, rule=rule)


@pytest.mark.slow
def test_joint_law_with_a_tree():
    """gamma 3, 243 cells, 20,000 draws: sees a total variation of .136."""
    assert table_test(lambda t: TreeDraft(near(t), (-1, -1, 0), "without"), 3, 20_000)


def test_a_planted_fault_is_caught_through_generate(monkeypatch):
    """The correction drawn from p, with a far draft: by enumeration its total variation is beyond what is seen."""
    monkeypatch.setattr(specdec.accept, "residual", lambda p, q, token: p)
    target = random_model(3, seed=2)
    draft = DRAFTS["far"](target)
    law = target_law(target, [1, 0], 3)
    wrong = law_of(walks(target, draft, [1, 0], max_new_tokens=3, gamma=1))
    distance = sum(abs(wrong[text] - law[text]) for text in law) / 2
    assert distance > seen(27, 5_000)
    assert not table_test(DRAFTS["far"], 1, 5_000)


# --- verify alone, many draws


@pytest.mark.parametrize("rule", RULES)
def test_verify_over_20_000_draws(rule):
    """First token out of a chain of two over 4 tokens, 20,000 draws: sees a total variation of .041."""
    assert seen(4, 20_000) < 0.041
    rng = generator_for(5, "verify")
    p, q = (torch.from_numpy(rng.dirichlet([1.0] * 4, size=3)) for _ in range(2))
    chance, counts = SeededChance(1), np.zeros(4)
    for _ in range(20_000):
        tokens = [chance.draw(law, 0) for law in q[:2]]
        verdict = verify(Proposal.chain(tokens, list(q[:2]), 2), p, chance, rule=rule)
        counts[tokens[0] if verdict.kept else verdict.token] += 1
    assert agrees(counts, p[0].numpy())


# --- a Transformer with its real caches, through projections to few classes

PROJECTIONS = {  # four new tokens (n, 4) -> classes (n,)
    "parities of tokens 2 to 4": (8, lambda x: (x[:, 1:] % 2) @ np.array([1, 2, 4])),
    "sum of all four, by eighths": (8, lambda x: x.sum(1) % 8),
    "first and last, halves and thirds": (6, lambda x: (x[:, 0] >= 8) * 3 + x[:, 3] % 3),
}


@torch.inference_mode()
def micro_law(model, prompt, sampling, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Every continuation (V^length, length) and its probability, from passes without a cache."""
    texts, mass = torch.tensor([prompt]), torch.ones(1, dtype=torch.float64)
    for _ in range(length):
        p = sampling.probs(model(texts)[0][:, -1]).double()  # (n, V)
        n, V = p.shape
        texts = torch.cat((texts.repeat_interleave(V, 0), torch.arange(V).repeat(n)[:, None]), 1)
        mass = (mass[:, None] * p).flatten()
    return texts[:, len(prompt) :].numpy(), mass.numpy()


def micro_test(format: str, draws: int, rule: str = "token", prompt=(3, 7)) -> dict[str, bool]:
    """Projection -> does it agree. Vocabulary 16, gamma 2, the joint of gamma + 2 = 4 tokens."""
    sampling = Sampling(0.7, top_k=12, top_p=0.95)
    target = small_micro(vocab=16, context=32)
    texts, law = micro_law(target, list(prompt), sampling, 4)
    assert law.sum() == pytest.approx(1.0, abs=1e-6)
    draft = make_draft(target, format)
    drawn = np.array([
        generate(target, draft, list(prompt), max_new_tokens=4, gamma=2, sampling=sampling,
                 chance=SeededChance(seed), rule=rule).tokens
        for seed in range(draws)
    ])  # fmt: skip
    return {
        name: agrees(
            np.bincount(classes(drawn), minlength=K),
            np.bincount(classes(texts), weights=law, minlength=K),
        )
        for name, (K, classes) in PROJECTIONS.items()
    }


@pytest.mark.parametrize("format, rule", [("rtn4", "token"), ("rtn2", "block")])
def test_micro_with_real_caches(format, rule):
    """At most 8 cells, 1,500 draws: sees a total variation of .161. Near (4 bits) and far (2 bits) drafts."""
    assert seen(8, 1_500) < 0.161
    assert all(micro_test(format, 1_500, rule).values())


@pytest.mark.slow
@pytest.mark.parametrize("format, rule", list(itertools.product(["rtn4", "rtn2"], RULES)))
def test_micro_with_real_caches_over_20_000_draws(format, rule):
    """At most 8 cells, 20,000 draws: sees a total variation of .045."""
    assert seen(8, 20_000) < 0.045
    assert all(micro_test(format, 20_000, rule).values())


def test_a_planted_fault_is_caught_with_real_caches(monkeypatch):
    """A far draft (2 bits) that is never checked: some projection sees it."""
    monkeypatch.setattr(specdec.accept, "acceptance", lambda p, q, token: 1.0)
    assert not all(micro_test("rtn2", 800).values())
