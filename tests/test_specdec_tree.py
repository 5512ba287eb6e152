"""A model's tree draft: exact by enumeration, its caches rolled back, its children lawful, its spec readable."""

import json

import pytest
import torch

from experiments.exact.caches import ROUNDED, distance
from experiments.exact.check import near_and_far, steps, texts
from experiments.exact.enumeration import COOL, PROMPT, by_walks, target_of
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance, generator_for
from micro.files import FileFault
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.drafts import measured
from specdec.drafts.child_laws import HOWS, likeliest, next_child, remaining
from specdec.drafts.measured import measured_shapes, read_measured, write_measured
from specdec.drafts.model import ModelDraft
from specdec.drafts.packed import model_draft
from specdec.drafts.spec import Spec
from specdec.drafts.tree import ModelTree, tree_draft
from specdec.table import near
from specdec.trees import depths, laid_out, uniform

GREEDY = Sampling(0.0)
WIDE = laid_out(
    [-1, -1, 0, 0, 1, 2]
)  # a second child that has a child of its own, below a chain of 3


def draft_of(model, how="without", shape=WIDE):
    return ModelTree(ModelDraft(model, 1), how, {1.0: shape})


def make(target, spec):
    return model_draft(target, spec, spec)


# --- the law


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("which", ["near", "far"])
def test_joint_law_of_whole_walks(how, which):
    """Two children, the second of which has one; every way the text can go, with what one call leaves for the next."""
    target = target_of(2, 11)
    draft = draft_of(near_and_far(target)[which], how, laid_out([-1, -1, 1]))
    found = by_walks(target, draft, 4, 3)
    assert found.evidence < found.limit


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.9, 2, 0.8)])
@pytest.mark.parametrize("how", HOWS)
def test_joint_law_with_warping_and_a_gamma_below_the_shape(how, sampling):
    target = target_of(3, 4)
    draft = draft_of(near(target), how, uniform([2, 1]))
    found = by_walks(target, draft, 3, 3, sampling, stops=((2, 1),))
    assert found.evidence < found.limit


@pytest.mark.parametrize("rule", ["match", "coupled"])
def test_other_rules_that_judge_trees(rule):
    target = target_of(2, 3)
    found = by_walks(target, draft_of(near(target), "without", uniform([2, 1])), 3, 4, rule=rule)
    assert found.evidence < found.limit


# --- caches


@pytest.mark.parametrize("how", HOWS)
def test_the_drafts_cache_holds_what_was_read_of_the_text(how):
    target, paths = target_of(3, 5), set()
    for seed in range(8):
        draft, length = draft_of(near(target), how), len(PROMPT)
        for one, state in steps(target, draft, PROMPT, 25, 6, sampling=COOL,
                                chance=SeededChance(seed)):  # fmt: skip
            held = draft.inner.cache.tokens
            assert held == state.tokens[: len(held)] and len(held) < len(state.tokens)
            # the text before, and of the accepted path all but its end, which may be a leaf
            assert len(held) >= min(length + one.accepted - 1, len(state.tokens) - 1)
            assert state.cache.tokens == state.tokens[:-1]
            paths.add(one.kept)
            length = len(state.tokens)
    assert any(len(path) > 1 and path[0] != 0 for path in paths)  # off the first chain


@pytest.mark.parametrize("lanes", [0, 8])
def test_real_caches_against_a_fresh_pass(lanes):
    target = small_micro(context=64)
    draft = ModelTree(make(target, "rtn4"), "without", {0.0: WIDE})
    kept = set()
    for one, state in steps(target, draft, [1, 2, 3], 40, 6, sampling=Sampling(0.8), lanes=lanes):
        kept.add(one.kept)
        assert distance(target, state.cache, state.tokens, lanes) < ROUNDED
        assert distance(draft.inner.model, draft.inner.cache, state.tokens, 0) < ROUNDED
    assert any(path and path != tuple(range(len(path))) for path in kept)  # moved keys


def test_a_tree_runs_to_the_contexts_end():
    target = small_micro(context=24)
    draft = ModelTree(make(target, "rtn4"), "points", {0.0: uniform([2, 2, 2])})
    done = texts(target, draft, [1, 2], 99, 14, GREEDY)
    assert done.ended == "context" and list(done.tokens) == plain(
        target, [1, 2], 99, GREEDY, SeededChance(0)
    )


# --- passes, budget, order


