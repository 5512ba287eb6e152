"""EAGLE: which features it reads when, its cache against fresh passes, trees against every path, bytes, exact text over a real net."""

from __future__ import annotations

import math

import pytest
import torch

from experiments.exact.caches import ROUNDED, relative
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance
from micro.files import FileFault
from micro.generate import generate as plain
from micro.sampling import Sampling
from specdec.decode import generate, rounds
from specdec.drafts import eagle, make_draft
from specdec.drafts.dynamic_tree import Paths
from specdec.drafts.eagle import TREE_DEPTH, EagleDraft, EagleHead, EagleNet, borrowed_bytes
from specdec.drafts.head_folder import save_heads
from specdec.proposal import Proposal
from tests.byte_model import byte_model

TARGET = small_micro(context=64)  # 64 tokens, width 32, untied
WIDTH, INNER = 32, 64
PROMPTS = ([1, 2], [9, 8, 7, 6, 5, 4, 3, 2, 1])
GREEDY = Sampling(0.0)


def head_of(seed: int = 1) -> EagleHead:
    """Three times the usual weights, so that what it attends to, and from where, tells in its laws."""
    head = EagleHead(TARGET)
    head.initialise(TARGET, seed)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter *= 3 if "_proj" in name else 1
        for parameter in head.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))  # as they are stored
    return head.requires_grad_(False)


NET = EagleNet(head_of(), TARGET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "eagle"
    save_heads(path, "eagle", head_of(), 1, TARGET)
    return path


def draft_of(folder, rest: str = "") -> EagleDraft:
    return make_draft(TARGET, f"eagle:{folder}{rest}")


@torch.no_grad()
def behind(text, path) -> torch.Tensor:
    """Logits (V,) behind text and drafted path, spelled out without any cache: the path's features are the head's own, one by one."""
    features = TARGET(torch.tensor([text[:-1]]))[1]
    tokens = torch.tensor([[*text[1:], *path]])
    for _ in range(len(path) + 1):
        logits, new = NET.forward(features, tokens[:, : features.shape[1]])
        features = torch.cat((features, new[:, -1:]), dim=1)
    return logits[0, -1]


# --- what it reads


def test_a_fresh_head_draws_from_no_global_generator_and_ends_in_the_target_s_norm():
    before = torch.get_rng_state()
    a, b = head_of(2), head_of(2)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters()))
    assert torch.equal(a.norm.weight, TARGET.model.norm.weight.to(torch.bfloat16).float())


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_chain_goes_on_from_its_own_features(folder, prompt):
    draft, sampling = draft_of(folder), Sampling(0.7, top_k=20)
    draft.start(prompt, TARGET)
    proposal = draft.propose(4, sampling, SeededChance(3))
    assert proposal.is_chain and proposal.passes == len(proposal.tokens) == 4
    for place, law in enumerate(proposal.laws):
        wanted = sampling.probs(behind(prompt, proposal.tokens[:place]))
        # float32 sums in another order, through one layer, logits of size 10
        assert torch.allclose(law, wanted, atol=1e-4)


