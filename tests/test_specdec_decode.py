"""The loop: what it emits, where it ends, what its caches hold, and that no call remembers another."""

import random

import numpy as np
import pytest
import torch

from experiments.exact.laws import law_of, target_law, walks
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TextDraft, TreeDraft
from specdec.proposal import Proposal, Window
from specdec.table import constant_model, near, random_model, scripted_model

GREEDY = Sampling(0.0)


def text(target, draft, prompt, count=12, gamma=3, sampling=GREEDY, seed=1, **options):
    return generate(target, draft, prompt, max_new_tokens=count, gamma=gamma, sampling=sampling,
                    chance=SeededChance(seed), **options)  # fmt: skip


# --- greedy text


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 5, 16])
def test_greedy_text_is_plain_text(rule, gamma):
    target = random_model(5, seed=1)
    want = plain(target, [1, 2], 30, GREEDY, SeededChance(1))
    for model in (target, near(target), near(target, spread=3.0), random_model(5, seed=2)):
        done = text(target, ModelDraft(model, 1), [1, 2], 30, gamma, seed=9, rule=rule)
        assert list(done.tokens) == want


@pytest.mark.parametrize("how", ["without", "points", "mixed"])
def test_greedy_text_with_trees_is_plain_text(how):
    target = random_model(5, seed=1)
    want = plain(target, [1, 2], 30, GREEDY, SeededChance(1))
    draft = TreeDraft(near(target), (-1, -1, 0, 1, 1), how)
    assert list(text(target, draft, [1, 2], 30, 5).tokens) == want


def test_an_equal_draft_is_always_accepted_through_the_whole_text():
    """Case L02: had the draft's cache a hole after a fully accepted round, some later token would differ."""
    target = small_micro()
    done = text(target, ModelDraft(target, 1), [5, 6, 7], 200, 3, lanes=4)
    assert done.totals.alpha == 1.0 and done.totals.rounds == 50 and done.ended == "length"
    assert list(done.tokens) == plain(target, [5, 6, 7], 200, GREEDY, SeededChance(1), lanes=4)


def test_an_equal_draft_is_always_accepted_at_any_temperature():
    target = random_model(4, seed=1)
    for sampling in (Sampling(), Sampling(0.7, 3, 0.8)):
        totals = text(target, ModelDraft(target, 1), [0], 40, 3, sampling).totals
        assert totals.alpha == 1.0 and totals.rounds == 10


# --- counts


def test_counts_of_a_scripted_run():
    """Case M01: patterns [1, 0, 1, 1] and [1, 1, 1, 1] at gamma 4."""
    prompt, truth = [3], [1, 2, 1, 2, 1, 2, 1]
    wrong = [1, 0, *truth[2:]]
    done = text(scripted_model([*prompt, *truth]), ModelDraft(scripted_model([*prompt, *wrong]), 1),
                prompt, count=7, gamma=4)  # fmt: skip
    assert list(done.tokens) == truth
    first, second = done.rounds
    assert (first.emitted, first.accepted, first.checked, first.final) == (
        (1, 2),
        1,
        2,
        "correction",
    )
    assert (second.accepted, second.final, len(second.emitted)) == (4, "bonus", 5)
    totals = done.totals
    assert (totals.accepted, totals.proposed, totals.emitted, totals.rounds) == (5, 8, 7, 2)
    assert totals.alpha == 5 / 6 and totals.accepted_per_drafted == 5 / 8
    assert totals.thrown_away == 2 and totals.draft_passes == 8 and second.rows == 5


def test_a_last_round_counts_only_what_it_really_drafted():
    model = scripted_model([0, 1, 2, 3, 1, 2, 3])
    done = text(model, ModelDraft(model, 1), [0], count=6, gamma=4)
    assert [r.proposed for r in done.rounds] == [4, 1]
    assert [r.final for r in done.rounds] == ["bonus", ""] and done.rounds[1].final_p is None
    assert done.totals.emitted == 6 and done.totals.draft_passes == 5


