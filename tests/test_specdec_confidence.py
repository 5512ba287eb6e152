"""A confidence stop: it ends drafting where it says, keeps the token it stopped on, and leaves the law alone."""

import math

import pytest
import torch

from experiments.exact.laws import gap, loop_law, target_law
from experiments.exact.small_model import small_micro
from micro.chance import KeyedChance, SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec import drafts
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.confidence import (
    STOPS,
    LeastProbability,
    MostEntropy,
    PredictedOverlap,
    parse_stop,
)
from specdec.drafts.model import ModelDraft
from specdec.proposal import Proposal
from specdec.table import constant_model, near, random_model

PROMPT = [1, 2, 0]
STOPPING = {"prob": LeastProbability(0.5), "entropy": MostEntropy(0.8)}
OVERLAP = PredictedOverlap(2.0, -1.0, 0.5, 0.6)


def test_what_a_stop_reads():
    law = torch.tensor([0.7, 0.2, 0.1, 0.0])
    assert not LeastProbability(0.2).met(law.double(), 0)
    assert LeastProbability(0.71).met(law, 0) and LeastProbability(0.3).met(law, 1)
    entropy = -sum(x * math.log(x) for x in (0.7, 0.2, 0.1))
    assert MostEntropy(entropy - 1e-3).met(law, 0) and not MostEntropy(entropy + 1e-3).met(law, 2)
    one_hot = torch.tensor([0.0, 1.0])
    assert not MostEntropy(0).met(one_hot, 1) and not LeastProbability(1).met(one_hot, 1)


def test_a_predicted_overlap_multiplies_along_a_round():
    law, sure = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    stop = PredictedOverlap(1.0, -2.0, 0.5, 0.3)
    a = 1 / (1 + math.exp(-(1.0 - 2.0 * math.log(2) + 0.5 * math.log(0.5))))
    assert stop.predicted(law, 1) == pytest.approx(a, rel=1e-6)
    assert stop.predicted(sure, 0) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-12)
    assert PredictedOverlap(-1e4, 0, 0, 0.5).predicted(sure, 0) == 0.0
    for _ in range(2):  # a second round begins anew
        watch, kept = stop.begin(), 1.0
        for one, token in ((sure, 0), (sure, 0), (sure, 0), (sure, 0)):
            kept *= stop.predicted(one, token)
            assert watch(one, token) == (kept < 0.3)
    assert kept < 0.3


def test_names_parse():
    assert parse_stop("prob:0.4") == LeastProbability(0.4)
    assert parse_stop("entropy:2") == MostEntropy(2.0)
    assert parse_stop("overlap:3,-0.8,0.3,0.5") == PredictedOverlap(3, -0.8, 0.3, 0.5)
    assert set(STOPS) == {"prob", "entropy", "overlap"}


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "no stop; write one of prob:P, entropy:NATS, overlap:"),
        ("0.4", "no stop; write one of prob:P, entropy:NATS, overlap:"),
        ("probability:0.4", "no stop"),
        ("prob", "lacks its numbers; write"),
        ("prob:", "lacks its numbers; write"),
        ("prob:much", "lacks its numbers; write"),
        ("prob:1.5", "0 to 1, not at 1.5"),
        ("prob:-0.1", "0 to 1, not at -0.1"),
        ("prob:nan", "0 to 1, not at nan"),
        ("entropy:-1", "0 nats or above and finite, not -1"),
        ("entropy:inf", "0 nats or above and finite, not inf"),
        ("entropy:nan", "0 nats or above and finite, not nan"),
        ("overlap:1,2,3", "lacks its numbers; write overlap:LEVEL,BY_ENTROPY,BY_LOG,LEAST"),
        ("prob:0.4,0.5", "lacks its numbers; write prob:P"),
        ("overlap:1,2,inf,0.5", "must be finite"),
        ("overlap:1,2,3,1.5", "0 to 1, not at 1.5"),
    ],
)
def test_a_bad_stop_is_told_in_one_line(text, fault):
    with pytest.raises(ValueError, match=fault) as refusal:
        parse_stop(text)
    assert "\n" not in str(refusal.value) and repr(text) in str(refusal.value)


# --- the law


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("stop", STOPPING)
@pytest.mark.parametrize("gamma", [2, 3])
def test_joint_law_of_gamma_plus_two_tokens(gamma, stop, rule):
    """By enumeration of the loop, to the rounding of its products."""
    target = random_model(3, seed=gamma)
    want = target_law(target, PROMPT, gamma + 2)
    models = {"near": near(target), "far": near(target, spread=4.0)}
    for name, model in models.items():
        if (rule, gamma, name) == ("match", 3, "near"):
            continue  # every place is drawn twice: many walks, and "far" has stops at every depth
        draft = ModelDraft(model, 1, STOPPING[stop])
        law = loop_law(target, draft, PROMPT, gamma + 2, gamma, rule=rule)
        assert gap(law, want) < 1e-12, name


