"""Lookahead decoding: its mask and its pool by hand, its share of a round's rows, and that the text stays the target's."""

import pytest

from experiments.exact.caches import left_over
from experiments.exact.enumeration import PROMPT, SAMPLINGS, STOPS, by_walks, keyed
from experiments.exact.small_model import small_micro
from experiments.identity.comparison import compare, plain_text
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.lookahead import LookaheadDraft, Pool, tree_of, window_of
from specdec.table import random_model, scripted_model

GREEDY = Sampling(0.0)


def small(w=2, n=3, g=2, vocab=3) -> LookaheadDraft:
    return LookaheadDraft(w, n, g, vocab)


def steps(target, draft, prompt, count, gamma, sampling=GREEDY, **options):
    return rounds(target, draft, prompt, max_new_tokens=count, gamma=gamma, sampling=sampling,
                  chance=SeededChance(1), **options)  # fmt: skip


# --- the window


def test_the_mask_for_three_columns_and_trigrams_is_the_figures():
    window = window_of([(0, 20), (11, 21), (12, 22)], nodes=0)
    assert window.tokens == (11, 12, 20, 21, 22) and window.depths == (1, 2, 1, 2, 3)
    assert window.visible.int().tolist() == [
        # root a1 a2 b0 b1 b2
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 1],
    ]


def test_a_third_level_sees_its_own_column_alone_below_it():
    window = window_of([(0, 20, 30), (11, 21, 31)], nodes=0)
    assert window.tokens == (11, 20, 21, 30, 31) and window.depths == (1, 1, 2, 2, 3)
    assert window.visible[3].int().tolist() == [1, 0, 1, 0, 1, 0]
    assert window.visible[4].int().tolist() == [1, 1, 0, 1, 0, 1]


def test_no_row_of_the_window_sees_a_drafted_token():
    window = window_of([(0, 20), (11, 21)], nodes=4)
    assert window.visible.shape == (3, 8) and not window.visible[:, 1:5].any()
    assert window.visible[2].int().tolist() == [1, 0, 0, 0, 0, 1, 0, 1]


# --- the pool and the tree


def test_the_pool_keeps_of_each_first_token_those_seen_last():
    pool = Pool(2)
    for ngram in [(1, 2, 3), (1, 4, 5), (2, 2, 2), (1, 2, 3), (1, 6, 7)]:
        pool.add(ngram)
    assert pool.behind(1) == [(6, 7), (2, 3)] and pool.behind(2) == [(2, 2)]
    assert pool.behind(3) == []


def test_candidates_share_what_they_begin_with():
    tokens, parents = tree_of([(1, 2, 3), (1, 2, 4), (5, 2, 3)], most=9)
    assert tokens == [1, 2, 3, 4, 5, 2, 3] and parents == [-1, 0, 1, 1, -1, 4, 5]
    assert tree_of([(1, 2, 3), (1, 4, 5), (6, 7, 8)], most=4) == ([1, 2, 3, 4], [-1, 0, 1, 0])


