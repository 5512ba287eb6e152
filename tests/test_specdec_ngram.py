"""Counting drafts: counts, laws and bytes by hand, the specs that name them, and greedy text through them."""

import math
from collections import Counter

import numpy as np
import pytest

from experiments.exact.small_model import small_micro
from micro.chance import SeededChance, generator_for
from micro.files import FileFault
from micro.generate import generate as plain
from micro.sampling import Sampling
from micro.text import read_course
from specdec.course import DATA
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.ngram import NGram, NGramDraft, counted
from specdec.table import random_model

ABAB = bytes([0, 1, 0, 1])


def test_the_bigram_of_abab():
    """By hand. Unigram: a, b twice each, so 2/6 + 2/6 x 1/2 each. Behind a: b twice, one kind, so b has 2/3 + 1/3 x 1/2."""
    bigram = NGram(ABAB, 2, vocab=2)
    assert bigram.law([]) == pytest.approx([1 / 2, 1 / 2])
    assert bigram.law([0]) == pytest.approx([1 / 6, 5 / 6])
    assert bigram.law([1]) == pytest.approx([3 / 4, 1 / 4])  # b was followed once: 1/2 + 1/2 x 1/2
    assert bigram.law([1, 1, 0]) == pytest.approx([1 / 6, 5 / 6])  # the last token alone counts


def test_a_token_that_was_never_seen_keeps_a_share():
    """Unigram of abab over three tokens: two kinds of four counted, so each keeps 2/6 x 1/3 and the seen ones have 2/6 more."""
    for order in (1, 2, 3):
        assert NGram(ABAB, order, vocab=3).law([2]) == pytest.approx([4 / 9, 4 / 9, 1 / 9])


def written_out(text: bytes, order: int, vocab: int, context: bytes) -> list[float]:
    """The formula of the module, over dictionaries."""
    law = [1 / vocab] * vocab
    for length in range(min(order, len(context) + 1)):
        h = context[len(context) - length :]
        runs = [text[i : i + length + 1] for i in range(len(text) - length)]
        after = Counter(run[-1] for run in runs if run[:-1] == h)
        if after:
            total, kinds = after.total(), len(after)
            law = [(after[x] + kinds * law[x]) / (total + kinds) for x in range(vocab)]
    return law


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
def test_laws_are_the_formula(order):
    rng = generator_for(1, order)
    text = bytes(rng.integers(0, 4, size=300).tolist())
    found = NGram(text, order, vocab=5)
    for length in (0, 1, 2, 4, 9):
        for _ in range(10):
            context = bytes(rng.integers(0, 5, size=length).tolist())
            law = found.law(list(context))
            assert law.sum() == pytest.approx(1.0, abs=1e-12) and law.min() > 0
            assert law == pytest.approx(written_out(text, order, 5, context), abs=1e-12)


def test_a_text_shorter_than_the_order():
    assert NGram(bytes([1]), 5, vocab=2).law([1]) == pytest.approx([1 / 4, 3 / 4])
    assert NGram(bytes([1, 0]), 8, vocab=2).law([1, 1]) == pytest.approx(
        written_out(bytes([1, 0]), 8, 2, bytes([1, 1]))
    )


def test_bytes_by_hand():
    """abab, bigram: symbols a, b and b, a; counts 2, 2 and 2, 1; children begin at 0, 1 and end at 2."""
    bigram = NGram(ABAB, 2)
    assert [s.tolist() for s in bigram.symbols] == [[0, 1], [1, 0]]
    assert [c.tolist() for c in bigram.counts] == [[2, 2], [2, 1]]
    assert [s.tolist() for s in bigram.starts] == [[0, 1, 2]]
    assert bigram.bytes == (2 + 2) * (1 + 1) + 3 * 4 and bigram.numbers == 4
    # two symbols with their counts; a step: where a row begins and ends, 2 symbols of a bisection; one symbol with its count
    assert bigram.look_up_bytes == 2 * 2 + (8 + 2) + 1 * 2
    # aba and bab, once each: a second step in a row of one symbol, then one with its count
    assert NGram(ABAB, 3).look_up_bytes == 16 + (8 + 2) + (8 + 1) + 1 * 2
    draft = NGramDraft(bigram)
    assert (draft.bytes_per_pass, draft.extra_bytes, draft.extra_parameters) == (16, 20, 4)