def test_a_round_tells_both_laws_of_each_token():
    done = text(constant_model([0.5, 0.5]), ModelDraft(constant_model([0.6, 0.4]), 1), [0],
                count=40, gamma=2, sampling=Sampling())  # fmt: skip
    for one in done.rounds:
        assert one.p == pytest.approx([0.5] * one.proposed, abs=1e-12)
        assert one.q == pytest.approx([[0.6, 0.4][t] for t in one.drafted], abs=1e-12)
        if one.final:  # a correction's law is the residual, but what is told is the target's own
            assert one.final_p == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(
    "draft", [ModelDraft(constant_model([0.6, 0.4]), 1), ScriptedDraft([0] * 9)]
)
def test_sampled_and_fixed_drafts_leave_the_law_alone(draft):
    """Case S02: half and half, with a draft of .6 / .4 and with one that always says 0 (which a wrong rule makes .833)."""
    law = law_of(walks(constant_model([0.5, 0.5]), draft, [0], max_new_tokens=1, gamma=1))
    assert law[0,] == pytest.approx(0.5, abs=1e-12) and law[1,] == pytest.approx(0.5, abs=1e-12)


# --- limits and stops


def test_room_is_filled_and_never_exceeded():
    target = random_model(3, seed=3)
    for limit in range(1, 9):
        for gamma in (1, 2, 3, 8):
            done = text(target, ModelDraft(target, 1), [0], limit, gamma)
            assert len(done.tokens) == limit and done.ended == "length"
            last = done.rounds[-1]
            assert all(r.final == "bonus" for r in done.rounds[:-1])
            assert last.proposed <= limit - sum(len(r.emitted) for r in done.rounds[:-1])


@pytest.mark.parametrize("gamma", range(1, 9))
def test_the_contexts_end_is_met_exactly(gamma):
    """Case L07: prompts around it, with plain decoding's tokens and reason."""
    context = 24
    target = small_micro(context=context)
    for length in range(context - gamma - 2, context):
        prompt = list(range(length))
        for draft in (make_draft(target, "rtn3"), ModelDraft(target, 1)):
            done = text(target, draft, prompt, context, gamma, lanes=16)
            want = plain(target, prompt, context, GREEDY, SeededChance(1), lanes=16)
            assert list(done.tokens) == want and done.ended == "context"
            assert len(prompt) + len(done.tokens) == context
    for length in (context, context + 1):
        with pytest.raises(ValueError, match=f"{length} tokens and the context {context}"):
            text(target, ModelDraft(target, 1), [1] * length, 5, gamma, lanes=16)


def scripted(prompt, truth, draft_truth=None, stop=(), count=20, gamma=4):
    draft = ModelDraft(scripted_model([*prompt, *(draft_truth or truth)]), 1)
    return text(scripted_model([*prompt, *truth]), draft, prompt, count, gamma, stop=stop)


def test_a_stop_inside_an_accepted_run_cuts_it():
    done = scripted([0], [1, 2, 3, 1, 1, 1], stop=[3])
    assert done.tokens == (1, 2, 3) and done.ended == "stop"
    (only,) = done.rounds
    assert (only.accepted, only.checked, only.thrown_away, only.final) == (3, 3, 1, "")
    assert only.draft_passes == 4 and only.proposed == 4


def test_a_stop_as_the_last_accepted_token_drops_the_bonus():
    (only,) = scripted([0], [1, 2, 1, 3, 1, 1], stop=[3]).rounds
    assert (only.emitted, only.accepted, only.checked, only.final) == ((1, 2, 1, 3), 4, 4, "")


def test_a_stop_before_a_rejection_forgets_that_it_was_judged():
    (only,) = scripted([0], [1, 3, 2, 1], [1, 3, 1, 1], stop=[3]).rounds
    assert (only.emitted, only.accepted, only.checked, only.thrown_away) == ((1, 3), 2, 2, 2)