def test_two_rounds_and_the_pool_by_hand():
    """Text 0 1 2 ... whatever is guessed, two columns of trigrams; both begin as 0 0.

    Round 1 answers 2 behind "0 0" and 3 behind "0 0 0": 0 0 2 and 0 0 3. Round 2 stands on 1; its columns 1 2 and 0 3 are answered by
    3 and 4. Of three trigrams that begin with 0 the pool keeps two.
    """
    draft, pools = small(vocab=12), []
    done = steps(scripted_model(range(12), vocab=12), draft, [0], 11, 8)
    emitted = []
    for one, _ in done:
        emitted.append(len(one.emitted))
        pools.append({token: draft.pool.behind(token) for token in range(12)})
        if len(emitted) == 2:
            assert draft.columns == [(2, 3), (3, 4)]
    assert {t: c for t, c in pools[0].items() if c} == {0: [(0, 3), (0, 2)]}
    assert {t: c for t, c in pools[1].items() if c} == {0: [(3, 4), (0, 3)], 1: [(2, 3)]}
    assert {t: c for t, c in pools[2].items() if c and t > 1} == {2: [(3, 4)], 3: [(4, 5)]}
    assert emitted[:4] == [1, 1, 1, 3]  # 3 is followed by 4 5 of the pool, and a bonus


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_column_gains_the_likeliest_token_behind_what_it_sees(n, temperature):
    target, draft = random_model(4, seed=5), small(w=3, n=n, vocab=4)
    text, before, room = [1, 2, 0], None, 40
    for _, state in steps(target, draft, text, 40, 20, Sampling(temperature)):
        if before is not None and room >= 20:  # all columns were fed
            for j, (old, new) in enumerate(zip(before, draft.columns)):
                level_0 = [column[0] for column in before[1 : j + 1]]
                seen = (*text, *level_0, *old[1:])
                gained = int(target.logits(seen).argmax())
                assert new == (*old, gained)[1:]
                first = text[-1] if j == 0 else old[0]
                assert (*old[1:], gained) in draft.pool.behind(first) or j < 2  # g = 2
        text, before, room = list(state.tokens), list(draft.columns), state.room


# --- a round's rows


@pytest.mark.parametrize(
    "gamma, nodes, rows",
    [(9, 4, 3), (7, 4, 3), (6, 3, 3), (5, 2, 3), (4, 3, 1), (3, 2, 1), (2, 2, 0), (1, 1, 0)],
)
def test_older_candidates_go_first_then_columns_then_the_newest_candidate(gamma, nodes, rows):
    """Two columns of trigrams, two candidates behind 0 that have nothing in common."""
    draft = small(vocab=9)
    draft.start([0], random_model(9))
    for ngram in [(0, 1, 2), (0, 3, 4)]:
        draft.pool.add(ngram)
    proposal = draft.propose(gamma, GREEDY, SeededChance(1))
    assert proposal.tokens == (3, 4, 1, 2)[:nodes]
    assert proposal.rows == 1 + nodes + rows


def test_without_a_candidate_the_window_may_have_all_rows():
    draft = small(w=5, n=4, vocab=9)
    draft.start([0], random_model(9))
    rows = [draft.propose(gamma, GREEDY, SeededChance(1)).rows - 1 for gamma in range(1, 17)]
    assert rows == [0, 2, 2, 2, 5, 5, 5, 8, 8, 8, 11, 11, 11, 14, 14, 14]


def test_a_column_that_was_not_fed_stands_still():
    target, draft = random_model(4, seed=5), small(w=3, n=3, vocab=4)
    draft.start([1, 2, 0], target)
    start = list(draft.columns)
    next(steps(target, draft, [1, 2, 0], 9, 3))  # rows for two columns, of which the root is one
    assert draft.columns[2] == start[2] and draft.columns[:2] != start[:2]


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8, 13, 21])
def test_nodes_and_window_stay_within_gamma_and_read_nothing(gamma):
    target = random_model(4, seed=5, context=40)
    for draft in (small(5, 4, 5, 4), small(2, 2, 1, 4), small(1, 6, 3, 4)):
        done = generate(target, draft, [1, 2, 0], max_new_tokens=60, gamma=gamma,
                        sampling=GREEDY, chance=SeededChance(1))  # fmt: skip
        assert done.ended == "context"
        assert all(r.rows <= gamma + 1 for r in done.rounds)
        assert done.totals.draft_passes == done.totals.draft_bytes == 0
        assert list(done.tokens) == plain(target, [1, 2, 0], 60, GREEDY, SeededChance(1))


# --- the law


@pytest.mark.parametrize("warp", SAMPLINGS)
def test_the_joint_law_is_the_targets(warp):
    found = by_walks(random_model(3, seed=5), small(), 5, 5, SAMPLINGS[warp])
    assert found.evidence <= found.limit


