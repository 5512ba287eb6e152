"""Cascades: the larger draft's law through all levels, its passes and bytes counted, its caches behind every round, specs."""

import pytest
import torch

from experiments.exact.laws import gap, law_of, target_law, walks
from experiments.exact.metered import Metered
from experiments.exact.small_model import small_micro
from micro.chance import KeyedChance, SeededChance, every_branch
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.cascade import CascadeDraft, CatchingUp
from specdec.drafts.lookup import LookupDraft
from specdec.drafts.model import ModelDraft
from specdec.drafts.ngram import NGram, NGramDraft
from specdec.drafts.table import ScriptedDraft
from specdec.table import near, random_model, table_law

COOL, GREEDY = Sampling(0.8), Sampling(0.0)
PROMPT = [1, 0]


def levels(target):
    """name -> maker of a cascade whose topmost model is near(target)."""
    large, small = near(target), near(target, 2)
    counts = NGram(bytes([0, 1, 1, 0, 1, 0, 0, 1]), 2, target.vocab)

    def two(smaller, block):
        return CascadeDraft(smaller, ModelDraft(large, 100), block)

    return large, {
        "counts": lambda: two(NGramDraft(counts), 2),
        "a model, 1 at once": lambda: two(ModelDraft(small, 10), 1),
        "a model, 3 at once": lambda: two(ModelDraft(small, 10), 3),
        "copies": lambda: two(LookupDraft(), 4),
        "a tree of copies": lambda: two(LookupDraft(4, 1, 2), 4),
        "three": lambda: two(CascadeDraft(LookupDraft(), ModelDraft(small, 10), 2), 2),
    }


def text(target, draft, count=24, gamma=3, sampling=COOL, seed=1, chance=None, **options):
    return generate(target, draft, PROMPT, max_new_tokens=count, gamma=gamma, sampling=sampling,
                    chance=chance or SeededChance(seed), **options)  # fmt: skip


NAMES = list(levels(random_model(2))[1])


# --- laws


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vocab, gamma", [(2, 3), (3, 2)])
def test_drafted_tokens_have_the_larger_models_law(name, vocab, gamma):
    """Every way that one proposal can go: the joint law is the larger's, and so is the law told of each token."""
    target = random_model(vocab, seed=4)
    large, makers = levels(target)
    draft = makers[name]()

    def run(chance):
        draft.start(PROMPT, target)
        return draft.propose(gamma, COOL, chance)

    law = {}
    with torch.inference_mode():
        for mass, found in every_branch(run):
            assert found.is_chain and len(found.tokens) == gamma
            law[found.tokens] = law.get(found.tokens, 0.0) + mass
            for place, told in enumerate(found.laws):
                want = table_law(large, (*PROMPT, *found.tokens[:place]), COOL)
                assert (told - want).abs().max() < 1e-15
    assert gap(law, target_law(large, PROMPT, gamma, COOL)) < 1e-12


def of_texts(vocab, name):
    target = random_model(vocab, seed=4)
    runs = walks(
        target, levels(target)[1][name](), PROMPT, max_new_tokens=3, gamma=2, sampling=COOL
    )
    return gap(law_of(runs), target_law(target, PROMPT, 3, COOL))


