"""A draft over the target's cache: what it holds after each round, what it reads, and that the text stays the target's."""

import pytest
import torch

from experiments.exact.caches import left_over
from experiments.exact.enumeration import PROMPT, SAMPLINGS, STOPS, by_program, by_walks, keyed
from experiments.exact.laws import gap, law_of, target_law, walks
from experiments.exact.small_model import small_micro
from experiments.identity.comparison import compare, plain_text
from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.confidence import LeastProbability
from specdec.drafts.model import ModelDraft
from specdec.drafts.shared import SharedDraft, shared_draft
from specdec.drafts.spec import Spec
from specdec.table import TableModel, TokenCache, near, random_model

GREEDY = Sampling(0.0)


def shared(target, **options) -> SharedDraft:
    return SharedDraft(ModelDraft(near(target), 1, **options))


def steps(target, draft, prompt, count, gamma, sampling=GREEDY, seed=1, **options):
    return rounds(target, draft, prompt, max_new_tokens=count, gamma=gamma, sampling=sampling,
                  chance=SeededChance(seed), **options)  # fmt: skip


def entries(cache, start, end):
    return torch.stack([cache.keys, cache.values])[..., start:end, :]


# --- what it holds


@pytest.mark.parametrize("prompt", [[1], [1, 2, 3, 4, 5]])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1.0)])
def test_after_every_round_it_holds_the_targets_entries_of_all_but_the_last_token(prompt, sampling):
    target = small_micro()
    draft = make_draft(target, "shared:rtn2")
    for _, state in steps(target, draft, prompt, 40, 4, sampling):
        n = draft.cache.length
        assert n == state.cache.length == len(state.tokens) - 1
        assert torch.equal(entries(draft.cache, 0, n), entries(state.cache, 0, n))
        assert draft.cache.keys.data_ptr() != state.cache.keys.data_ptr()


def test_in_lanes_the_entries_of_new_tokens_are_the_targets_too():
    """Those of the prompt come from a pass of another width, so they differ by rounding."""
    target, prompt = small_micro(), [1, 2, 3, 4, 5]
    draft = make_draft(target, "shared:rtn2")
    for _, state in steps(target, draft, prompt, 40, 4, lanes=8):
        n = draft.cache.length
        got, want = entries(draft.cache, 0, n), entries(state.cache, 0, n)
        assert torch.equal(got[..., 4:, :], want[..., 4:, :])
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_a_table_draft_holds_the_text_whatever_was_drafted():
    target = random_model(3, seed=5)
    for stop in ((), ((2, 1),), (0,)):
        draft = shared(target)
        for seed in range(6):
            for _, state in steps(target, draft, [0, 1], 17, 4, Sampling(), seed, stop=stop):
                assert draft.cache.tokens == state.tokens[:-1]


# --- what it reads


class Watched:
    """A model that notes how many tokens each pass was fed."""

    def __init__(self, model):
        self.model, self.fed = model, []
        self.vocab, self.context, self.new_cache = model.vocab, model.context, model.new_cache

    def forward(self, tokens, cache):
        self.fed.append(tokens.shape[1])
        return self.model.forward(tokens, cache)


def test_no_pass_catches_up_with_the_text():
    target = random_model(3, seed=5)
    for make, first in ((SharedDraft, 1), (lambda inner: inner, 6)):
        watched = Watched(near(target))
        draft = make(ModelDraft(watched, 7))
        done = list(steps(target, draft, [0, 1, 2, 0, 1, 2], 20, 3))
        assert watched.fed[0] == first
        assert set(watched.fed[1:]) == ({1} if first == 1 else {1, 2})
        totals = [(one.draft_passes, one.draft_bytes) for one, _ in done]
        assert all(size == 7 * passes for passes, size in totals)
        assert len(watched.fed) == sum(passes for passes, _ in totals)


def test_its_laws_are_the_copys_over_the_targets_entries():
    target, sampling = small_micro(), Sampling(1.0)
    draft, own = make_draft(target, "shared:rtn2"), make_draft(target, "rtn2")
    *_, (_, state) = steps(target, draft, [1, 2, 3], 20, 4, sampling)
    cache, text = target.new_cache(1), [*state.tokens, 7]
    own.start(text, target)
    draft.start(text, target)
    with torch.inference_mode():
        proposal = draft.propose(3, sampling, SeededChance(3))
        target.forward(torch.tensor([text[:-1]]), cache)
        for token, law in zip([text[-1], *proposal.tokens], proposal.laws):
            logits, _ = draft.model.forward(torch.tensor([[token]]), cache)
            assert torch.equal(law, sampling.probs(logits[0, -1]))
        alone = own.propose(3, sampling, SeededChance(3))
    # the copy's own entries give another law: which cache is read does make a difference here
    assert (proposal.laws[0] - alone.laws[0]).abs().sum() > 1e-3


def test_an_equal_draft_is_always_accepted():
    target = small_micro()
    draft = SharedDraft(ModelDraft(target, 1))
    *done, _ = steps(target, draft, [5, 6, 7], 60, 3, lanes=4)
    assert all(one.accepted == one.proposed == 3 for one, _ in done)


# --- the law


@pytest.mark.parametrize("warp", SAMPLINGS)
def test_the_joint_law_is_the_targets(warp):
    target = random_model(3, seed=5)
    found = by_program(target, shared(target), 4, 2, SAMPLINGS[warp])
    assert found.evidence <= found.limit


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
def test_the_joint_law_is_the_targets_with_stops(stops):
    target = random_model(3, seed=5)
    found = by_walks(target, shared(target), 3, 2, stops=stops)
    assert found.evidence <= found.limit


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_joint_law_is_the_targets_near_limits(limit):
    target, short = random_model(3, seed=5), random_model(3, seed=5, context=len(PROMPT) + limit)
    for found in (by_walks(target, shared(target), limit, 4),
                  by_walks(short, shared(short), 50, 3),
                  by_walks(target, shared(target, stop=LeastProbability(0.45)), limit, 3)):  # fmt: skip
        assert found.evidence <= found.limit


