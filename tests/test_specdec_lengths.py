"""How many tokens a round drafts, by the rounds before: what the policies say, and that the law cannot change."""

import pytest

from experiments.exact.caches import left_over
from experiments.exact.check import near_and_far, steps, texts
from experiments.exact.enumeration import COOL, PROMPT, by_walks, target_of
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from quant.bytes import pass_bytes
from specdec.drafts.lengths import (
    PRIOR_ALPHA,
    PRIOR_CHECKED,
    LengthDraft,
    PlusTwoMinusOne,
    Recent,
    Tried,
    length_draft,
)
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import model_draft
from specdec.drafts.spec import Spec
from specdec.drafts.tree import ModelTree
from specdec.table import constant_model, near, scripted_model
from specdec.theory import best_gamma
from specdec.trees import uniform

POLICIES = {"+2-1": PlusTwoMinusOne(1), "recent": Recent(0.3, 4)}


def make(target, spec):
    return model_draft(target, spec, spec)


# --- what a policy says


def test_two_more_after_a_full_round_and_one_fewer_after_any_other():
    full, refused = Tried(3, 3), Tried(3, 1)
    policy = PlusTwoMinusOne(2)
    lengths = [policy.length([full, full, refused, refused, full, refused][:n]) for n in range(7)]
    assert lengths == [2, 4, 6, 5, 4, 6, 5]
    assert policy.length([refused] * 5) == 1
    assert PlusTwoMinusOne().length([]) == 20


def test_recent_alpha_fades_and_gives_the_best_gamma():
    policy = Recent(0.2, 10)
    assert policy.alpha([]) == PRIOR_ALPHA
    one = Tried(4, 2)
    assert one.checked == 3 and Tried(4, 4).checked == 4
    fade = 0.9**3
    want = (PRIOR_ALPHA * PRIOR_CHECKED * fade + 2) / (PRIOR_CHECKED * fade + 3)
    assert policy.alpha([one]) == pytest.approx(want, rel=1e-12)
    assert policy.length([one]) == best_gamma(want, 0.2)[0]
    good, bad = [Tried(4, 4)] * 40, [Tried(4, 0)] * 40
    assert policy.alpha(good) > 0.99 and policy.alpha(bad) < 0.01
    assert policy.length(good) > 15 and policy.length(bad) == 1  # never 0
    assert policy.length(bad + good) > policy.length(good + bad) == 1


# --- the law


@pytest.mark.parametrize("which", ["near", "far"])
@pytest.mark.parametrize("policy", POLICIES)
def test_joint_law_of_whole_walks(policy, which):
    target = target_of(2, 3)
    draft = LengthDraft(ModelDraft(near_and_far(target)[which], 1), POLICIES[policy])
    found = by_walks(target, draft, 4, 3)  # 1, then 3 or 1 drafted
    assert found.evidence < found.limit


@pytest.mark.parametrize("policy", POLICIES)
def test_no_call_remembers_another(policy):
    target = target_of(3, 5)
    model = near(target)

    def of():
        return LengthDraft(ModelDraft(model, 1), POLICIES[policy])

    found = left_over(target, of, "token")
    assert found.evidence == 0


class Peeking(LengthDraft):
    """What must not be done: a length that depends on what was drawn, and throws some of it away."""

    def propose(self, gamma, sampling, chance):
        whole = super().propose(gamma, sampling, chance)
        n = len(whole.tokens)
        sure = [i for i in range(n) if whole.laws[i][whole.tokens[i]] > 0.5]
        return type(whole).chain(whole.tokens[: len(sure)], whole.laws[: len(sure)], n)


def test_the_control_dropping_drawn_tokens_is_biased():
    target = target_of(2, 3)
    draft = Peeking(ModelDraft(near(target), 1), POLICIES["+2-1"])
    assert by_walks(target, draft, 4, 2).evidence > 1e-2


# --- the loop


def test_lengths_follow_the_rounds():
    """A draft that is always right: 1, 3, 5, ... up to gamma; one that is always wrong: down to 1."""
    text = [1, *([2, 3] * 40)]
    right, wrong = scripted_model(text), constant_model([0.0, 1.0, 0.0, 0.0])
    for model, first, want in ((right, 1, [1, 3, 5, 7, 8, 8]), (wrong, 3, [3, 2, 1, 1, 1, 1])):
        draft = LengthDraft(ModelDraft(model, 1), PlusTwoMinusOne(first))
        done = texts(scripted_model(text), draft, [1], 60, 8, Sampling(0.0))
        assert [one.proposed for one in done.rounds][:6] == want
        assert list(done.tokens) == text[1:61]


def test_a_text_begins_with_no_rounds_behind_it():
    target = target_of(3, 5)
    draft = LengthDraft(ModelDraft(near(target), 1), PlusTwoMinusOne(2))
    for seed in (1, 2):
        first, _ = next(steps(target, draft, PROMPT, 20, 9, sampling=COOL,
                              chance=SeededChance(seed)))  # fmt: skip
        assert first.proposed == 2


def test_of_a_tree_levels_are_counted():
    target = small_micro(context=64)
    inner = ModelTree(make(target, "rtn4"), "points", {0.0: uniform([2, 2, 2])})
    draft = LengthDraft(inner, PlusTwoMinusOne(14))
    done = texts(target, draft, [1, 2], 40, 14, Sampling(0.0))
    assert list(done.tokens) == plain(target, [1, 2], 40, Sampling(0.0), SeededChance(0))
    deep = [one.accepted == 3 for one in done.rounds]
    assert any(deep[:-1])  # three levels kept is a full round, though 14 nodes are never all kept
    assert draft._rounds[0].drafted == 3


# --- specs


def test_a_spec_is_read():
    target = small_micro()
    inner = make(target, "rtn3")
    draft = length_draft(target, Spec.parse("length:+2-1:rtn3"), make)
    assert draft.policy == PlusTwoMinusOne(20) and draft.bytes_per_pass == inner.bytes_per_pass
    draft = length_draft(target, Spec.parse("length:+2-1,4:rtn3"), make)
    assert draft.policy == PlusTwoMinusOne(4)
    draft = length_draft(target, Spec.parse("length:recent:rtn3"), make)
    assert draft.policy == Recent(inner.bytes_per_pass / pass_bytes(target), 20)
    assert (draft.extra_bytes, draft.extra_parameters) == (inner.extra_bytes, inner.extra_parameters)  # fmt: skip
    assert length_draft(target, Spec.parse("length:recent,8:rtn3"), make).policy.memory == 8


@pytest.mark.parametrize(
    "text, fault",
    [
        ("length", "write length:POLICY:DRAFT"),
        ("length:+2-1", "write length:POLICY:DRAFT"),
        ("length:often:rtn3", "write length:POLICY:DRAFT"),
        ("length:recent,none:rtn3", "the memory must be a whole number"),
        ("length:+2-1,0:rtn3", "the first length must be a whole number, 1 or above"),
    ],
)
def test_a_bad_spec_is_told_in_one_line(text, fault):
    with pytest.raises(ValueError, match=fault) as refusal:
        length_draft(small_micro(), Spec.parse(text), make)
    assert "\n" not in str(refusal.value) and repr(text) in str(refusal.value)
