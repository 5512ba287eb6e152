"""A quantized copy: the target untouched, nothing shared, ties kept, every tensor reported, every byte counted."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from torch import nn

from micro.model import ModelConfig, Transformer
from quant.bytes import costs, looked_up, pass_bytes
from quant.formats import FORMATS, parse_format
from quant.mix import Mix
from quant.model import (
    expected_state,
    from_packed_state,
    packed_state,
    parse_fields,
    quantize_model,
    sqnr_db,
)
from quant.moments import input_moments
from quant.tensor import QuantizedTensor, quantize

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
MATRICES = 4 * (4 * 192 * 192 + 3 * 192 * 512)  # numbers of micro's layers
NORMS = (2 * 4 + 1) * 192
TABLE = 256 * 192  # numbers of an embedding


def micro(tied: bool = True) -> Transformer:
    """micro's size; weights and norms as no bfloat16 has them."""
    model = Transformer(ModelConfig(tie_word_embeddings=tied), seed=1).eval()
    for number, parameter in enumerate(model.parameters()):
        if parameter.dim() == 1:
            noise = torch.randn(len(parameter), generator=torch.Generator().manual_seed(number))
            parameter.data.add_(noise, alpha=0.1)
    return model


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def target(request) -> Transformer:
    return micro(request.param)


def digest(module: nn.Module) -> str:
    found = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def storages(module: nn.Module) -> set[int]:
    tensors = [*module.parameters(), *module.buffers()]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


TOKENS = torch.arange(24)[None]


@pytest.mark.parametrize("name", ["rtn4", "rtn3"])
def test_making_and_training_a_draft_never_alters_the_target(target, name):
    before, logits = digest(target), target(TOKENS)[0].detach()
    draft = quantize_model(target, FORMATS[name])
    assert digest(target) == before
    assert storages(draft.module).isdisjoint(storages(target))
    draft.module.requires_grad_(True)
    optimizer = torch.optim.SGD(draft.module.parameters(), lr=0.1)
    draft.module(TOKENS)[0].square().mean().backward()
    optimizer.step()
    assert digest(target) == before
    assert torch.equal(target(TOKENS)[0].view(torch.int32), logits.view(torch.int32))
    assert all(p.grad is None and p.requires_grad for p in target.parameters())


def test_the_copy_computes_with_what_its_bytes_decode_to(target):
    draft = quantize_model(target, FORMATS["rtn3"])
    assert not draft.module.training and not any(p.requires_grad for p in draft.module.parameters())
    for name, parameter in draft.module.named_parameters():
        original = target.get_parameter(name)
        if parameter.dim() == 2:
            assert torch.equal(parameter, draft.packed[name].dequantize())
            assert torch.equal(parameter, quantize(original, FORMATS["rtn3"]).dequantize())
        else:  # what stays, stays in the 16 bits it is stored in
            assert torch.equal(parameter, original.bfloat16().float())
            assert not torch.equal(parameter, original)


def test_a_tied_pair_stays_tied_and_an_untied_one_apart(target):
    tied = target.config.tie_word_embeddings
    draft = quantize_model(target, FORMATS["rtn4"])
    assert (draft.module.lm_head.weight is draft.module.model.embed_tokens.weight) == tied
    assert (HEAD in draft.packed) == (not tied)


def test_the_report_lists_every_tensor_embedding_and_head_apart(target):
    draft = quantize_model(target, FORMATS["rtn4"])
    rows = {row.name: row for row in draft.report}
    assert rows.keys() == {name for name, _ in target.named_parameters(remove_duplicate=False)}
    for name, row in rows.items():
        assert row.shape == tuple(target.get_parameter(name).shape)
        assert row.quantized == (len(row.shape) == 2)
        if not row.quantized:
            assert row.note == "kept in 16 bits: no matrix" and row.bits_per_weight == 16
            assert row.bytes == 2 * row.shape[0]
    head = rows[HEAD]
    if target.config.tie_word_embeddings:
        assert (head.bytes, head.note) == (0, f"tied to {EMBEDDING}, stored there")
        assert head.sqnr_db == rows[EMBEDDING].sqnr_db
    else:
        assert (head.bytes, head.note) == (TABLE * 4.5 / 8, "")
    tables = 1 if target.config.tie_word_embeddings else 2
    assert draft.stored_bytes == (MATRICES + tables * TABLE) * 4.5 / 8 + 2 * NORMS