def test_the_joint_law_over_real_caches_is_the_targets():
    """All ways the loop can go over a Transformer of 3 tokens, in float64: a table model's cache could not show whose entries are
    read. The law is a product of softmaxes, each right to some 1e-14 through two layers."""
    target = small_micro(vocab=3, context=16).double()
    draft = make_draft(target, "shared:rtn2")
    with torch.inference_mode():
        table = TableModel(3, lambda prefix: target(torch.tensor([prefix]))[0][0, -1].numpy())
        want = target_law(table, PROMPT, 3, Sampling(0.8))
        runs = list(walks(target, draft, PROMPT, max_new_tokens=3, gamma=2, sampling=Sampling(0.8)))
    assert gap(law_of(runs), want) < 1e-12
    rates = [one.rounds[0].accepted for _, one in runs]
    assert {0, 1, 2} <= set(rates)


def test_coupled_text_is_plain_text():
    target = random_model(6, seed=3)
    assert keyed(target, shared(target), Sampling(1.0)).evidence == 0


# --- identity and independence


def test_greedy_text_logits_and_cache_have_the_bits_of_plain_decoding():
    target = small_micro()
    for name in ("rtn4", "rtn2"):
        draft = make_draft(target, f"shared:{name}")
        for gamma in (1, 4, 7):
            want = plain_text(target, [5, 6, 7], 60, 8)
            found = compare(want, steps(target, draft, [5, 6, 7], 60, gamma, lanes=8))
            assert found.counts.identical is True


def test_no_call_remembers_another():
    target = random_model(3, seed=6)
    assert left_over(target, lambda: shared(target), "token").evidence == 0
    micro = small_micro(context=64)
    found = left_over(micro, lambda: make_draft(micro, "shared:rtn3"), "token", 64, 8)
    assert found.evidence == 0


# --- the copies of entries


def test_entries_are_copied_behind_those_that_stand():
    model = small_micro()
    a, b = model.new_cache(1), model.new_cache(1, 8)
    with torch.inference_mode():
        model(torch.tensor([[1, 2, 3, 4, 5]]), a)
        model(torch.tensor([[9, 8, 7, 6]]), b)
        before = entries(a, 0, 2).clone()
        a.copy_from(b, 2, 4)
    assert a.length == 4 and torch.equal(entries(a, 0, 2), before)
    assert torch.equal(entries(a, 2, 4), entries(b, 2, 4))


def test_a_copy_that_would_leave_a_hole_is_refused():
    model = small_micro()
    a, b, table, other = model.new_cache(1), model.new_cache(1), TokenCache(), TokenCache()
    with torch.inference_mode():
        model(torch.tensor([[1, 2, 3]]), a)
        model(torch.tensor([[1, 2]]), b)
    table.tokens, other.tokens = [1, 2, 3], [1, 2]
    for cache, source in ((a, b), (table, other)):
        for start, end in ((1, 3), (2, 1), (-1, 2)):
            with pytest.raises(
                ValueError, match=f"cannot copy the .* {start} to {end} of 2 behind 3"
            ):
                cache.copy_from(source, start, end)
        with pytest.raises(ValueError, match="3 to 3 of 3 behind 2"):
            source.copy_from(cache, 3, 3)
        assert cache.length == 3 and source.length == 2


# --- by its name


def test_it_costs_what_the_copy_costs_and_may_stop_by_confidence():
    target = small_micro()
    inner, draft = make_draft(target, "rtn3"), make_draft(target, "shared:rtn3")
    for name in ("bytes_per_pass", "extra_bytes", "extra_parameters"):
        assert getattr(draft, name) == getattr(inner, name) > 0
    stop = LeastProbability(0.9)
    draft = make_draft(target, "shared:rtn3", stop)
    done = generate(target, draft, [1], max_new_tokens=30, gamma=6,
                    sampling=Sampling(), chance=SeededChance(1))  # fmt: skip
    assert draft.stop is stop and 1 <= min(r.proposed for r in done.rounds[:-1]) < 6


@pytest.mark.parametrize(
    "spec, message",
    [
        ("shared:jacobi", "jacobi is no copy of the target, whose cache it is to read"),
        ("shared:shared:rtn3", "shared:rtn3 is no copy of the target"),
        ("shared", "lacks the copy that shares the cache, as in shared:rtn3"),
        ("shared+rtn3", "lacks the copy that shares the cache, as in shared:rtn3"),
        ("shared:rtn9", "unknown draft 'rtn9'"),
    ],
)
def test_a_wrong_spec_is_refused_by_name(spec, message):
    with pytest.raises(ValueError, match=message):
        make_draft(small_micro(), spec)


def test_counting_drafts_have_no_cache_to_share(tmp_path):
    (tmp_path / "text").write_text("some text to count in, and more of it\n" * 9)
    with pytest.raises(ValueError, match="no copy of the target, whose cache it is to read"):
        make_draft(small_micro(vocab=256), f"shared:ngram:2:{tmp_path / 'text'}")


def test_a_model_of_another_shape_is_refused():
    target, other = small_micro(), small_micro(context=512)
    with pytest.raises(ValueError, match="other has another shape than the target"):
        shared_draft(target, Spec.parse("shared:other"), lambda *_: ModelDraft(other, 1))
