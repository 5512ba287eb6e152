"""Jacobi decoding: which guesses it makes, in how many rounds they are right, and that the text stays the target's."""

import pytest

from experiments.exact.caches import left_over
from experiments.exact.enumeration import PROMPT, SAMPLINGS, STOPS, by_walks, keyed
from experiments.exact.small_model import small_micro
from experiments.identity.comparison import compare, plain_text
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.jacobi import JacobiDraft, repeated
from specdec.table import TableModel, random_model, scripted_model

GREEDY = Sampling(0.0)


def decoded(target, prompt, count, gamma, sampling=GREEDY, seed=1):
    return generate(target, JacobiDraft(), prompt, max_new_tokens=count, gamma=gamma,
                    sampling=sampling, chance=SeededChance(seed))  # fmt: skip


def successor(back: int, vocab: int = 7) -> TableModel:
    """All mass on one more than the token that stands `back` places before the next."""

    def logits(prefix):
        wanted = (prefix[-back] + 1) % vocab if len(prefix) >= back else 0
        return [0.0 if token == wanted else -50.0 for token in range(vocab)]

    return TableModel(vocab, logits)


# --- the guesses


def test_a_text_is_gone_on_with_by_its_own_end():
    assert repeated([1, 2, 3, 4], 3) == [2, 3, 4]
    assert repeated([1, 2], 5) == [1, 2, 1, 2, 1]


def test_answers_that_do_not_depend_on_guesses_are_right_after_one_round():
    """Text 0 1 2 ... whatever is guessed. Three guesses of 0 fail; their answers 2 3 4 are right and a bonus 5 follows; nothing
    was asked behind it, so the last three tokens are guessed again, and fail."""
    done = decoded(scripted_model(range(12), vocab=12), [0], 11, 3)
    assert done.tokens == tuple(range(1, 12))
    assert [r.drafted for r in done.rounds] == [
        (0, 0, 0), (2, 3, 4), (3, 4, 5), (7, 8, 9), (10,)]  # fmt: skip
    assert [r.accepted for r in done.rounds] == [0, 3, 0, 3, 0]


def test_where_every_answer_hangs_on_the_guess_before_one_token_is_settled_a_round():
    """The most rounds there can be: a wrong guess of x makes a wrong answer of x + 1."""
    done = decoded(successor(1), [0], 12, 3)
    assert [len(r.emitted) for r in done.rounds] == [1] * 12 and done.totals.accepted == 0


def test_two_independent_chains_settle_two_tokens_a_round():
    """Each token hangs on the one two places before: what stands behind the first wrong guess is right, the next is not."""
    done = decoded(successor(2), [0, 3], 13, 3)
    assert [len(r.emitted) for r in done.rounds] == [1, 2, 2, 2, 2, 2, 2]
    assert done.rounds[1].drafted == (4, 1, 4)  # behind 0 3 1: right, one more than guesses 0 and 3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_are_the_likeliest_tokens_behind_the_last_rounds_guesses(temperature):
    target = random_model(5, seed=4)
    text, behind = [1, 2], []  # what the round before had read, behind the tokens that it settled
    done = decoded(target, text, 30, 4, Sampling(temperature))
    assert done.totals.accepted > 0
    for one in done.rounds:
        answers = [int(target.logits(prefix).argmax()) for prefix in behind]
        known = min(len(answers), one.proposed)
        assert list(one.drafted[:known]) == answers[:known]
        ends = range(one.accepted + 1, one.proposed + 1)
        behind = [(*text, *one.drafted[:end]) for end in ends]
        text += one.emitted


def test_nothing_is_read_for_a_guess():
    done = decoded(random_model(5, seed=4), [1, 2], 20, 4)
    assert done.totals.draft_passes == done.totals.draft_bytes == 0
    assert all(set(r.q) == {1.0} and r.rows == r.proposed + 1 for r in done.rounds)


# --- the law


@pytest.mark.parametrize("warp", SAMPLINGS)
def test_the_joint_law_is_the_targets(warp):
    found = by_walks(random_model(3, seed=5), JacobiDraft(), 5, 3, SAMPLINGS[warp])
    assert found.evidence <= found.limit


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"coupled"}))
def test_the_joint_law_is_the_targets_by_every_rule(rule):
    found = by_walks(random_model(3, seed=5), JacobiDraft(), 4, 3, rule=rule)
    assert found.evidence <= found.limit


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
def test_the_joint_law_is_the_targets_with_stops(stops):
    found = by_walks(random_model(3, seed=5), JacobiDraft(), 5, 3, stops=stops)
    assert found.evidence <= found.limit


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_joint_law_is_the_targets_near_limits(limit):
    target, short = random_model(3, seed=5), random_model(3, seed=5, context=len(PROMPT) + limit)
    for found in (by_walks(target, JacobiDraft(), limit, 4), by_walks(short, JacobiDraft(), 50, 4)):
        assert found.evidence <= found.limit


def test_coupled_text_is_plain_text():
    """Coupled noise is continuous and cannot be walked."""
    assert keyed(random_model(6, seed=3), JacobiDraft(), Sampling(1.0)).evidence == 0


# --- identity and independence


def test_greedy_text_logits_and_cache_have_the_bits_of_plain_decoding():
    target = small_micro()
    for gamma in (1, 4, 15):
        for prompt in ([5, 6, 7], [9] * 40):
            want = plain_text(target, prompt, 80, 16)
            steps = rounds(target, JacobiDraft(), prompt, max_new_tokens=80, gamma=gamma,
                           sampling=GREEDY, chance=SeededChance(1), lanes=16)  # fmt: skip
            assert compare(want, steps).counts.identical is True


def test_greedy_text_is_plain_text_without_lanes():
    target = random_model(5, seed=1)
    want = plain(target, [1, 2], 30, GREEDY, SeededChance(1))
    for gamma in (1, 2, 5, 16):
        assert list(decoded(target, [1, 2], 30, gamma).tokens) == want


def test_no_call_remembers_another():
    found = left_over(random_model(3, seed=6), JacobiDraft, "token")
    assert found.evidence == 0


# --- by its name


def test_it_is_made_by_its_name_and_takes_nothing_more():
    target = small_micro()
    assert isinstance(make_draft(target, "jacobi"), JacobiDraft)
    for spec in ("jacobi:3", "jacobi+rtn4", "jacobi:"):
        with pytest.raises(
            ValueError, match=r"draft 'jacobi[:+].*': jacobi takes nothing behind its name"
        ):
            make_draft(target, spec)