def test_a_stop_as_correction_or_bonus_keeps_its_name():
    corrected = scripted([0], [1, 3, 1], [1, 2, 1], stop=[3])
    assert corrected.tokens == (1, 3) and corrected.rounds[0].final == "correction"
    assert corrected.rounds[0].checked == 2
    bonus = scripted([0], [1, 1, 1, 1, 3, 2], stop=[3])
    assert bonus.rounds[0].final == "bonus" and bonus.tokens == (1, 1, 1, 1, 3)


def test_a_stop_string_may_span_rounds():
    """Drafted wrongly at the second token, so that [2, 3] begins in one round and ends in the next."""
    done = scripted([0], [1, 2, 3, 1, 1], [1, 1, 3, 1, 1], stop=[bytes([2, 3])])
    assert done.tokens == (1, 2, 3) and done.ended == "stop" and len(done.rounds) == 2
    assert [len(r.emitted) for r in done.rounds] == [2, 1]


def test_a_stop_in_the_prompt_or_astride_its_end_is_no_stop():
    assert scripted([3, 2], [3, 1, 1, 1, 1, 1], stop=[(2, 3)], count=5).tokens == (3, 1, 1, 1, 1)


def test_the_first_of_several_stops_wins_and_bytes_equal_tuples():
    for stop in ([3, (2, 1)], [bytes([3]), bytes([2, 1])], [(2, 1), (3,)]):
        assert scripted([0], [1, 2, 1, 3, 1], stop=stop).tokens == (1, 2, 1)


def test_a_stop_that_is_the_last_token_allowed_is_a_stop():
    done = scripted([0], [1, 2, 3, 1, 1], stop=[3], count=3)
    assert done.ended == "stop" and done.tokens == (1, 2, 3)


def test_a_stop_cuts_a_trees_path_too():
    """Judged: the refused elder sibling and the kept node; its child lies behind the stop."""

    class Tree(TextDraft):
        def propose(self, gamma, sampling, chance):
            from specdec.proposal import Proposal

            return Proposal((1, 3, 1), (-1, -1, 1), (None, None, None), passes=0)

    done = text(scripted_model([0, 3, 1, 1]), Tree(), [0], 9, 3, stop=[3])
    (only,) = done.rounds
    assert (only.emitted, only.kept, only.checked, only.thrown_away) == ((3,), (1,), 2, 1)


# --- caches


def drafts_for(target):
    return [
        ModelDraft(near(target), 1),
        ModelDraft(target, 1),
        ModelDraft(random_model(3, seed=77), 1),
        TreeDraft(near(target), (-1, -1, 0, 1, 1, 3), "with"),
        TreeDraft(near(target), (-1, -1, 1, 1), "mixed"),
        ScriptedDraft([0, 1, 2] * 20),
    ]


@pytest.mark.parametrize("stop", [(), ((2, 1),), (0,)])
@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_caches_after_every_round(gamma, stop):
    target = random_model(3, seed=5)
    for draft in drafts_for(target):
        for seed in range(6):
            for _, state in rounds(target, draft, [0, 1], max_new_tokens=17, gamma=gamma,
                                   sampling=Sampling(), chance=SeededChance(seed), stop=stop):  # fmt: skip
                assert state.cache.tokens == state.tokens[:-1]
                if isinstance(draft, ModelDraft):
                    held = draft.cache.tokens
                    assert held == state.tokens[: len(held)] and len(held) < len(state.tokens)


def test_micros_cache_after_a_round_is_that_of_plain_decoding():
    """In lanes, bit for bit, and as long as the text less one."""
    target = small_micro()
    draft = make_draft(target, "rtn3")
    *_, (_, state) = rounds(target, draft, [1, 2, 3], max_new_tokens=40, gamma=4,
                            sampling=GREEDY, chance=SeededChance(1), lanes=8)  # fmt: skip
    cache = target.new_cache(1, 8)
    with torch.inference_mode():
        for token in state.tokens[:-1]:
            target(torch.tensor([[token]]), cache)
    n = len(state.tokens) - 1
    assert state.cache.length == n == cache.length
    assert torch.equal(state.cache.keys[..., :n, :], cache.keys[..., :n, :])
    assert torch.equal(state.cache.values[..., :n, :], cache.values[..., :n, :])