def test_counts_take_as_few_bytes_as_they_need():
    assert NGram(bytes([7] * 255), 1).counts[0].dtype == np.uint8
    assert NGram(bytes([7] * 256), 1).counts[0].dtype == np.uint16


def test_the_course_predicts_itself_and_costs_little():
    """Bits a byte on the validation plates fall with the order up to 5; a look-up reads under half a percent of its table."""
    text = read_course(DATA).joined("validation")[5_000:8_000]

    def bits(order: int) -> float:
        found = counted(order, "")
        return -sum(math.log2(found.law(text[i - 8 : i])[text[i]]) for i in range(8, len(text))) / (
            len(text) - 8
        )

    assert bits(1) > bits(2) + 0.5 > bits(3) + 1.0 > bits(5) + 1.0
    five = counted(5, "")
    assert five is counted(5, "")  # counted once a process
    assert five.look_up_bytes < 0.005 * five.bytes and 300_000 < five.bytes < 600_000


# --- the draft


def test_passes_and_bytes_are_counted_as_they_happen():
    target = small_micro(256, context=64)
    draft = make_draft(target, "ngram:3")
    done = generate(target, draft, [65, 66], max_new_tokens=12, gamma=3, sampling=Sampling(), chance=SeededChance(1))  # fmt: skip
    for one in done.rounds:
        assert one.draft_passes == one.proposed == len(one.q)
        assert one.draft_bytes == one.draft_passes * draft.bytes_per_pass > 0


def test_laws_are_warped_as_the_target_is():
    draft = NGramDraft(NGram(bytes([0, 1, 0, 2, 0, 1, 2]), 2, vocab=3))
    draft.start([0], random_model(3))
    (token,), (law,) = (lambda p: (p.tokens, p.laws))(
        draft.propose(1, Sampling(0.0), SeededChance(1))
    )
    assert token == 1 and law.tolist() == [0.0, 1.0, 0.0]
    law = draft.propose(1, Sampling(0.5, top_k=2), SeededChance(1)).laws[0].numpy()
    squares = draft.counted.law([0]) ** 2
    squares[squares.argmin()] = 0
    assert law == pytest.approx(squares / squares.sum())


@pytest.mark.parametrize("spec", ["ngram", "ngram:1", "ngram:2", "ngram:8"])
def test_greedy_text_is_plain_text(spec):
    target = small_micro(256, context=96)
    prompt = list(b"The attention")
    want = plain(target, prompt, 60, Sampling(0.0), SeededChance(1), lanes=8)
    done = generate(target, make_draft(target, spec), prompt, max_new_tokens=60, gamma=7, lanes=8,
                    sampling=Sampling(0.0), chance=SeededChance(1))  # fmt: skip
    assert list(done.tokens) == want


# --- specs


def test_a_text_of_ones_own(tmp_path):
    folder = tmp_path / "a+b"  # a plus in a path asks for no format
    folder.mkdir()
    (folder / "x.txt").write_bytes(b"abcabcabc" * 20)
    draft = make_draft(small_micro(), f"ngram:3:{folder}")
    assert draft.counted.law(b"ab").argmax() == ord("c")


@pytest.mark.parametrize(
    "spec, told",
    [
        ("ngram:0", "the order must be a whole number, 1 or above, not '0'"),
        ("ngram:x", "the order must be a whole number, 1 or above, not 'x'"),
        ("ngram::text", "the order must be a whole number, 1 or above, not ''"),
        ("ngram:9", "the order is 1 to 8, not 9"),
        ("ngram:5+rtn4", "ngram takes no format, drop"),
        ("ngrams:5", "unknown draft .* ngram, "),
    ],
)
def test_a_bad_spec_is_refused_by_name(spec, told):
    with pytest.raises(ValueError, match=told) as caught:
        make_draft(small_micro(), spec)
    assert repr(spec) in str(caught.value) and "\n" not in str(caught.value)


def test_a_text_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileFault, match="nowhere"):
        make_draft(small_micro(), f"ngram:5:{tmp_path / 'nowhere'}")


def test_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match="counts 256 tokens, the target has 3"):
        NGramDraft(NGram(ABAB, 2)).start([0], random_model(3))


@pytest.mark.parametrize("text, order", [(b"", 2), (bytes([3]), 2), (ABAB, 0), (ABAB, 9)])
def test_what_cannot_be_counted_is_refused(text, order):
    with pytest.raises(ValueError, match="an n-gram's order|a text of bytes below 3"):
        NGram(text, order, vocab=3)