def test_sqnr_is_signal_over_error_in_decibels():
    weight = torch.tensor([[3.0, 4.0]])
    assert sqnr_db(weight, torch.tensor([[3.0, 3.5]])) == pytest.approx(20)  # 25 / .25 = 100
    assert sqnr_db(weight, weight) is None
    assert sqnr_db(torch.zeros(1, 2), torch.zeros(1, 2)) is None
    rows = (
        quantize_model(micro(), FORMATS["rtn4"]).report[:1]
        + quantize_model(micro(), FORMATS["rtn3"]).report[:1]
    )
    assert 5 < rows[0].sqnr_db - rows[1].sqnr_db < 7  # a bit is worth about 6 dB


def test_a_module_without_a_matrix_is_an_error():
    for module in (nn.LayerNorm(8), nn.Sequential(), nn.Conv1d(2, 2, 3)):
        with pytest.raises(ValueError, match=f"{type(module).__name__} holds no matrix"):
            quantize_model(module, FORMATS["rtn4"])


@pytest.mark.parametrize("value", [float("nan"), 1e7])
def test_a_tensor_that_cannot_be_quantized_is_named(value):
    model = micro()
    model.model.layers[2].mlp.up_proj.weight.data[3, 4] = value
    with pytest.raises(ValueError, match="model.layers.2.mlp.up_proj.weight"):
        quantize_model(model, FORMATS["rtn4"])