# --- independence


@pytest.mark.parametrize("rule", RULES)
def test_no_call_remembers_another(rule):
    target = random_model(3, seed=6)
    requests = [([0, 1], 9), ([2], 4), ([0, 1, 1, 2, 0], 7), ([0, 1], 9)]

    def run(draft, request):
        return text(target, draft, request[0], request[1], 3, Sampling(), seed=4, rule=rule)

    shared = ModelDraft(near(target), 1)
    together = [run(shared, request) for request in requests]
    alone = [run(ModelDraft(near(target), 1), request) for request in requests]
    assert together == alone and together[0] == together[3]


def test_a_broken_off_text_leaves_nothing_behind():
    target = random_model(3, seed=6)
    draft = ModelDraft(near(target), 1)
    want = text(target, draft, [0], 9, 3, Sampling())
    next(rounds(target, draft, [2, 2, 2], max_new_tokens=9, gamma=3, sampling=Sampling(),
                chance=SeededChance(8)))  # fmt: skip
    assert text(target, draft, [0], 9, 3, Sampling()) == want


def test_a_seed_is_the_only_chance():
    """Case S05: stray draws elsewhere change nothing, and nothing is drawn elsewhere."""
    target = small_micro()
    draft = make_draft(target, "rtn3")
    sampling = Sampling(0.7)
    first = text(target, draft, [1, 2], 32, 4, sampling, seed=7)
    torch.rand(3), np.random.rand(3), random.random()
    before = torch.get_rng_state()
    assert text(target, draft, [1, 2], 32, 4, sampling, seed=7) == first
    assert torch.equal(torch.get_rng_state(), before)
    texts = {text(target, draft, [1, 2], 32, 4, sampling, seed=s).tokens for s in range(1, 21)}
    assert len(texts) >= 15
    greedy = {text(target, draft, [1, 2], 32, 4, lanes=8, seed=s).tokens for s in range(1, 21)}
    assert len(greedy) == 1


def test_the_target_is_not_altered():
    target = small_micro()
    before = {name: p.clone() for name, p in target.named_parameters()}
    text(target, make_draft(target, "rtn4"), [1], 20, 4, Sampling())
    assert all(torch.equal(p, before[name]) for name, p in target.named_parameters())


# --- streaming


def test_rounds_stream_what_generate_returns():
    target = random_model(3, seed=6)
    draft = ModelDraft(near(target), 1)
    seen, done = [0, 1], []
    for one, state in rounds(target, draft, [0, 1], max_new_tokens=14, gamma=3,
                             sampling=Sampling(), chance=SeededChance(2)):  # fmt: skip
        seen += one.emitted
        done.append(one)
        assert state.tokens == seen
        assert bool(state.ended) == (len(seen) == 16)
    whole = text(target, draft, [0, 1], 14, 3, Sampling(), seed=2)
    assert whole.tokens == tuple(seen[2:]) and whole.rounds == tuple(done)


def test_last_logits_hold_the_rows_behind_a_rounds_tokens():
    target = random_model(3, seed=6)
    for draft in drafts_for(target):
        for one, state in rounds(target, draft, [0, 1], max_new_tokens=14, gamma=4,
                                 sampling=Sampling(), chance=SeededChance(2)):  # fmt: skip
            assert len(state.last_logits) == one.rows
            start = len(state.tokens) - len(one.emitted)
            for place, row in zip(range(len(one.emitted)), [0, *(node + 1 for node in one.kept)]):
                want = target.logits(state.tokens[: start + place])
                assert torch.equal(state.last_logits[row], want)