def test_one_pass_a_level_and_a_smaller_gamma_keeps_the_beginning():
    target = target_of(3, 5)
    draft = draft_of(near(target), "without", uniform([2, 2, 1]))
    for gamma, passes in ((10, 3), (5, 3), (3, 3), (2, 2), (1, 1)):
        draft.start(PROMPT, target)
        proposal = draft.propose(gamma, COOL, SeededChance(1))
        assert proposal.parent == uniform([2, 2, 1])[:gamma]
        assert proposal.passes == passes


def test_every_law_is_the_models_along_the_path_without_elder_siblings():
    target = target_of(3, 5)
    model = near(target)
    for how in HOWS:
        draft = draft_of(model, how)
        draft.start(PROMPT, target)
        proposal = draft.propose(6, COOL, SeededChance(3))
        for node, (token, law) in enumerate(zip(proposal.tokens, proposal.laws)):
            path, at = [], proposal.parent[node]
            while at >= 0:
                path.insert(0, proposal.tokens[at])
                at = proposal.parent[at]
            elder = [proposal.tokens[i] for i in proposal.children(proposal.parent[node])
                     if i < node]  # fmt: skip
            q = COOL.probs(model.logits((*PROMPT, *path)))
            if how == "points":
                assert law is None and token == likeliest(model.logits((*PROMPT, *path)), elder)
            else:
                want = remaining(q, elder) if how == "without" else q
                assert torch.allclose(law, want, rtol=1e-14)
                assert law[token] > 0


def test_the_shape_of_the_nearest_temperature_is_used():
    target = target_of(3, 5)
    shapes = {0.0: uniform([3]), 1.0: uniform([1, 1])}
    draft = ModelTree(ModelDraft(target, 1), "points", shapes)
    assert draft.shape(Sampling(0.4)) == (-1, -1, -1) and draft.shape(Sampling(0.6)) == (-1, 0)
    assert draft.shape(Sampling(0.5)) == (-1, -1, -1)  # as near: the lower


# --- siblings


def test_what_is_left_behind_elder_siblings():
    law = torch.tensor([0.5, 0.3, 0.2])
    assert torch.allclose(remaining(law, [0]), torch.tensor([0.0, 0.6, 0.4]))
    assert remaining(torch.tensor([0.0, 1.0]), [1]) is None
    assert torch.equal(law, torch.tensor([0.5, 0.3, 0.2]))  # not changed
    logits = torch.tensor([1.0, 3.0, 3.0, 2.0])
    assert [likeliest(logits, elder) for elder in ([], [1], [1, 2])] == [1, 2, 3]


def test_without_replacement_and_no_mass_left_is_a_point():
    one_hot, logits = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.5, 2.0, 1.0])
    chance = SeededChance(0)
    token, law = next_child("without", one_hot, logits, [], chance, 0)
    assert token == 1 and law is not None
    assert next_child("without", one_hot, logits, [1], chance, 0) == (2, None)
    assert next_child("with", one_hot, logits, [1], chance, 0)[0] == 1


def test_without_replacement_draws_what_it_says():
    """Of 20,000 pairs from (.6, .3, .1) each ordered pair's share lies within 5 deviations (< .018) of q(a) q(b) / (1 - q(a))."""
    law = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    chance, counts, n = SeededChance(7), {}, 20_000
    for _ in range(n):
        first, _ = next_child("without", law, law, [], chance, 0)
        second, _ = next_child("without", law, law, [first], chance, 0)
        counts[first, second] = counts.get((first, second), 0) + 1
    for a in range(3):
        for b in set(range(3)) - {a}:
            want = float(law[a] * law[b] / (1 - law[a]))
            assert abs(counts[a, b] / n - want) < 5 * (want * (1 - want) / n) ** 0.5


# --- greedy text in lanes: forks are possible off the first chain, and counted; the chain's rows keep their bits


def test_a_tree_that_is_a_chain_drafts_what_the_chain_drafts():
    target = small_micro(context=64)
    for sampling in (GREEDY, Sampling(0.9)):
        chain = texts(target, make(target, "rtn3"), [1, 2], 30, 3, sampling, SeededChance(2))
        one_wide = ModelTree(make(target, "rtn3"), "with", {0.0: uniform([1, 1, 1])})
        assert texts(target, one_wide, [1, 2], 30, 3, sampling, SeededChance(2)) == chain


# --- specs and the table that ships


def parsed(target, text):
    return tree_draft(target, Spec.parse(text), make)


def test_a_spec_is_read():
    target = small_micro()
    draft = parsed(target, "tree:without,2x2x1:rtn3")
    assert draft.how == "without" and draft.shapes == {0.0: uniform([2, 2, 1])}
    inner = make(target, "rtn3")
    assert draft.bytes_per_pass == inner.bytes_per_pass and draft.extra_bytes == inner.extra_bytes
    assert draft.extra_parameters == inner.extra_parameters > 0