def test_any_module_will_do():
    """No model in particular: a short last group, a convolution that stays, a bias that stays."""
    module = nn.Sequential(nn.Embedding(7, 33), nn.Linear(33, 5), nn.Conv1d(2, 2, 3))
    draft = quantize_model(module, FORMATS["rtn3"])
    assert set(draft.packed) == {"0.weight", "1.weight"}
    assert draft.packed["0.weight"].bytes == -(-7 * 33 * 3 // 8) + 2 * 7 * 2
    assert torch.equal(draft.module[0].weight, draft.packed["0.weight"].dequantize())
    kept = {row.name for row in draft.report if not row.quantized}
    assert kept == {"1.bias", "2.weight", "2.bias"}


# --- bytes --------------------------------------------------------------------------------------------


def test_what_a_pass_of_micro_reads():
    model = micro()
    assert pass_bytes(model) == 2 * 1_820_352
    for name, bits in (("rtn4", 4.5), ("rtn3", 3.5), ("absmax3", 3.5), ("rtn8", 8.5)):
        draft = quantize_model(model, FORMATS[name])
        assert draft.bytes_per_pass == (MATRICES + TABLE) * bits / 8 + 2 * NORMS
        assert draft.bytes_per_pass == draft.stored_bytes  # all of it is read


def test_an_untied_input_embedding_counts_one_row():
    model = micro(tied=False)
    assert looked_up(model) == {EMBEDDING}
    assert looked_up(micro()) == set()
    assert pass_bytes(model) == 2 * (MATRICES + TABLE + NORMS + 192)
    draft = quantize_model(model, FORMATS["rtn4"])
    assert draft.bytes_per_pass == (MATRICES + TABLE + 192) * 4.5 / 8 + 2 * NORMS
    assert draft.stored_bytes - draft.bytes_per_pass == 255 * 192 * 4.5 / 8


@pytest.mark.parametrize(
    ("name", "nominal", "weights", "with_cache"),
    [("rtn4", 0.25, 0.282, 0.41), ("rtn3", 0.1875, 0.2195, 0.36)],
)
def test_the_three_costs_of_micro(name, nominal, weights, with_cache):
    """At 256 tokens the cache is a fifth of the weights, in bfloat16: 2 x 4 layers x 192 x 256 x 2 bytes."""
    model = micro()
    cache = model.cache_bytes(256)
    assert cache == 786_432 and cache / pass_bytes(model) == pytest.approx(0.216, abs=5e-4)
    draft = quantize_model(model, FORMATS[name])
    c = costs(draft.bytes_per_pass, pass_bytes(model), draft.nominal_bits, cache, cache)
    assert c.nominal == nominal
    assert c.weights == pytest.approx(weights, abs=5e-4)
    assert c.with_cache == pytest.approx(with_cache, abs=5e-3)
    expected = (draft.stored_bytes + 786_432) / (2 * 1_820_352 + 786_432)
    assert c.with_cache == pytest.approx(expected, rel=1e-12)


# --- stored and back ----------------------------------------------------------------------------------


def state(target: Transformer, name: str = "rtn3"):
    draft = quantize_model(target, FORMATS[name])
    tensors, fields = packed_state(draft)
    return draft, tensors, fields


def test_what_is_stored_has_the_size_that_is_counted_and_comes_back_bit_for_bit(target):
    draft, tensors, fields = state(target)
    assert sum(t.numel() * t.element_size() for t in tensors.values()) == draft.stored_bytes
    assert {n: t.shape for n, t in tensors.items()} == expected_state(target, draft.format)
    other = Transformer(target.config, seed=9)  # its own numbers must not shine through
    before = digest(other)
    loaded = from_packed_state(other, tensors, parse_fields(fields))
    assert digest(loaded.module) == digest(draft.module) and digest(other) == before
    assert loaded.bytes_per_pass == draft.bytes_per_pass
    assert loaded.stored_bytes == draft.stored_bytes
    tied = target.config.tie_word_embeddings
    assert (loaded.module.lm_head.weight is loaded.module.model.embed_tokens.weight) == tied
    a, b = (q.module(TOKENS)[0].view(torch.int32) for q in (draft, loaded))
    assert torch.equal(a, b)


def test_stored_tensors_of_another_type_or_without_a_number_are_refused_by_name():
    target = micro()
    draft, tensors, _ = state(target)
    name, norm = "model.layers.1.mlp.up_proj.weight", "model.layers.1.input_layernorm.weight"
    cases = {
        f"{name}: codes must be uint8": {f"{name}.codes": tensors[f"{name}.codes"].to(torch.int16)},
        f"{name}: scales must be float16": {f"{name}.scales": tensors[f"{name}.scales"].float()},
        f"{name}: a scale is NaN": {f"{name}.scales": tensors[f"{name}.scales"] * float("nan")},
        f"{norm}: must be finite": {norm: tensors[norm].float()},
        f"{norm}: must be": {norm: tensors[norm] * float("inf")},
    }
    for message, change in cases.items():
        with pytest.raises(ValueError, match=message):
            from_packed_state(target, tensors | change, draft.format)


def test_fields_that_contradict_their_format_are_refused_by_name():
    fields = state(micro())[2]
    assert fields == {"format": "rtn3", "bits": 3, "group": 32, "scheme": "rtn", "scale": "fp16"}
    assert parse_fields(fields) is FORMATS["rtn3"]
    for name, value in (("bits", 4), ("group", 64), ("scheme", "absmax"), ("scale", "fp8")):
        with pytest.raises(ValueError, match=f"{name} {value!r} is not that of format rtn3"):
            parse_fields(fields | {name: value})
    for broken in (None, [], {}, {"format": 3}, {"format": "x9"}):
        with pytest.raises(ValueError, match="no quantization fields|unknown format"):
            parse_fields(broken)


def test_packed_bytes_of_the_wrong_count_do_not_decode():
    q = quantize(torch.randn(4, 64, generator=torch.Generator().manual_seed(0)), FORMATS["rtn3"])
    short = QuantizedTensor(q.format, q.shape, q.codes[:-1], q.scales)
    with pytest.raises(ValueError, match="256 codes of 3 bits take 96 bytes, not 95"):
        short.dequantize()


# --- other formats, mixes, inputs -----------------------------------------------------------------------


def small(tied: bool = True) -> Transformer:
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = ModelConfig(
        **sizes, num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=tied
    )
    return Transformer(config, seed=1).eval()


def moments_of(model: Transformer) -> dict[str, torch.Tensor]:
    return input_moments(model, lambda: model(TOKENS))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", [*FORMATS, "mse3+act", "had+mse2-g16-fp8+gptq", "minmax3+gptq"])
def test_every_format_makes_a_draft_whose_file_has_the_size_that_is_counted(name, tied):
    model, format = small(tied), parse_format(name)
    draft = quantize_model(model, format, moments_of(model))
    tensors, fields = packed_state(draft)
    assert sum(t.numel() * t.element_size() for t in tensors.values()) == draft.stored_bytes
    assert {n: t.shape for n, t in tensors.items()} == expected_state(model, format)
    loaded = from_packed_state(Transformer(model.config, seed=9), tensors, parse_fields(fields))
    assert digest(loaded.module) == digest(draft.module)
    assert loaded.bytes_per_pass == draft.bytes_per_pass
    assert draft.nominal_bits == format.bits
    bits = sum(8 * format.stored_bytes(q.shape) for q in draft.packed.values())
    assert draft.bits_per_weight == bits / sum(math.prod(q.shape) for q in draft.packed.values())


def test_a_format_that_needs_inputs_is_refused_without_them_by_name():
    with pytest.raises(ValueError, match="model.embed_tokens.weight: rtn3.gptq needs the second"):
        quantize_model(small(), parse_format("rtn3+gptq"))


def test_an_embedding_that_is_only_looked_up_is_rounded_to_nearest():
    """No product reads it: all its errors weigh alike, and no column can make good another's."""
    model = small(tied=False)
    draft = quantize_model(model, parse_format("mse3+gptq"), moments_of(model))
    rows = model.model.embed_tokens.weight
    nearest = quantize(rows, parse_format("mse3+gptq"), moment=torch.eye(64))
    assert torch.equal(draft.packed[EMBEDDING].codes, nearest.codes)


def mix_of(model: Transformer, **changed: str) -> Mix:
    names = [n for n, p in model.named_parameters() if p.dim() == 2]
    return Mix.from_json("my mix", dict.fromkeys(names, "rtn2") | changed)


def test_a_mix_gives_each_matrix_its_own_format():
    model = small()
    other = {EMBEDDING: "mse4-fp8", "model.layers.1.mlp.down_proj.weight": "minmax3"}
    mix = mix_of(model, **other)
    draft = quantize_model(model, mix)
    for name, q in draft.packed.items():
        assert q.format == parse_format(other.get(name, "rtn2"))
        assert torch.equal(q.codes, quantize(model.get_parameter(name), q.format).codes)
    weights = {name: model.get_parameter(name).numel() for name in draft.packed}
    bits = 2 * sum(weights.values()) + 2 * weights[EMBEDDING] + weights[list(other)[1]]
    assert draft.nominal_bits == bits / sum(weights.values())
    tensors, fields = packed_state(draft)
    assert sum(t.numel() * t.element_size() for t in tensors.values()) == draft.stored_bytes
    loaded = from_packed_state(model, tensors, parse_fields(fields))
    assert digest(loaded.module) == digest(draft.module)


def test_a_mix_must_name_every_matrix_and_no_other():
    model = small()
    mix = mix_of(model)
    short = Mix("short", {n: f for n, f in mix.formats.items() if n != EMBEDDING})
    with pytest.raises(ValueError, match=f"short names no format for {EMBEDDING}"):
        quantize_model(model, short)
    with pytest.raises(ValueError, match="my mix names a.b, which the model does not hold"):
        quantize_model(model, mix_of(model, **{"a.b": "rtn4"}))
    for wrong, why in (([], "one JSON object"), ({}, "one JSON"), ({"a": 3}, "named by a text"), ({"a": "x9"}, "unknown format")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            Mix.from_json("my mix", wrong)


def test_collecting_moments_leaves_no_hook_and_weighs_every_input_alike():
    model = small()
    hidden = model(TOKENS)[1].detach().reshape(-1, 64).double()
    moments = moments_of(model)
    matrices = {n for n, p in model.named_parameters() if p.dim() == 2}
    assert set(moments) == matrices  # the tied pair once, by what the head reads
    # float32 products of 24 inputs
    torch.testing.assert_close(moments[EMBEDDING], hidden.T @ hidden / 24, rtol=1e-5, atol=1e-6)
    twice = input_moments(model, lambda: (model(TOKENS), model(TOKENS)))
    torch.testing.assert_close(twice[EMBEDDING], moments[EMBEDDING], rtol=1e-12, atol=0)
    assert not any(m._forward_pre_hooks for m in model.modules())
    with pytest.raises(ZeroDivisionError):
        input_moments(model, lambda: 1 / 0)
    assert not any(m._forward_pre_hooks for m in model.modules())
    with pytest.raises(ValueError, match="no input reached"):
        input_moments(model, lambda: None)