@pytest.mark.parametrize("rule", ["token", "match"])
@pytest.mark.parametrize("w, n, g", [(1, 2, 3), (3, 2, 2), (2, 3, 3), (2, 4, 2)])
def test_the_joint_law_is_the_targets_for_other_windows(w, n, g, rule):
    found = by_walks(random_model(3, seed=7), small(w, n, g), 5, 9, rule=rule)
    assert found.evidence <= found.limit


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
def test_the_joint_law_is_the_targets_with_stops(stops):
    found = by_walks(random_model(3, seed=5), small(), 5, 5, stops=stops)
    assert found.evidence <= found.limit


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_the_joint_law_is_the_targets_near_limits(limit):
    target, short = random_model(3, seed=5), random_model(3, seed=5, context=len(PROMPT) + limit)
    for found in (by_walks(target, small(), limit, 6), by_walks(short, small(), 50, 6)):
        assert found.evidence <= found.limit


def test_candidates_are_really_walked():
    """The laws above would be right of a draft that proposes nothing."""
    done = generate(random_model(3, seed=5), small(), PROMPT, max_new_tokens=40, gamma=5,
                    sampling=Sampling(0.8), chance=SeededChance(1))  # fmt: skip
    assert done.totals.accepted >= 5 and done.totals.checked - done.totals.accepted >= 5


def test_coupled_text_is_plain_text():
    assert keyed(random_model(6, seed=3), small(vocab=6), Sampling(1.0)).evidence == 0


# --- identity and independence


def compared(target, draft, gamma, prompt=(5, 6, 7), count=120):
    want = plain_text(target, prompt, count, 24)
    return compare(want, steps(target, draft, prompt, count, gamma, lanes=24))


def test_one_candidate_beside_a_window_keeps_every_bit():
    """A chain laid out first: the window stands in later lanes and is seen by nobody."""
    target = small_micro()
    for gamma in (4, 15, 23):
        assert compared(target, LookaheadDraft(5, 4, 1, 64), gamma).counts.identical is True


def test_with_several_candidates_a_greedy_text_may_fork_at_a_tie_alone():
    """A second branch stands in other lanes: its numbers differ by rounding, some 1e-5 of logits of size 10."""
    target, accepted = small_micro(vocab=16), 0
    for prompt in ([5, 6, 7], [9] * 20, [1, 2, 3, 4] * 5):
        found = compared(target, LookaheadDraft(5, 4, 5, 16), 23, prompt)
        assert max(found.gaps, default=0.0) < 1e-3
        assert found.fork is None or found.fork.margin < 1e-3
        accepted += found.counts.tokens
    assert accepted > 0


def test_no_call_remembers_another():
    assert left_over(random_model(3, seed=6), small, "token").evidence == 0
    micro = small_micro(context=64)
    found = left_over(micro, lambda: LookaheadDraft(2, 3, 2, 64), "token", 64, 8)
    assert found.evidence == 0


# --- by its name


def test_it_is_made_by_its_name():
    target = small_micro()
    draft = make_draft(target, "lookahead:n=3,w=7")
    assert (draft.w, draft.n, draft.g) == (7, 3, 5)
    draft = make_draft(target, "lookahead")
    assert (draft.w, draft.n, draft.g) == (5, 4, 5)
    assert draft.bytes_per_pass == draft.extra_parameters == 0
    assert draft.extra_bytes == 64 * 5 * 3  # a byte a token
    assert LookaheadDraft(5, 4, 5, 50_000).extra_bytes == 50_000 * 5 * 3 * 2


@pytest.mark.parametrize(
    "spec, message",
    [
        ("lookahead:w=0", "w must be a whole number, 1 or above, not '0'"),
        ("lookahead:n=1", "n must be 2 or above, a pair of tokens"),
        ("lookahead:q=1", "no option 'q'; there are w=5, n=4, g=5"),
        ("lookahead:5", "no option '5'"),
        ("lookahead:w=x", "w must be a whole number"),
        ("lookahead:w=250,n=7", r"w \+ n must not exceed the target's context of 256"),
        ("lookahead+rtn4", "lookahead takes no format"),
    ],
)
def test_a_wrong_spec_is_refused_by_name(spec, message):
    with pytest.raises(ValueError, match=message):
        make_draft(small_micro(), spec)