@pytest.mark.parametrize("rest, gamma", [("", 3), (":tree", 7), (":2,tree", 4)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_cache_holds_the_verified_pairs_alone(folder, rest, gamma, temperature):
    """After each round, to the context's end: as many as were read, with the keys and values of a fresh pass; the rest waits."""
    words = rest[1:]
    draft, kept = draft_of(folder, f",{words}" if words else ""), set()
    length = len(PROMPTS[0])
    for one, state in rounds(TARGET, draft, PROMPTS[0], max_new_tokens=99, gamma=gamma,
                             sampling=Sampling(temperature), chance=SeededChance(5)):  # fmt: skip
        hidden = TARGET(torch.tensor([state.tokens[:-1]]))[1]
        n = draft.cache.length
        assert n == length - 1 and len(draft._features) == len(one.emitted)
        assert relative(draft._features, hidden[0, n:]) < ROUNDED
        fresh = NET.new_cache()
        NET.forward(hidden[:, :n], torch.tensor([state.tokens[1 : n + 1]]), fresh)
        for held, wanted in ((draft.cache.keys, fresh.keys), (draft.cache.values, fresh.values)):
            assert relative(held[..., :n, :], wanted[..., :n, :]) < ROUNDED
        kept.add(len(one.kept))
        length = len(state.tokens)
    assert state.ended == "context" and len(kept) > 1


def test_behind_one_token_no_feature_is_known_yet(folder):
    for rest in ("", ",tree"):
        done = generate(TARGET, draft_of(folder, rest), [7], max_new_tokens=6, gamma=3,
                        sampling=GREEDY, chance=SeededChance(1))  # fmt: skip
        first, second, *_ = done.rounds
        assert first.draft_bytes == first.proposed == 0 and second.proposed == 3


# --- trees


def spelled_paths(tree: Proposal) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parent):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("rest, depth", [(",tree", TREE_DEPTH), (",2,tree", 2), (",1,tree", 1)])
def test_a_tree_holds_the_likeliest_paths(folder, prompt, rest, depth):
    """Best first over passes without a cache: a wrong mask, position or parent's feature would give other laws."""
    draft, budget = draft_of(folder, rest), 9
    draft.start(prompt, TARGET)
    tree = draft.propose(budget, Sampling(0.3), SeededChance(3))
    open_, wanted = [(1.0, ())], []
    while len(wanted) < budget:
        best = max(open_)
        open_.remove(best)
        value, path = best
        if path:
            wanted.append(path)
        if len(path) < depth:
            law = behind(prompt, path).softmax(-1)
            top = law.topk(budget)
            open_ += [(value * v, (*path, t)) for v, t in zip(top.values.tolist(), top.indices.tolist())]  # fmt: skip
    assert set(spelled_paths(tree)) == set(wanted)
    assert tree.laws == (None,) * budget and 1 <= tree.passes <= depth
    assert max(tree.depths()) <= depth


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_node_is_asked_behind_its_own_path(folder, prompt, monkeypatch):
    """A bushy tree, level by level: a wrong mask, position or parent's feature would give another law."""
    asked = []

    def bushy(law, ask, budget, depth):
        paths = Paths()
        paths.add(-1, law, 3)
        level = [2, 0, 1]
        for _ in range(3):
            asked.append(len(level))
            for node, below in zip(level, ask(paths, level)):
                path = [paths.tokens[n] for n in (*reversed(paths.ancestors(node)), node)]
                assert torch.allclose(below, behind(prompt, path).softmax(-1), atol=1e-4)
                paths.add(node, below, 2)
            first = len(paths.tokens) - 2 * len(level)
            level = [first + 3, first, first + 4]  # across and within families
        return (), ()

    monkeypatch.setattr(eagle, "likeliest_tree", bushy)
    draft = draft_of(folder, ",tree")
    draft.start(prompt, TARGET)
    draft.propose(9, Sampling(), SeededChance(1))
    assert asked == [3, 3, 3]


# --- bytes


def test_a_pass_reads_the_head_the_output_matrix_and_one_row_of_another_embedding(folder):
    numbers = 2 * WIDTH * WIDTH + 4 * WIDTH * WIDTH + 3 * WIDTH * INNER + 3 * WIDTH
    draft = draft_of(folder)
    assert draft.extra_parameters == numbers and draft.extra_bytes == 2 * numbers
    assert draft.bytes_per_pass == 2 * numbers + 2 * 64 * WIDTH + 2 * WIDTH
    done = generate(TARGET, draft, PROMPTS[0], max_new_tokens=9, gamma=3, sampling=GREEDY,
                    chance=SeededChance(1))  # fmt: skip
    assert all(one.draft_bytes == one.proposed * draft.bytes_per_pass for one in done.rounds)
    tied = small_micro(context=64)
    tied.lm_head.weight = tied.model.embed_tokens.weight
    assert borrowed_bytes(tied) == 2 * 64 * WIDTH  # one matrix, however a model ties it


def test_a_head_in_four_bits_weighs_what_its_packed_tensors_do(folder):
    draft = draft_of(folder, "+rtn4")
    matrices, norms = 6 * WIDTH * WIDTH + 3 * WIDTH * INNER, 3 * WIDTH
    assert draft.extra_bytes == matrices * 4.5 / 8 + 2 * norms
    assert draft.bytes_per_pass == draft.extra_bytes + borrowed_bytes(TARGET)
    draft.start(PROMPTS[1], TARGET)
    law = draft.propose(1, Sampling(), SeededChance(1)).laws[0]
    shared = torch.minimum(law, behind(PROMPTS[1], ()).softmax(-1)).sum()
    assert 0.7 < float(shared.detach()) < 0.9999  # another head, and near


# --- exact text


@pytest.mark.parametrize("gamma", [1, 3, 7])
def test_greedy_text_in_lanes_is_plain_text(folder, gamma):
    for prompt in PROMPTS:
        done = generate(TARGET, draft_of(folder), prompt, max_new_tokens=50, gamma=gamma, sampling=GREEDY,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        assert list(done.tokens) == plain(TARGET, prompt, 50, GREEDY, SeededChance(1), lanes=8)


def test_greedy_text_with_a_tree_forks_at_ties_alone(folder):
    """Branches differ by rounding, so a fork may come only where two logits lie within it."""
    for prompt in PROMPTS:
        done = generate(TARGET, draft_of(folder, ",tree"), prompt, max_new_tokens=50, gamma=7,
                        sampling=GREEDY, chance=SeededChance(1), lanes=8)  # fmt: skip
        text = plain(TARGET, prompt, 50, GREEDY, SeededChance(1), lanes=8)
        if place := next((i for i, (a, b) in enumerate(zip(text, done.tokens)) if a != b), None):
            top = TARGET(torch.tensor([[*prompt, *text[:place]]]))[0][0, -1].topk(2).values
            assert float(top[0] - top[1]) < ROUNDED * float(top[0].abs())


@pytest.mark.parametrize("rest", ["", ",tree"])
def test_two_tokens_have_the_target_s_law(folder, rest):
    """Of 300 texts, how many begin with a pair that the head likes better than the target does.

    Two outcomes: sqrt(2 (2 ln 2 + ln 1e6) / n) = .32 in L1 is exceeded by chance once in a million; the head's own pairs would be
    off by more than twice that.
    """
    draft, sampling, n, prompt = draft_of(folder, rest), Sampling(), 300, PROMPTS[1]
    with torch.no_grad():
        first = sampling.probs(TARGET(torch.tensor([prompt]))[0][0, -1])
        every = torch.tensor([[*prompt, token] for token in range(64)])
        law = first[:, None] * sampling.probs(TARGET(every)[0][:, -1])  # (V, V)
    guessed = torch.stack([behind(prompt, (token,)) for token in range(64)]).softmax(-1)
    drafted = behind(prompt, ()).softmax(-1)[:, None] * guessed
    preferred, seen = drafted > law, 0
    for seed in range(n):
        done = generate(TARGET, draft, prompt, max_new_tokens=2, gamma=4, sampling=sampling,
                        chance=SeededChance(seed))  # fmt: skip
        seen += int(preferred[done.tokens[0], done.tokens[1]])
    bound = math.sqrt(2 * (2 * math.log(2) + math.log(1e6)) / n)
    assert 2 * abs(seen / n - float(law[preferred].sum())) < bound
    assert 2 * float((drafted - law)[preferred].sum()) > 2 * bound


# --- whose head


@pytest.mark.parametrize(
    "rest, what",
    [(",3", "a depth belongs to a tree, as in eagle:3,tree"), (",twig", "'twig' is neither a number nor `tree` nor a folder"),
     (",tree,tree", "names its tree twice"), ("+rtn9", "unknown format 'rtn9'")],
    ids=str,
)  # fmt: skip
def test_a_wrong_spec_says_what_would_be_right(folder, rest, what):
    with pytest.raises(ValueError, match=what):
        draft_of(folder, rest)


def test_a_head_is_refused_beside_another_target(folder):
    with pytest.raises(FileFault, match="trained for the target .* `selfdraft heads --kind eagle"):
        make_draft(byte_model(), f"eagle:{folder}")