@pytest.mark.parametrize("stop", STOPPING)
@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(0.6), Sampling(1.2, top_p=0.8)])
def test_joint_law_with_warping(stop, sampling):
    target = random_model(3, seed=7)
    draft = ModelDraft(near(target, spread=1.5), 1, STOPPING[stop])
    law = loop_law(target, draft, PROMPT, 4, 2, sampling=sampling)
    assert gap(law, target_law(target, PROMPT, 4, sampling)) < 1e-12


def test_joint_law_with_a_stop_that_remembers_the_round():
    target = random_model(3, seed=3)
    draft = ModelDraft(near(target), 1, OVERLAP)
    lengths = {one.proposed for one in generate(
        target, draft, PROMPT, max_new_tokens=40, gamma=3, sampling=Sampling(), chance=SeededChance(1)
    ).rounds}  # fmt: skip
    assert len(lengths) > 1 and min(lengths) < 3  # it did stop, at more than one depth
    assert gap(loop_law(target, draft, PROMPT, 5, 3), target_law(target, PROMPT, 5)) < 1e-12


class Discarding(ModelDraft):
    """What must not be done: the token that the drafting stopped on is thrown away."""

    def propose(self, gamma, sampling, chance):
        whole = super().propose(gamma, sampling, chance)
        last = len(whole.tokens) - 1
        if not self.stop.met(whole.laws[last], whole.tokens[last]):
            return whole
        return Proposal.chain(whole.tokens[:last], whole.laws[:last], passes=whole.passes)


def test_the_control_discarding_the_token_is_biased():
    target = random_model(3, seed=2)
    draft = Discarding(near(target), 1, STOPPING["prob"])
    law = loop_law(target, draft, PROMPT, 4, 2)
    assert gap(law, target_law(target, PROMPT, 4)) > 1e-2


# --- the loop


def test_drafting_ends_behind_the_first_unsure_token():
    """Every law gives token 0 the chance .9 and token 1 the chance .1, below the threshold: a draft is 0 ... 0 1, cut at gamma."""
    model = constant_model([0.9, 0.1])
    draft = ModelDraft(model, 1, LeastProbability(0.5))
    lengths = set()
    for seed in range(30):
        done = generate(model, draft, [0], max_new_tokens=20, gamma=4, sampling=Sampling(),
                        chance=SeededChance(seed))  # fmt: skip
        room = 20
        for one in done.rounds:
            assert one.draft_passes == one.proposed <= min(4, room)
            assert 1 not in one.drafted[:-1]
            if one.proposed < min(4, room):
                assert one.drafted[-1] == 1
            lengths.add(one.proposed)
            room -= len(one.emitted)
    assert lengths == {1, 2, 3, 4}


def test_a_stop_that_is_never_met_changes_nothing():
    target = random_model(3, seed=5)
    texts = [
        generate(target, ModelDraft(near(target), 1, stop), [0], max_new_tokens=30, gamma=3,
                 sampling=Sampling(), chance=SeededChance(4))
        for stop in (None, LeastProbability(0), MostEntropy(99))
    ]  # fmt: skip
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("stop", STOPPING.values())
def test_greedy_and_coupled_texts_of_micro_are_plain_ones(stop):
    target = small_micro()
    draft = make_draft(target, "rtn3", stop)
    for sampling, rule, kind in ((Sampling(0), "token", SeededChance), (Sampling(), "coupled", KeyedChance)):  # fmt: skip
        want = plain(target, [1, 2], 40, sampling, kind(3), lanes=8)
        done = generate(target, draft, [1, 2], max_new_tokens=40, gamma=5, sampling=sampling,
                        chance=kind(3), lanes=8, rule=rule)  # fmt: skip
        assert list(done.tokens) == want
    assert min(one.proposed for one in done.rounds) < 5  # it did stop


# --- making drafts


def test_only_a_model_can_be_unsure(monkeypatch):
    monkeypatch.setitem(drafts.DRAFTS, "quantized", lambda *args: object())
    make_draft(None, "rtn3")
    with pytest.raises(ValueError, match="'rtn3' is no model, so it has no confidence"):
        make_draft(None, "rtn3", LeastProbability(0.4))


def test_a_target_that_cannot_be_quantized_is_told_as_that():
    target = small_micro(vocab=32, context=16)
    with torch.no_grad():
        next(target.parameters())[0, 0] = float("nan")
    with pytest.raises(ValueError, match="(?i)nan") as refusal:
        make_draft(target, "rtn3")
    assert "unknown draft" not in str(refusal.value)
    with pytest.raises(ValueError, match="unknown draft 'rtn99'"):
        make_draft(target, "rtn99")
