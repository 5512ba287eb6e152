"""The model against itself: size, causality, every chunking of the cache, lanes to the bit, ragged batches."""

from __future__ import annotations

import pytest
import torch

from micro.chance import SeededChance
from micro.generate import BATCH, generate, generate_batch
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling

TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 48,
}

# 64 positions of float32 with logits below 10: 1e-5 is some ten roundings of the last place. The sums of a chunk run in
# another order, so bits may differ; a wrong key or position changes the first digit.
ROUNDING = 1e-5


def random_tokens(rows: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(256, (rows, count), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def micro() -> Transformer:
    return Transformer(ModelConfig(), seed=1).eval().requires_grad_(False)


@pytest.fixture
def tiny() -> Transformer:
    return Transformer(ModelConfig(**TINY), seed=2).eval().requires_grad_(False)


@pytest.fixture(autouse=True, params=[1])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


both_thread_counts = pytest.mark.parametrize("threads", [1, 2], indirect=True)


def fed(model: Transformer, tokens: torch.Tensor, sizes: list[int], lanes: int = 0):
    """Logits (B, T, V) and the cache after feeding `tokens` in chunks of these sizes, round and round."""
    cache, done, parts = model.new_cache(len(tokens), lanes), 0, []
    while done < tokens.shape[1]:
        size = sizes[len(parts) % len(sizes)]
        parts.append(model(tokens[:, done : done + size], cache)[0])
        done += size
    return torch.cat(parts, dim=1), cache


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


def test_micro_has_the_size_the_design_states(micro):
    assert sum(p.numel() for p in micro.parameters()) == 1_820_352
    assert all(size % 32 == 0 for p in micro.parameters() for size in p.shape)


def test_an_untied_head_is_a_matrix_of_its_own():
    model = Transformer(ModelConfig(tie_word_embeddings=False))
    assert sum(p.numel() for p in model.parameters()) == 1_820_352 + 256 * 192
    assert model.lm_head.weight is not model.model.embed_tokens.weight


def test_weights_come_from_their_own_seed_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    a, b, c = (Transformer(ModelConfig(**TINY), seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    assert not torch.equal(a.lm_head.weight, c.lm_head.weight)


def test_a_later_byte_changes_no_earlier_logit(micro):
    tokens = random_tokens(1, 64)
    logits = micro(tokens)[0]
    for place in range(1, 64, 9):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % 256
        other = micro(changed)[0]
        assert same_bits(other[:, :place], logits[:, :place])
        assert not torch.equal(other[:, place], logits[:, place])


@pytest.mark.parametrize("sizes", [[1], [2], [3], [5], [7], [64]], ids=str)
@pytest.mark.parametrize("lanes", [0, 8])
def test_cached_passes_equal_the_whole_pass_in_any_chunking(micro, sizes, lanes):
    tokens = random_tokens(2, 64)
    whole = micro(tokens)[0]
    chunked, cache = fed(micro, tokens, sizes, lanes)
    assert cache.length == 64
    assert (chunked - whole).abs().max() < ROUNDING


def test_a_cut_cache_goes_on_as_if_the_rest_had_never_been(micro):
    tokens, other = random_tokens(1, 40), random_tokens(1, 20, seed=9)
    cache = micro.new_cache()
    micro(tokens, cache)
    cache.truncate(17)
    logits = micro(other, cache)[0]
    whole = micro(torch.cat((tokens[:, :17], other), dim=1))[0][:, 17:]
    assert (logits - whole).abs().max() < ROUNDING


def test_a_tree_scores_each_branch_as_its_own_text(tiny):
    prompt = random_tokens(1, 9)
    tree, parent, depth = torch.tensor([[5, 7, 11, 13]]), [-1, 0, 0, 2], torch.tensor([0, 1, 1, 2])
    sees = torch.eye(4, dtype=torch.bool)
    for node, above in enumerate(parent):
        if above >= 0:
            sees[node] |= sees[above]
    for lanes in (0, 8):
        cache = tiny.new_cache(1, lanes)
        tiny(prompt, cache)
        logits = tiny(tree, cache, depth + 9, sees)[0][0]
        for path in ([0, 1], [0, 2, 3]):
            alone = tiny(torch.cat((prompt, tree[:, path]), dim=1))[0][0, 9:]
            assert (logits[path] - alone).abs().max() < ROUNDING
        cache.gather(9, [0, 2, 3])  # keep the second branch, and go on behind it
        after = tiny(torch.tensor([[3]]), cache)[0][0]
        text = torch.cat((prompt, tree[:, [0, 2, 3]], torch.tensor([[3]])), dim=1)
        assert (after - tiny(text)[0][0, -1:]).abs().max() < ROUNDING


def test_a_refused_write_leaves_the_cache_usable(tiny):
    tokens = random_tokens(1, 48)
    cache = tiny.new_cache(1, lanes=8)
    tiny(tokens[:, :40], cache)
    keys = cache.keys.clone()
    with pytest.raises(ValueError, match="40 \\+ 9 tokens exceed the context of 48"):
        tiny(random_tokens(1, 9), cache)
    with pytest.raises(ValueError, match="2 rows of tokens for a cache of 1"):
        tiny(random_tokens(2, 1), cache)
    with pytest.raises(ValueError, match="cannot cut a cache of length 40 to 41"):
        cache.truncate(41)
    assert cache.length == 40 and same_bits(cache.keys, keys)
    rest = tiny(tokens[:, 40:], cache)[0]  # up to the very last slot
    assert (rest - tiny(tokens)[0][:, 40:]).abs().max() < ROUNDING
    with pytest.raises(ValueError, match="49 tokens do not fit"):
        tiny(random_tokens(1, 49))


@pytest.mark.parametrize("lanes", [8, 16, 24])
@both_thread_counts
def test_in_lanes_logits_and_cache_have_the_same_bits_in_any_chunking(micro, lanes):
    tokens = random_tokens(1, 24)
    one, reference = fed(micro, tokens, [1], lanes)
    for sizes in ([3], [8], [24], [1, 4, 7]):
        logits, cache = fed(micro, tokens, sizes, lanes)
        assert same_bits(logits, one), sizes
        held = (Ellipsis, slice(0, 24), slice(None))  # what lies behind the length is nobody's
        assert same_bits(cache.keys[held], reference.keys[held]), sizes
        assert same_bits(cache.values[held], reference.values[held]), sizes


def test_in_lanes_what_was_cut_off_leaves_no_trace(micro):
    tokens = random_tokens(1, 40)
    clean, _ = fed(micro, tokens, [1], lanes=8)
    cache = micro.new_cache(1, 8)
    micro(tokens[:, :20], cache)
    micro(random_tokens(1, 6, seed=5), cache)  # drafted, then rejected
    cache.truncate(20)
    assert same_bits(micro(tokens[:, 20:], cache)[0], clean[:, 20:])


def test_a_first_pass_without_gradients_does_not_bar_training():
    model = Transformer(ModelConfig(**TINY))
    with torch.inference_mode():
        model(random_tokens(1, 8))
    model(random_tokens(1, 8))[0].square().mean().backward()
    assert model.lm_head.weight.grad.abs().sum() > 0


def test_the_masks_of_a_long_context_do_not_cost_its_square():
    model = Transformer(ModelConfig(**(TINY | {"max_position_embeddings": 1 << 16}))).eval()
    cache = model.new_cache(1, lanes=16)
    model(random_tokens(1, 3), cache)
    held = sum(t.numel() for entry in model._tables._held.values() for t in entry[3])
    assert held < 64 * cache.slots  # 16 rows of 2 S, and two rotary tables of width 8


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_ragged_batched_text_equals_single_text(micro, temperature):
    """Bits differ by rounding (32 rows are summed in another order); text differs only where a draw falls within it."""
    prompts = [random_tokens(1, n, seed=n)[0].tolist() for n in (1, 2, 17, 40, 5)]
    sampling = Sampling(temperature)
    tokens, laws = generate_batch(
        micro, prompts, 20, sampling, [SeededChance(1, str(i)) for i in range(5)]
    )
    assert laws.shape == (5, 20, 256)
    for i, prompt in enumerate(prompts):
        single = generate(micro, prompt, 20, sampling, SeededChance(1, str(i)))
        assert tokens[i].tolist() == single
        whole = micro(torch.tensor([prompt + single]))[0][0, len(prompt) - 1 : -1]
        assert (sampling.probs(whole) - laws[i]).abs().max() < ROUNDING


@both_thread_counts
def test_a_batch_row_has_the_same_bits_at_any_place_in_any_company(tiny):
    mine = random_tokens(1, 7)[0].tolist()
    crowd = [random_tokens(1, 1 + n % 20, seed=n)[0].tolist() for n in range(BATCH + 3)]

    def drawn(prompts, row):
        chances = [SeededChance(1, "mine" if i == row else str(i)) for i in range(len(prompts))]
        tokens, laws = generate_batch(tiny, prompts, 4, Sampling(), chances)
        return tokens[row], laws[row]

    alone = drawn([mine], 0)
    for row in (1, 20, BATCH + 2):
        tokens, laws = drawn([*crowd[:row], mine, *crowd[row + 1 :]], row)
        assert torch.equal(tokens, alone[0])
        assert same_bits(laws, alone[1]), row


def test_a_prompt_that_leaves_no_room_is_refused(tiny):
    with pytest.raises(ValueError, match="47 leave room"):
        generate(tiny, [1] * 48, 1, Sampling(0), SeededChance(1))
    with pytest.raises(ValueError, match="the prompt is empty"):
        generate(tiny, [], 1, Sampling(0), SeededChance(1))
    with pytest.raises(ValueError, match="outside 0 ... 255"):
        generate(tiny, [256], 1, Sampling(0), SeededChance(1))
    with pytest.raises(ValueError, match="exceed the context of 48"):
        generate_batch(tiny, [[1] * 40], 9, Sampling(0), [SeededChance(1)])
    assert len(generate(tiny, [1] * 47, 9, Sampling(0), SeededChance(1))) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 0),
        ("num_hidden_layers", 1.5),
        ("num_attention_heads", 5),
        ("num_key_value_heads", 3),
        ("rms_norm_eps", float("nan")),
        ("rope_theta", float("inf")),
        ("tie_word_embeddings", "no"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        ModelConfig(**(TINY | {field: value}))
