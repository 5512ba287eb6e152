"""The outside oracle: transformers' LlamaForCausalLM loads a folder of ours as it stands, and says the same.

Logits of both are float32 sums in different orders: below 10 in size, they agree to about 1e-6 (tiny) and 1e-5 (micro). 1e-4
is what the field asks for; a wrong rotation, head order or epsilon is off by more than 1e-2.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from micro.chance import SeededChance
from micro.checkpoint import load_model, save_model
from micro.files import FileFault
from micro.generate import generate
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling

os.environ["HF_HUB_OFFLINE"] = "1"  # before the import: a test fetches nothing
transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-4
SHIPPED = Path(__file__).resolve().parents[1] / "micro" / "weights"
TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}


def lively(config: ModelConfig, seed: int = 1) -> Transformer:
    """Random weights, larger than at the start of training, so that attention is far from uniform."""
    model = Transformer(config, seed=seed).requires_grad_(False).eval()
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
        parameter.mul_(4) if parameter.dim() == 2 else parameter.add_(noise, alpha=0.1)
    return model


def reference(folder: Path):
    """transformers' model of a folder, in float32."""
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval().requires_grad_(False)


def tokens(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(256, (1, count), generator=torch.Generator().manual_seed(seed))


def greedy(model, prompt: list[int], count: int) -> list[int]:
    """The new tokens by transformers' own generate."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
    )
    return out[0, len(prompt) :].tolist()


def assert_same(ours: Transformer, theirs, count: int) -> None:
    text = tokens(count)
    assert (ours(text)[0] - theirs(text).logits).abs().max() < TOLERANCE


@pytest.mark.parametrize("theta", [10000.0, 500000.0])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_tiny_models_have_the_reference_logits_and_text(tmp_path, kv_heads, tied, theta):
    config = ModelConfig(
        **TINY, num_key_value_heads=kv_heads, tie_word_embeddings=tied, rope_theta=theta
    )
    save_model(tmp_path, lively(config))
    ours, theirs = load_model(tmp_path), reference(tmp_path)
    assert ours.config == config and ours.dtype == torch.float32
    assert_same(ours, theirs, 256)
    prompt = [84, 1, 2, 104]
    assert greedy(theirs, prompt, 24) == generate(ours, prompt, 24, Sampling(0), SeededChance(1))


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_folder_written_by_transformers_loads_and_says_the_same(tmp_path, tied):
    """Its config.json has the nested rope_parameters, an epsilon of its own, and files in float32."""
    config = transformers.LlamaConfig(
        vocab_size=256, **TINY, num_key_value_heads=2, rms_norm_eps=1e-3,
        tie_word_embeddings=tied, rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    theirs.save_pretrained(tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    assert raw["rope_parameters"]["rope_theta"] == 500000.0 and "rope_theta" not in raw
    ours = load_model(tmp_path)
    assert (ours.config.rope_theta, ours.config.rms_norm_eps) == (500000.0, 1e-3)
    assert_same(ours, theirs, 256)


def test_the_older_nested_form_is_honoured(tmp_path):
    save_model(tmp_path, lively(ModelConfig(**TINY, num_key_value_heads=2, rope_theta=10000.0)))
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"rope_scaling": {"type": "default"}, "rope_theta": 500000.0}))
    assert load_model(tmp_path).config.rope_theta == 500000.0


def test_theta_changes_far_positions_and_not_the_first(tmp_path):
    text, logits = tokens(201), {}
    for theta in (10000.0, 500000.0):
        config = ModelConfig(**TINY, num_key_value_heads=4, rope_theta=theta)
        save_model(tmp_path / str(theta), lively(config))
        logits[theta] = load_model(tmp_path / str(theta))(text)[0][0]
        assert (logits[theta] - reference(tmp_path / str(theta))(text).logits[0]).abs().max() < 1e-4
    near, far = logits.values()
    assert torch.equal(near[0], far[0])
    assert (near[200] - far[200]).abs().max() > 100 * TOLERANCE


@pytest.fixture(scope="module")
def micro_folder(tmp_path_factory) -> Path:
    """The micro that ships, or a random one of its size where the clone has none yet."""
    if (SHIPPED / "model.safetensors").is_file():
        return SHIPPED
    folder = tmp_path_factory.mktemp("micro")
    save_model(folder, Transformer(ModelConfig(), seed=1))
    return folder


def test_micro_has_the_reference_logits_over_256_positions(micro_folder):
    assert_same(load_model(micro_folder), reference(micro_folder), 256)


def test_micro_has_the_reference_text(micro_folder):
    ours, theirs = load_model(micro_folder), reference(micro_folder)
    prompt = list(b"The attention")
    assert greedy(theirs, prompt, 40) == generate(ours, prompt, 40, Sampling(0), SeededChance(1))


@pytest.mark.parametrize("byte", [1, 2])
def test_bytes_1_and_2_do_not_end_the_text(tmp_path, byte):
    """A Llama's usual bos and eos are ids 1 and 2; here they are bytes. The head is bent until greedy text holds them."""
    model = lively(ModelConfig(**TINY, num_key_value_heads=2, tie_word_embeddings=False))
    free = generate(model, [84, 104], 24, Sampling(0), SeededChance(1))
    # swap the rows of the head for `byte` and the sixth byte of the text: where that was likeliest, `byte` is now
    rows = model.lm_head.weight.clone()
    model.lm_head.weight[byte], model.lm_head.weight[free[5]] = rows[free[5]], rows[byte]
    save_model(tmp_path, model)
    ours, theirs = load_model(tmp_path), reference(tmp_path)
    mine = generate(ours, [84, 104], 24, Sampling(0), SeededChance(1))
    assert byte in mine[:-1]  # the case is real
    assert greedy(theirs, [84, 104], 24) == mine
    for field in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert json.loads((tmp_path / "config.json").read_text())[field] is None
        assert getattr(theirs.generation_config, field) is None


def test_a_head_width_of_its_own_is_refused_where_the_reference_honours_it(tmp_path):
    config = transformers.LlamaConfig(vocab_size=256, **TINY, num_key_value_heads=4, head_dim=32)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(FileFault, match="head_dim 32 is not hidden_size"):
        load_model(tmp_path)