@pytest.mark.parametrize("name", ["a model, 1 at once", "copies", "a tree of copies"])
def test_texts_have_the_targets_law(name):
    assert of_texts(2, name) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("vocab", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_texts_of_every_cascade_have_the_targets_law(name, vocab):
    assert of_texts(vocab, name) < 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", ["match", "coupled"])
def test_under_keyed_noise_a_cascade_drafts_what_its_larger_model_drafts(name, rule):
    target = random_model(5, seed=1)
    large, makers = levels(target)
    for seed in range(3):
        alone = text(target, ModelDraft(large, 1), chance=KeyedChance(seed), rule=rule)
        done = text(target, makers[name](), chance=KeyedChance(seed), rule=rule)
        assert [r.drafted for r in done.rounds] == [r.drafted for r in alone.rounds]
        assert done.tokens == alone.tokens


@pytest.mark.parametrize("name", NAMES)
def test_greedy_text_and_drafts_are_those_of_the_larger_alone(name):
    target = random_model(5, seed=1)
    large, makers = levels(target)
    alone = text(target, ModelDraft(large, 1), 40, sampling=GREEDY)
    done = text(target, makers[name](), 40, sampling=GREEDY)
    assert list(done.tokens) == plain(target, PROMPT, 40, GREEDY, SeededChance(1))
    assert [r.drafted for r in done.rounds] == [r.drafted for r in alone.rounds]


@pytest.mark.parametrize("spec", ["cascade:ngram:3>rtn3", "cascade:lookup:k=2@5>rtn2@1>rtn4"])
def test_greedy_text_of_micro_is_plain_text(spec):
    """In lanes, through real caches."""
    target = small_micro(256, context=96)
    prompt = list(b"The attention")
    want = plain(target, prompt, 60, GREEDY, SeededChance(1), lanes=8)
    done = generate(target, make_draft(target, spec), prompt, max_new_tokens=60, gamma=7, lanes=8,
                    sampling=GREEDY, chance=SeededChance(1))  # fmt: skip
    assert list(done.tokens) == want


# --- passes, bytes, caches


@pytest.mark.parametrize("name", NAMES)
def test_passes_and_bytes_of_all_levels_are_those_really_made(name):
    target = random_model(4, seed=2)
    draft = levels(target)[1][name]()
    read = {}  # bytes a pass -> the models that were asked
    level = draft
    while isinstance(level, CascadeDraft):
        level.larger.model = Metered(level.larger.model)
        read.setdefault(level.larger.bytes_per_pass, []).append(level.larger.model)
        level = level.smaller
    if isinstance(level, ModelDraft):
        level.model = Metered(level.model)
        read.setdefault(level.bytes_per_pass, []).append(level.model)
    totals = text(target, draft, 40, 5).totals
    passes = {size: sum(m.passes for m in models) for size, models in read.items()}
    looked = totals.draft_passes - sum(passes.values())  # look-ups, which no model makes
    each = level.bytes_per_pass if isinstance(level, NGramDraft) else 0
    assert looked > 0 if each else looked == 0
    assert totals.draft_bytes == sum(size * n for size, n in passes.items()) + each * looked
    assert passes[100] < totals.proposed  # or the smaller would be of no use


def test_passes_and_bytes_by_hand():
    """Four drafted, two at once: the larger's first pass keeps both and adds a bonus, its second keeps the one that is left."""
    target = random_model(4, seed=2)
    truth = plain(target, PROMPT, 4, GREEDY, SeededChance(1))
    script = ScriptedDraft([*PROMPT, *truth])
    draft = CascadeDraft(script, ModelDraft(target, 100), 2)
    draft.start(PROMPT, target)
    found = draft.propose(4, GREEDY, SeededChance(1))
    assert list(found.tokens) == truth
    assert (found.passes, found.bytes_read) == (
        2,
        200,
    )  # 2 kept and a bonus; 1 kept, which fills the budget


def test_a_pass_that_catches_up_is_no_further_pass():
    """Behind a full round the larger's cache lacks a token; it is read with what is asked next."""
    target = random_model(4, seed=2)
    draft = CascadeDraft(ModelDraft(target, 10), ModelDraft(target, 100), 2)
    done = text(target, draft, 12, 3, GREEDY)
    assert done.totals.alpha == 1.0 and done.totals.rounds == 3
    # 3 drafted at once: 2 of the smaller and a bonus, one pass of the larger and two of the smaller
    assert [(r.draft_passes, r.draft_bytes) for r in done.rounds] == [(3, 120)] * 3


@pytest.mark.parametrize("name", NAMES)
def test_every_cache_holds_a_prefix_of_the_text_after_every_round(name):
    target = random_model(4, seed=2)
    for seed in range(4):
        draft = levels(target)[1][name]()
        for _, state in rounds(target, draft, PROMPT, max_new_tokens=30, gamma=4, sampling=COOL,
                               chance=SeededChance(seed)):  # fmt: skip
            level, held = draft, []
            while isinstance(level, CascadeDraft):
                held.append(level.cache.tokens)
                level = level.smaller
            if isinstance(level, ModelDraft):
                held.append(level.cache.tokens)
            assert all(h == state.tokens[: len(h)] and len(h) < len(state.tokens) for h in held)
            assert len(held[0]) >= len(state.tokens) - 2  # the larger's lacks one at most


def test_catching_up_shows_each_row_what_it_may_see():
    """A tree behind two tokens that the cache lacks, against the same tree behind a cache that has them."""
    model = small_micro(16, context=32)
    past, tokens = [3, 1, 4, 1, 5], torch.tensor([[9, 2, 6]])
    positions = torch.tensor([5, 6, 6])
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
    whole, behind = model.new_cache(1), model.new_cache(1)
    with torch.inference_mode():
        model.forward(torch.tensor([past]), whole)
        model.forward(torch.tensor([past[:3]]), behind)
        want, _ = model.forward(tokens, whole, positions, mask)
        late = CatchingUp(model, [*past, 9])
        found, states = late.forward(tokens, behind, positions, mask)
    assert behind.length == whole.length == 8 and late.passes == 1
    assert found.shape == want.shape and states.shape[:2] == (1, 3)
    # float32 sums in another order: a few last places; a row that sees too much differs by as much as logits are large
    assert (found - want).abs().max() < 1e-4 * want.abs().max()


# --- specs


def test_levels_and_blocks_of_a_spec():
    target = small_micro(256)
    draft = make_draft(target, "cascade:ngram:2@6>rtn3@1>rtn4")
    inner = draft.smaller
    assert (draft.block, inner.block, inner.smaller.counted.order) == (1, 6, 2)
    alone = {f: make_draft(target, f) for f in ("ngram:2", "rtn3", "rtn4")}
    assert draft.bytes_per_pass == alone["rtn4"].bytes_per_pass
    assert inner.bytes_per_pass == alone["rtn3"].bytes_per_pass
    for what in ("extra_bytes", "extra_parameters"):
        assert getattr(draft, what) == sum(getattr(d, what) for d in alone.values())
    assert make_draft(target, "cascade:ngram>rtn3").smaller.counted.order == 5


@pytest.mark.parametrize("read, block", [(0, 4), (49, 4), (50, 1), (100, 1)])
def test_a_small_draft_drafts_four_at_once_and_a_large_one_one(read, block):
    models = [ModelDraft(random_model(2), size) for size in (read, 100)]
    assert CascadeDraft(*models).block == block
    assert CascadeDraft(*models, 3).block == 3
    assert CascadeDraft(CascadeDraft(LookupDraft(), models[0]), models[1]).block == 4


@pytest.mark.parametrize(
    "spec, told",
    [
        ("cascade:rtn3", "needs two drafts or more"),
        ("cascade", "needs two drafts or more"),
        ("cascade:>rtn3", "needs two drafts or more"),
        ("cascade:rtn3>", "needs two drafts or more"),
        ("cascade:rtn3>ngram:5", "ngram:5 is no model that another can draft for"),
        ("cascade:rtn3>lookup>rtn4", "lookup is no model that another can draft for"),
        ("cascade:cascade:rtn3>rtn4", "needs two drafts or more"),
        ("cascade:ngram:5@0>rtn3", "the tokens behind @ must be a whole number, 1 or above"),
        ("cascade:ngram:0>rtn3", "the order must be a whole number"),
        ("cascade:ngram:5>rtn33", "unknown draft 'rtn33'"),
    ],
)
def test_a_bad_spec_is_refused_by_name(spec, told):
    with pytest.raises(ValueError, match=told) as caught:
        make_draft(small_micro(256), spec)
    assert "\n" not in str(caught.value)


def test_a_level_of_another_vocabulary_is_refused():
    draft = CascadeDraft(NGramDraft(NGram(bytes(4), 1)), ModelDraft(random_model(3), 1))
    with pytest.raises(ValueError, match="counts 256 tokens, the target has 3"):
        draft.start(PROMPT, random_model(3))