@pytest.mark.parametrize(
    "text, fault",
    [
        ("tree", "write tree:HOW,SHAPE:DRAFT"),
        ("tree:2x2:rtn3", "write tree:HOW,SHAPE:DRAFT"),
        ("tree:without,2x2", "write tree:HOW,SHAPE:DRAFT"),
        ("tree:without,2x0:rtn3", "a width of the shape must be a whole number, 1 or above"),
        ("tree:without,:rtn3", "a width of the shape must be"),
        ("tree:points,4x4x4x4:rtn3", "more than 255 nodes"),
        ("tree:best,few:rtn3", "nodes must be a whole number"),
        ("tree:best,64:rtn3", "sought up to 63 nodes"),
    ],
)
def test_a_bad_spec_is_told_in_one_line(text, fault):
    with pytest.raises(ValueError, match=fault) as refusal:
        parsed(small_micro(), text)
    assert "\n" not in str(refusal.value) and repr(text) in str(refusal.value)


def test_only_a_plain_model_has_a_tree():
    target = small_micro()
    with pytest.raises(ValueError, match="tree:points,2:rtn4 is no plain model"):
        tree_draft(target, Spec.parse("tree:with,2:tree:points,2:rtn4"),
                   lambda target, spec: tree_draft(target, Spec.parse(spec), make))  # fmt: skip


def test_more_children_than_tokens_are_refused():
    target = target_of(3, 5)
    with pytest.raises(ValueError, match="4 children, of 3 tokens"):
        draft_of(target, "points", uniform([4])).start(PROMPT, target)


def test_the_best_tree_is_planned_from_the_measured_table(tmp_path, monkeypatch):
    target, table = small_micro(), {0.0: [[0.9, 0.5]] * 5, 1.0: [[0.3, 0.3, 0.3]] * 5}
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    write_measured("rtn3", target, "without", table)
    assert read_measured("rtn3", target) == ("without", table)
    draft = parsed(target, "tree:best,6:rtn3")
    assert draft.how == "without" and set(draft.shapes) == {0.0, 1.0}
    assert max(map(len, draft.shapes.values())) <= 6
    deepest = {t: max(depths(shape)) for t, shape in draft.shapes.items()}
    assert deepest[0.0] > deepest[1.0]  # deep where it is sure, wide where not
    how, shapes = measured_shapes(target, "rtn3", 6, 10**9)
    assert shapes == {0.0: (), 1.0: ()}  # a draft dearer than the target
    empty = ModelTree(make(target, "rtn3"), how, shapes)
    done = texts(target, empty, [1, 2], 9, 6, GREEDY)
    assert list(done.tokens) == plain(target, [1, 2], 9, GREEDY, SeededChance(0))


def test_a_table_that_does_not_fit_is_refused_by_name(tmp_path, monkeypatch):
    target = small_micro()
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="was measured for 'rtn4' .none there is."):
        read_measured("rtn4", target)
    path = write_measured("rtn4", target, "with", {1.0: [[0.5]]})
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"target": "0" * 16}))
    with pytest.raises(FileFault, match="measured for the target 0{16}"):
        read_measured("rtn4", target)
    path.write_text(json.dumps({"target": raw["target"]}))
    with pytest.raises(FileFault, match="no table of acceptance"):
        read_measured("rtn4", target)


# --- the mask that hides some of what a cache holds


def test_a_mask_may_hide_what_the_cache_holds():
    """Tokens 4 and 5 are rivals behind the text; a pass that reads a child of 5 alone equals one over the text with 5."""
    model = small_micro(context=64)
    text = generator_for(0, "text").integers(0, model.vocab, 12).tolist()
    with torch.inference_mode():
        cache = model.new_cache(1)
        model(torch.tensor([text]), cache)
        model(torch.tensor([[4, 5]]), cache, torch.tensor([12, 12]), torch.eye(2, dtype=torch.bool))
        seen = torch.tensor([[False, True, True]])
        found, _ = model(torch.tensor([[6]]), cache, torch.tensor([13]), seen)
        want, _ = model(torch.tensor([[*text, 5, 6]]))
        other, _ = model(torch.tensor([[*text, 4, 5, 6]]))
    scale = float(want.abs().max())
    assert float((found[0, 0] - want[0, -1]).abs().max()) < ROUNDED * scale
    assert float((found[0, 0] - other[0, -1]).abs().max()) > ROUNDED * scale
