"""Folders in and out: nothing is lost on the way, nothing half is left, and what does not fit is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from micro.checkpoint import config_from_json, config_to_json, load_model, save_model
from micro.files import FileFault, read_json, write_atomically, write_json
from micro.model import ModelConfig, Transformer
from micro.tensors import INDEX, MAX_HEADER, SINGLE, load_tensors, read_header

CONFIG = ModelConfig(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
ROOT = Path(__file__).resolve().parents[1]
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def folder(tmp_path) -> Path:
    save_model(tmp_path, Transformer(CONFIG, seed=1), {"command": "none"})
    return tmp_path


def edit_config(folder: Path, **fields) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_weights(folder: Path, change) -> None:
    """Apply `change` to the dict of tensors in the file."""
    tensors = load_file(folder / SINGLE)
    change(tensors)
    save_file(tensors, folder / SINGLE)


def refused(folder: Path) -> str:
    with pytest.raises(FileFault) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- in and out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_loaded_is_what_was_saved_in_16_bits(tmp_path, tied):
    model = Transformer(ModelConfig(tie_word_embeddings=tied, hidden_size=48), seed=1)
    save_model(tmp_path, model)
    loaded = load_model(tmp_path)
    assert loaded.config == model.config and not loaded.training
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    stored = load_tensors(tmp_path / SINGLE)
    assert ("lm_head.weight" in stored) == (not tied)
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.bfloat16().float()), name
    save_model(tmp_path / "again", loaded)  # a second round changes nothing
    assert (tmp_path / "again" / SINGLE).read_bytes() == (tmp_path / SINGLE).read_bytes()


def test_every_field_survives_the_config():
    odd = ModelConfig(
        300, 48, 80, 3, 6, 2, 100, rms_norm_eps=2e-6, rope_theta=5e5, tie_word_embeddings=False
    )
    assert config_from_json(json.loads(json.dumps(config_to_json(odd)))) == odd


def test_fields_a_llama_config_leaves_out_mean_what_transformers_means():
    raw = config_to_json(CONFIG)
    for name in ("tie_word_embeddings", "rms_norm_eps", "num_key_value_heads", "rope_theta"):
        del raw[name]
    config = config_from_json(raw)
    assert not config.tie_word_embeddings and config.rms_norm_eps == 1e-6
    assert config.num_key_value_heads == 4 and config.rope_theta == 10000.0


# --- the config ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rope_scaling", {"rope_type": "llama3", "factor": 8.0}),
        ("rope_scaling", {"type": "yarn", "factor": 4.0}),
        ("rope_scaling", {"type": "invented"}),
        ("rope_parameters", {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "factor": 2.0}),
        ("rope_parameters", {"rope_type": "default", "partial_rotary_factor": 0.5}),
        ("rope_parameters", ["default"]),
        ("head_dim", 16),
        ("head_dim", "8"),
        ("attention_bias", True),
        ("mlp_bias", True),
        ("sliding_window", 4096),
        ("hidden_act", "gelu"),
        ("model_type", "mistral"),
        ("pretraining_tp", 2),
        ("quantization_config", {"bits": 4}),
        ("logit_scale", 0.5),
        ("rms_norm_eps", "1e-5"),
        ("rms_norm_eps", 0),
        ("rope_theta", None),
        ("rope_theta", float("inf")),
        ("hidden_size", "32"),
        ("hidden_size", 31),
        ("num_key_value_heads", 3),
        ("vocab_size", -1),
        ("tie_word_embeddings", "yes"),
    ],
)
def test_what_a_config_asks_for_and_the_code_does_not_do_is_refused_by_name(folder, field, value):
    edit_config(folder, **{field: value})
    message = refused(folder)
    assert field in message and "config.json" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rope_scaling", None),
        ("sliding_window", None),
        ("bos_token_id", 1),
        ("attention_dropout", 0.1),
        ("head_dim", None),
        ("some_later_switch", False),
        ("quantization_config", None),
    ],
)
def test_what_changes_nothing_is_let_through(folder, field, value):
    edit_config(folder, **{field: value})
    assert load_model(folder).config == CONFIG


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"a"', "[" * 100_000, "\xff"])
def test_a_config_that_is_no_object_is_refused(folder, text):
    (folder / "config.json").write_text(text, encoding="latin-1")
    assert "config.json" in refused(folder)


def test_a_missing_config_and_a_missing_folder_are_named(folder, tmp_path):
    (folder / "config.json").unlink()
    assert "config.json cannot be read: no such file" in refused(folder)
    assert "nowhere is no folder" in refused(tmp_path / "nowhere")
    assert "is no folder" in refused(folder / SINGLE)


def test_a_size_is_refused_before_anything_of_that_size_is_made(folder):
    """10^9 layers of 10^6 x 10^6 numbers: made, even empty, they would end this process."""
    edit_config(folder, num_hidden_layers=10**9)
    assert "layers.2" in refused(folder)
    edit_config(folder, hidden_size=4 * 10**6, intermediate_size=10**6, head_dim=10**6)
    assert "has shape [256, 32], config.json asks for [256, 4000000]" in refused(folder)


def test_a_packed_draft_is_told_from_a_model(folder):
    edit_config(folder, quantization={"format": "rtn4"})
    assert "packed draft, not a model" in refused(folder)


# --- the weights --------------------------------------------------------------------------------------

BROKEN = {
    "pointer": (
        lambda good: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 87,
        "Git LFS pointer",
    ),
    "half": (lambda good: good[: len(good) // 2], "cut off"),
    "one byte short": (lambda good: good[:-1], "cut off"),
    "one byte long": (lambda good: good + b"\0", "added to"),
    "huge header": (lambda good: (1 << 60).to_bytes(8, "little"), "cut off or is something else"),
    "huge header, then data": (lambda good: (1 << 60).to_bytes(8, "little") + good[8:], "header"),
    "empty": (lambda good: b"", "it is empty"),
    "page": (lambda good: b"<!DOCTYPE html><html>" + b" " * 500, "web page"),
    "no json": (lambda good: (4).to_bytes(8, "little") + b"\xff\xfe{[", "broken header"),
    "a list": (lambda good: (2).to_bytes(8, "little") + b"[]", "broken header"),
    "no offsets": (lambda good: (10).to_bytes(8, "little") + b'{"a": {}} ', "broken header"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_safetensors_is_refused_with_its_size_and_the_likely_reason(folder, case):
    make, reason = BROKEN[case]
    path = folder / SINGLE
    blob = make(path.read_bytes())
    path.write_bytes(blob)
    message = refused(folder)
    assert reason in message and str(path) in message and f"{len(blob):,} bytes" in message


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]},
        {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
        {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4]},
    ],
    ids=str,
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path, entry):
    text = json.dumps({"a": entry}).encode()
    path = tmp_path / SINGLE
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 4)
    with pytest.raises(FileFault, match="broken header"):
        read_header(path)


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits a process by Linux's means")


@on_linux
@pytest.mark.parametrize("claimed", [1 << 60, MAX_HEADER + 1, (1 << 64) - 1])
def test_a_claimed_length_allocates_nothing(folder, claimed):
    """In a process of its own, which may take 200 MB more than torch's start took (a header of that claim would not fit)."""
    (folder / SINGLE).write_bytes(claimed.to_bytes(8, "little") + b"{}")
    code = (
        "import resource, sys; from micro.checkpoint import load_model\n"
        "start = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (start + (200 << 20),) * 2)\n"
        "try: load_model(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
        # not ru_maxrss: a child starts with its parent's, and a test runner's is large
        "status = open('/proc/self/status').read()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) >> 10)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    message, megabytes = out.stdout.splitlines()
    assert "is no safetensors file" in message
    assert int(megabytes) < 500


def test_a_tensor_that_is_missing_misshapen_or_too_many_is_named(folder):
    good = (folder / SINGLE).read_bytes()
    name = "model.layers.1.mlp.up_proj.weight"
    cases = [
        (lambda t: t.pop(name), "is missing"),
        (lambda t: t.update({name: t[name].T.contiguous()}), "has shape [32, 64]"),
        (lambda t: t.update({name: t[name].to(torch.int32)}), "not numbers of a model"),
    ]
    for change, said in cases:
        (folder / SINGLE).write_bytes(good)
        edit_weights(folder, change)
        message = refused(folder)
        assert name in message and said in message
    (folder / SINGLE).write_bytes(good)
    edit_weights(folder, lambda t: t.update({"model.extra": torch.zeros(1)}))
    assert "'model.extra' has no place in this model" in refused(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    name = "model.layers.0.self_attn.q_proj.weight"
    edit_weights(folder, lambda t: t[name].view(-1)[5:6].fill_(value))
    assert f"{name!r} holds NaN or infinity" in refused(folder)


def test_float32_and_float16_files_load_too(folder):
    expected = load_model(folder).state_dict()
    for dtype in (torch.float32, torch.float64):
        edit_weights(folder, lambda t, d=dtype: t.update({n: v.to(d) for n, v in t.items()}))
        loaded = load_model(folder).state_dict()
        assert all(torch.equal(loaded[name], expected[name]) for name in expected)
        assert {tensor.dtype for tensor in loaded.values()} == {torch.float32}


# --- shards -------------------------------------------------------------------------------------------


@pytest.fixture
def sharded(folder) -> Path:
    """The same model in two files and an index."""
    tensors = load_file(folder / SINGLE)
    (folder / SINGLE).rename(folder / "kept")
    names = sorted(tensors)
    parts = (names[: len(names) // 2], names[len(names) // 2 :])
    for shard, part in zip(SHARDS, parts):
        save_file({name: tensors[name] for name in part}, folder / shard)
    weight_map = {name: shard for shard, part in zip(SHARDS, parts) for name in part}
    write_json(folder / INDEX, {"metadata": {}, "weight_map": weight_map})
    return folder


def test_two_shards_equal_the_single_file_bit_for_bit(sharded):
    found = load_model(sharded).state_dict()
    (sharded / INDEX).unlink()
    (sharded / "kept").rename(sharded / SINGLE)
    expected = load_model(sharded).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_missing_shard_is_named(sharded):
    (sharded / SHARDS[1]).unlink()
    assert f"names {SHARDS[1]!r}, which is missing" in refused(sharded)


def test_a_tensor_dropped_from_a_shard_is_named(sharded):
    tensors = load_file(sharded / SHARDS[1])
    name = sorted(tensors)[0]
    del tensors[name]
    save_file(tensors, sharded / SHARDS[1])
    assert f"{name!r} is missing" in refused(sharded)


def test_a_tensor_in_two_shards_is_refused(sharded):
    first, second = (load_file(sharded / shard) for shard in SHARDS)
    name = sorted(first)[0]
    save_file(second | {name: first[name]}, sharded / SHARDS[1])
    assert f"{name!r} a second time" in refused(sharded)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/x.safetensors", "a/b.safetensors"])
def test_an_index_that_leaves_the_folder_is_refused(sharded, name):
    index = read_json(sharded / INDEX)
    index["weight_map"]["model.norm.weight"] = name
    write_json(sharded / INDEX, index)
    assert repr(name) in refused(sharded)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none_is_refused(sharded, text):
    (sharded / INDEX).write_text(text)
    assert INDEX in refused(sharded)


def test_an_index_beside_a_single_file_is_refused(sharded):
    (sharded / "kept").rename(sharded / SINGLE)
    assert "keep the one that is meant" in refused(sharded)


def test_a_stale_shard_is_passed_over_with_a_note(sharded):
    save_file({"old": torch.zeros(1)}, sharded / "model-00003-of-00003.safetensors")
    with pytest.warns(UserWarning, match="passed over model-00003-of-00003.safetensors"):
        load_model(sharded)


# --- writing ------------------------------------------------------------------------------------------


def test_an_interrupted_write_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "a"
    write_atomically(path, lambda file: file.write(b"old"))

    def interrupted(file):
        file.write(b"new, but not all of")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, interrupted)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@on_linux
def test_a_full_disk_leaves_the_old_model_and_names_the_file(folder):
    """A limit on the size of files stands in for a full disk."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code = (
        "import resource, signal, sys; from micro.checkpoint import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: save_model(Path(sys.argv[1]), load_model(Path(sys.argv[1])))\n"
        "except FileFault as error: print(error)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert out.stdout == f"{folder / SINGLE} cannot be written: file too large\n", out.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_place_that_cannot_be_written_is_named(folder):
    with pytest.raises(FileFault, match=f"{SINGLE}/sub/config.json cannot be written"):
        save_model(folder / SINGLE / "sub", Transformer(CONFIG))


def test_nan_never_reaches_a_json_file(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []
