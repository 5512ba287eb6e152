"""Copying drafts: which match, what follows it, the tree of several continuations, specs, and greedy text through them."""

import pytest

from experiments.exact.small_model import small_micro
from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.lookup import LookupDraft, copied, matches, merged
from specdec.table import random_model, scripted_model

GREEDY = Sampling(0.0)


def proposed(draft, text, gamma):
    draft.start(list(text), random_model(9))
    return draft.propose(gamma, Sampling(), SeededChance(1))


def test_the_longest_match_comes_first_then_the_latest():
    #       0  1  2  3  4  5  6  7  8  9
    text = [1, 2, 3, 9, 2, 3, 8, 3, 2, 3]
    assert list(matches(text, 8, 1)) == [6, 3, 8]  # "2 3" twice, the later first; then a lone 3
    assert list(matches(text, 8, 2)) == [6, 3]
    assert list(matches(text, 1, 1)) == [8, 6, 3]  # no more than one token counts: the latest first
    assert list(matches([1, 2, 3], 8, 1)) == [] and list(matches([5], 8, 1)) == []


def test_matches_are_what_a_search_finds():
    text = [int(c) for c in "0110100110010110"]
    for longest, shortest in ((1, 1), (3, 2), (8, 1)):
        lengths = {}
        for place in range(1, len(text)):
            runs = [n for n in range(1, longest + 1)
                    if n <= place and text[place - n : place] == text[-n:]]  # fmt: skip
            if max(runs, default=0) >= shortest:
                lengths[place] = max(runs)
        want = sorted(lengths, key=lambda place: (-lengths[place], -place))
        assert list(matches(text, longest, shortest)) == want


def test_a_copy_that_reaches_the_end_goes_on_with_itself():
    assert copied([7, 1, 2], 1, 5) == (1, 2, 1, 2, 1)
    assert copied([7, 1, 2, 3], 0, 3) == (7, 1, 2)
    assert proposed(LookupDraft(), [4, 4], 3).tokens == (4, 4, 4)


def test_a_chain_of_point_masses_without_a_pass():
    found = proposed(LookupDraft(), [1, 2, 3, 9, 2, 3, 8, 3, 2, 3], 3)
    assert found.tokens == (8, 3, 2) and found.is_chain
    assert found.laws == (None,) * 3 and found.passes == 0
    assert (
        proposed(LookupDraft(8, 3), [1, 2, 3, 9, 2, 3], 3).tokens == ()
    )  # nothing of three agrees


def test_a_tree_shares_what_continuations_share():
    """Behind "2 3" stood 8 3 2 and 9 2 3, behind another 3 stood 2 3 2: three branches at the root, as deep as the budget goes."""
    draft, text = LookupDraft(8, 1, 3), [1, 2, 3, 9, 2, 3, 8, 3, 2, 3]
    found = proposed(draft, text, 10)
    assert found.parent == (-1, 0, 1, 2, -1, 4, 5, -1, 7, 8)  # the tenth node is the first's
    assert [found.tokens[node] for node in (0, 4, 7)] == [8, 9, 2]
    assert found.tokens[:4] == copied(text, 6, 4)
    assert proposed(draft, text, 3).parent == (-1, -1, -1)
    assert proposed(draft, text, 2).tokens == (8, 9)


def test_a_shared_beginning_stands_once_and_the_first_run_lies_contiguous():
    tokens, parents = merged([(1, 2, 3), (1, 4, 5), (6, 7, 8)], 7)
    assert tokens == [1, 2, 3, 4, 5, 6, 7]
    assert parents == [-1, 0, 1, 0, 3, -1, 5]  # the last run lacks its third token
    assert merged([(1, 2, 3), (1, 4, 5), (6, 7, 8)], 4) == ([1, 2, 4, 6], [-1, 0, 0, -1])
    assert merged([], 4) == ([], [])


def test_one_continuation_makes_the_first_branch_of_several():
    text = [1, 2, 3, 9, 2, 3, 8, 3, 2, 3]
    chain, tree = proposed(LookupDraft(), text, 4), proposed(LookupDraft(8, 1, 3), text, 12)
    assert tree.tokens[:4] == chain.tokens and tree.parent[:4] == chain.parent


def test_a_text_that_repeats_is_copied_and_nothing_is_read():
    truth = [1, 2, 3, 0] * 6
    target = scripted_model(truth, 4)
    done = generate(target, LookupDraft(), truth[:5], max_new_tokens=19, gamma=4,
                    sampling=GREEDY, chance=SeededChance(1))  # fmt: skip
    assert list(done.tokens) == truth[5:]
    totals = done.totals
    assert (totals.rounds, totals.accepted, totals.alpha) == (4, 16, 1.0)
    assert totals.draft_passes == totals.draft_bytes == 0
    draft = LookupDraft()
    assert draft.bytes_per_pass == draft.extra_bytes == draft.extra_parameters == 0


@pytest.mark.parametrize("spec", ["lookup", "lookup:n=3,m=2", "lookup:n=8,k=3"])
def test_greedy_text_is_plain_text(spec):
    target = small_micro(8, context=128)  # few tokens, so that runs come again
    want = plain(target, [1, 2, 3], 100, GREEDY, SeededChance(1), lanes=8)
    done = generate(target, make_draft(target, spec), [1, 2, 3], max_new_tokens=100, gamma=7, lanes=8,
                    sampling=GREEDY, chance=SeededChance(1))  # fmt: skip
    assert list(done.tokens) == want and done.totals.accepted > 10


@pytest.mark.parametrize(
    "spec, told",
    [
        ("lookup:q=1", "no option 'q'; there are n=8, m=1, k=1"),
        ("lookup:n=0", "n must be a whole number, 1 or above, not '0'"),
        ("lookup:k", "k must be a whole number, 1 or above, not ''"),
        ("lookup:n=2,m=3", "the fewest tokens m=3 are more than the most, n=2"),
        ("lookup+rtn4", "lookup takes no format"),
    ],
)
def test_a_bad_spec_is_refused_by_name(spec, told):
    with pytest.raises(ValueError, match=told) as caught:
        make_draft(small_micro(), spec)
    assert repr(spec) in str(caught.value) and "\n" not in str(caught.value)
