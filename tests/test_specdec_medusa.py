"""Medusa: heads by hand, the state that is known when, bytes, trees, exact text over a real net, and whose heads these are."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
import torch.nn.functional as F

from experiments.exact.caches import ROUNDED, relative
from experiments.exact.small_model import small_micro
from micro.chance import SeededChance
from micro.files import FileFault
from micro.generate import generate as plain
from micro.sampling import Sampling
from micro.tensors import load_tensors, save_tensors
from quant.bytes import pass_bytes
from specdec.decode import generate, rounds
from specdec.drafts import make_draft
from specdec.drafts.head_folder import save_heads
from specdec.drafts.medusa import MedusaDraft, MedusaHeads

TARGET = small_micro(context=64)  # 64 tokens, width 32, untied
WIDTH, HEADS = 32, 3
PROMPTS = ([1, 2], [9, 8, 7, 6, 5, 4, 3, 2, 1])
GREEDY = Sampling(0.0)


def heads_of(seed: int = 1) -> MedusaHeads:
    heads, noise = MedusaHeads(WIDTH, HEADS), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in heads.layers:
            layer.weight.normal_(0.0, 0.5, generator=noise)
            layer.weight.copy_(layer.weight.to(torch.bfloat16))  # as they are stored
    return heads.requires_grad_(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "medusa"
    save_heads(path, "medusa", heads_of(), HEADS, TARGET)
    return path


def draft_of(folder, rest: str = "") -> MedusaDraft:
    return make_draft(TARGET, f"medusa:{folder}{rest}")


def wanted_logits(text) -> torch.Tensor:
    """(HEADS, V) spelled out, from a pass over all of the text but its last token."""
    state = TARGET(torch.tensor([text[:-1]]))[1][0, -1]
    rows = [state + F.silu(layer.weight @ state) for layer in heads_of().layers]
    return torch.stack([TARGET.lm_head.weight @ row for row in rows])


# --- heads and state


def test_fresh_heads_are_the_target_s_own():
    state = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1))
    assert torch.equal(MedusaHeads(WIDTH, 2)(state, 2), torch.stack([state, state]))


def test_a_chain_is_drawn_from_the_heads_laws_one_pass_for_all(folder):
    draft, sampling, text = draft_of(folder), Sampling(0.7, top_k=20), PROMPTS[1]
    draft.start(text, TARGET)
    proposal = draft.propose(8, sampling, SeededChance(3))
    laws = sampling.probs(wanted_logits(text))
    assert proposal.is_chain and len(proposal.tokens) == HEADS and proposal.passes == 1
    again = SeededChance(3)
    assert [again.draw(law, 0) for law in laws] == list(proposal.tokens)
    for law, found in zip(laws, proposal.laws):
        assert torch.allclose(
            law, found, atol=1e-5
        )  # float32 sums over 32 numbers in another order


@pytest.mark.parametrize("rest, gamma", [("", 3), (",2", 4), (",tree", 7)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_state_is_that_behind_the_last_token_read(folder, rest, gamma, temperature):
    """Also after a rejection, after full acceptance, and on a branch of a tree."""
    draft, kept = draft_of(folder, rest), set()
    for one, state in rounds(TARGET, draft, PROMPTS[0], max_new_tokens=40, gamma=gamma,
                             sampling=Sampling(temperature), chance=SeededChance(5)):  # fmt: skip
        fresh = TARGET(torch.tensor([state.tokens[:-1]]))[1][0, -1]
        assert relative(draft.state, fresh) < ROUNDED
        kept.add(len(one.kept))
    assert len(kept) > 1


def test_behind_one_token_nothing_is_known_yet(folder):
    draft = draft_of(folder)
    draft.start([7], TARGET)
    assert draft.propose(3, Sampling(), SeededChance(1)).tokens == ()
    done = generate(TARGET, draft, [7], max_new_tokens=5, gamma=3, sampling=GREEDY,
                    chance=SeededChance(1))  # fmt: skip
    first, second, *_ = done.rounds
    assert first.draft_bytes == 0 and first.proposed == 0 and second.proposed == 3


# --- bytes


def test_a_pass_reads_the_heads_it_uses_and_the_output_matrix(folder):
    head, matrix = 2 * WIDTH * WIDTH, 2 * 64 * WIDTH
    draft = draft_of(folder)
    assert draft.bytes_per_pass == 3 * head + matrix and draft.extra_bytes == 3 * head
    assert draft.extra_parameters == 3 * WIDTH * WIDTH
    assert draft_of(folder, ",2").extra_bytes == 2 * head
    done = generate(TARGET, draft, PROMPTS[0], max_new_tokens=9, gamma=2, sampling=GREEDY,
                    chance=SeededChance(1))  # fmt: skip
    assert {one.draft_bytes for one in done.rounds if one.proposed == 2} == {2 * head + matrix}


def test_heads_in_four_bits_weigh_what_their_packed_tensors_do(folder):
    draft = draft_of(folder, "+rtn4")
    assert draft.extra_bytes == 3 * WIDTH * WIDTH * 4.5 / 8
    assert draft.bytes_per_pass == draft.extra_bytes + pass_bytes(TARGET.lm_head)
    draft.start(PROMPTS[1], TARGET)
    assert relative(draft.heads(draft.state, 3), wanted_logits(PROMPTS[1])) < 0.2  # and near
    assert len(draft.propose(3, Sampling(), SeededChance(1)).tokens) == 3


# --- exact text


@pytest.mark.parametrize("gamma", [1, 3, 7])
def test_greedy_text_in_lanes_is_plain_text(folder, gamma):
    for prompt in PROMPTS:
        done = generate(TARGET, draft_of(folder), prompt, max_new_tokens=50, gamma=gamma, sampling=GREEDY,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        assert list(done.tokens) == plain(TARGET, prompt, 50, GREEDY, SeededChance(1), lanes=8)


def forks(target, draft, prompts, count: int = 50) -> list[float]:
    """Top-2 margins of the plain logits where greedy text with a tree first differs."""
    found = []
    for prompt in prompts:
        done = generate(target, draft, prompt, max_new_tokens=count, gamma=7, sampling=GREEDY,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        text = plain(target, prompt, count, GREEDY, SeededChance(1), lanes=8)
        assert len(done.tokens) == count and max(len(one.kept) for one in done.rounds) > 0
        if place := next((i for i, (a, b) in enumerate(zip(text, done.tokens)) if a != b), None):
            logits = target(torch.tensor([[*prompt, *text[:place]]]))[0][0, -1].topk(2).values
            found.append(float(logits[0] - logits[1]) / float(logits[0].abs()))
    return found


def test_greedy_text_with_a_tree_forks_at_ties_alone(folder):
    """Branches differ by rounding, so a fork may come only where two logits lie within it."""
    assert all(margin < ROUNDED for margin in forks(TARGET, draft_of(folder, ",tree"), PROMPTS))


@pytest.mark.parametrize("rest", ["", ",tree"])
def test_two_tokens_have_the_target_s_law(folder, rest):
    """Of 300 texts, how many begin with a pair that the heads like better than the target does.

    Two outcomes: sqrt(2 (2 ln 2 + ln 1e6) / n) = .32 in L1 is exceeded by chance once in a million; the heads' own pairs would be
    off by more than twice that.
    """
    draft, sampling, n, prompt = draft_of(folder, rest), Sampling(), 300, PROMPTS[1]
    first = sampling.probs(TARGET(torch.tensor([prompt]))[0][0, -1])
    behind = torch.tensor([[*prompt, token] for token in range(64)])
    law = first[:, None] * sampling.probs(TARGET(behind)[0][:, -1])  # (V, V)
    drafted = torch.outer(*sampling.probs(wanted_logits(prompt)[:2]))
    preferred, seen = drafted > law, 0
    for seed in range(n):
        done = generate(TARGET, draft, prompt, max_new_tokens=2, gamma=4, sampling=sampling,
                        chance=SeededChance(seed))  # fmt: skip
        seen += int(preferred[done.tokens[0], done.tokens[1]])
    bound = math.sqrt(2 * (2 * math.log(2) + math.log(1e6)) / n)
    assert 2 * abs(seen / n - float(law.detach()[preferred].sum())) < bound
    assert 2 * float((drafted - law).detach()[preferred].sum()) > 2 * bound


# --- whose heads


@pytest.mark.parametrize(
    "rest, what",
    [(",4", "holds 3 heads"), (",trees", "'trees' is neither a number nor `tree` nor a folder"), (",0", "the number must be a whole number, 1 or above"),
     (",2,3", "names its number twice"), (",tree,tree", "names its tree twice"), ("+rtn9", "unknown format 'rtn9'"), ("+rtn3+gptq", "text in view")],
    ids=str,
)  # fmt: skip
def test_a_wrong_spec_says_what_would_be_right(folder, rest, what):
    with pytest.raises(ValueError, match=what):
        draft_of(folder, rest)


def test_heads_are_refused_beside_another_target(folder):
    with pytest.raises(
        FileFault, match="were trained for the target .* `selfdraft heads --kind medusa"
    ):
        make_draft(small_micro(context=64, seed=4), f"medusa:{folder}")


def test_damaged_folders_are_refused_by_name(folder, tmp_path):
    with pytest.raises(
        FileFault, match="is no folder of medusa heads; `selfdraft heads --kind medusa"
    ):
        draft_of(tmp_path / "none")
    copy = shutil.copytree(folder, tmp_path / "copy")
    tensors = load_tensors(copy / "model.safetensors")
    for broken, what in (
        ({"layers.0.weight": tensors["layers.0.weight"]}, "'layers.1.weight' is missing"),
        (tensors | {"layers.1.weight": torch.zeros(2, 2, dtype=torch.bfloat16)}, "has shape"),
        ({n: t.float() for n, t in tensors.items()}, "must be finite numbers in bfloat16"),
        (tensors | {"layers.2.weight": tensors["layers.2.weight"] * math.nan}, "must be finite"),
    ):
        save_tensors(copy / "model.safetensors", broken, {"format": "pt"})
        with pytest.raises(FileFault, match=what):
            draft_of(copy)
    config = json.loads((copy / "config.json").read_text())
    for field, value in (("heads", "eagle"), ("depth", 0), ("depth", "3")):
        (copy / "config.json").write_text(json.dumps(config | {field: value}))
        with pytest.raises(FileFault, match="does not describe medusa heads"):
            draft_of(copy)