# --- what is refused


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"gamma": 0}, "gamma must be 1 or above, not 0"),
        ({"gamma": 4, "lanes": 4}, "gamma 4 needs 5 lanes, there are 4"),
        ({"max_new_tokens": 0}, "max_new_tokens must be 1 or above, not 0"),
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": [7]}, r"the prompt holds a token outside 0 \.\.\. 2"),
        ({"stop": [b""]}, "stop holds an empty string"),
        ({"stop": "ab"}, "stop must hold tokens or byte strings"),
        ({"stop": ["ab"]}, "stop must hold tokens or byte strings"),
        ({"rule": "best"}, "rule must be one of token, block, match"),
        ({"draft": ModelDraft(random_model(4), 1)}, "the draft has 4 tokens, the target 3"),
        (
            {"draft": ModelDraft(random_model(3, context=8), 1)},
            "the draft's context of 8 is shorter than the target's 64",
        ),
    ],
)
def test_a_wrong_request_is_refused_by_name(wrong, message):
    target = random_model(3, seed=6)
    request = {"draft": ModelDraft(target, 1), "prompt": [0], "max_new_tokens": 5, "gamma": 2,
               "sampling": Sampling(), "chance": SeededChance(1)}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        generate(target, **(request | wrong))


class WithWindow(TextDraft):
    """Two point masses, and a window of two rows: one behind the root, one behind the first drafted token. Nothing where the four
    do not fit."""

    def start(self, prompt, target):
        super().start(prompt, target)
        self.seen = []

    def propose(self, gamma, sampling, chance):
        if gamma < 4:
            return Proposal.chain([], [], passes=0)
        visible = torch.zeros(2, 5, dtype=torch.bool)
        visible[0, [0, 3]] = visible[1, [0, 1, 4]] = True
        window = Window((1, 2), (1, 2), visible)
        return Proposal.chain([0, 1], [None, None], passes=3, bytes_read=70, window=window)

    def commit(self, step):
        before = step.tokens[: len(step.tokens) - len(step.emitted)]
        self.seen.append((before, step.logits[3:], list(step.cache.tokens)))
        super().commit(step)


def test_a_window_is_read_and_never_judged():
    target, draft = random_model(3, seed=5), WithWindow()
    done = text(target, draft, [1, 2], 12, 4)
    assert list(done.tokens) == plain(target, [1, 2], 12, GREEDY, SeededChance(1))
    full = [r for r in done.rounds if r.drafted]
    for before, answers, _ in draft.seen[: len(full)]:
        assert torch.equal(answers[0], target.logits((*before, 1)))
        assert torch.equal(answers[1], target.logits((*before, 0, 2)))
    assert draft.seen[-1][2] == [1, 2, *done.tokens][:-1]
    assert len(full) > 3 and {(r.rows, r.draft_bytes) for r in full} == {(5, 70)}


class Unbounded(TextDraft):
    def propose(self, gamma, sampling, chance):
        return Proposal.chain([0] * (gamma + 1), [None] * (gamma + 1), passes=0)


def test_a_draft_that_proposes_more_than_it_was_asked_for_is_refused():
    with pytest.raises(ValueError, match="proposed 4 tokens where 3 were asked for"):
        text(random_model(3, seed=5), Unbounded(), [1, 2], 12, 3)


def test_a_window_leaves_the_law_alone():
    target = random_model(3, seed=5)
    law = law_of(walks(target, WithWindow(), [1, 0], max_new_tokens=5, gamma=4))
    want = target_law(target, [1, 0], 5)
    assert law == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("depths, width", [((1,), 5), ((2, 2), 5), ((1, 2), 4)])
def test_a_window_that_does_not_fit_is_refused(depths, width):
    visible = torch.zeros(2, width, dtype=torch.bool)
    visible[0, [0, 3]] = visible[1, [0, 1, width - 1]] = True
    with pytest.raises(ValueError, match="window"):
        Proposal.chain([0, 1], [None, None], 1, window=Window((1, 2), depths, visible))


def test_block_refuses_a_tree():
    target = random_model(3, seed=6)
    draft = TreeDraft(target, (-1, -1), "with")
    with pytest.raises(ValueError, match="rule 'block' judges chains only"):
        text(target, draft, [0], 5, 2, Sampling(), rule="block")
