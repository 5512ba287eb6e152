"""The `quantize` command and the folder it writes: what is reported, what comes back, and what is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from micro.checkpoint import load_model, save_model
from micro.files import FileFault
from micro.model import ModelConfig, Transformer
from micro.tensors import SINGLE, load_tensors, save_tensors
from quant.formats import FORMATS
from quant.model import quantize_model
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.drafts.stored import load_quantized, save_quantized

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ModelConfig(
    hidden_size=48,  # a group and a half
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=300,
)


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request, tmp_path) -> Path:
    config = ModelConfig(**(vars(CONFIG) | {"tie_word_embeddings": request.param}))
    save_model(tmp_path / "model", Transformer(config, seed=1))
    return tmp_path / "model"


@pytest.fixture
def tied(tmp_path) -> Path:
    save_model(tmp_path / "model", Transformer(CONFIG, seed=1))
    return tmp_path / "model"


def digest(module) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def quantized(model: Path, *options: str) -> Path:
    out = model.parent / "draft"
    assert main(["quantize", *options, "--out", str(out), str(model)]) == 0
    return out


def refusal(capsys, *argv: str) -> str:
    """The one line of a refused command."""
    capsys.readouterr()
    assert main(["quantize", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- what is written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rtn4", "rtn3", "absmax3", "rtn3-g64"])
def test_the_folder_comes_back_bit_for_bit(model, name):
    before = files(model)
    out = quantized(model, "--format", name)
    assert files(model) == before
    assert sorted(files(out)) == ["config.json", SINGLE]
    target = load_model(model)
    expected = make_draft(target, name)
    loaded = load_quantized(out, target)
    assert isinstance(loaded, ModelDraft) and loaded.bytes_per_pass == expected.bytes_per_pass
    assert digest(loaded.model) == digest(expected.model)


def test_a_new_process_decodes_the_same_bits(tied):
    out = quantized(tied, "--format", "rtn3")
    code = (
        "import hashlib, sys; from micro.checkpoint import load_model\n"
        "from specdec.drafts import make_draft\n"
        "draft = make_draft(load_model(sys.argv[1]), sys.argv[2]).model\n"
        "found = hashlib.sha256()\n"
        "for name, tensor in sorted(draft.state_dict().items()):\n"
        "    found.update(name.encode() + tensor.numpy().tobytes())\n"
        "print(found.hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tied), str(out)], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == digest(make_draft(load_model(tied), "rtn3").model), done.stderr


def test_the_config_is_the_models_with_the_formats_fields(model):
    out = quantized(model, "--format", "rtn3")
    config = json.loads((out / "config.json").read_text())
    fields = {"format": "rtn3", "bits": 3, "group": 32, "scheme": "rtn", "scale": "fp16"}
    assert config.pop("quantization") == fields
    assert config == json.loads((model / "config.json").read_text())


def test_the_report_adds_up_to_the_file(model, capsys):
    out = quantized(model, "--format", "rtn3", "--json")
    report = json.loads(capsys.readouterr().out)
    assert all(report["checks"].values()) and len(report["checks"]) == 2
    size = (out / SINGLE).stat().st_size
    assert size == report["file_bytes"] == report["stored_bytes"] + report["header_bytes"]
    assert report["stored_bytes"] == sum(row["bytes"] for row in report["tensors"])
    assert report["stored_bytes"] == sum(
        tensor.numel() * tensor.element_size() for tensor in load_tensors(out / SINGLE).values()
    )
    names = {row["name"] for row in report["tensors"]}
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"} <= names
    assert report["c"]["nominal"] == 3 / 16 and report["c"]["mean_context"] == 256
    assert report["c"]["weights"] == report["bytes_per_pass"] / report["model_bytes_per_pass"]


def test_a_person_reads_every_tensor_the_totals_and_the_three_costs(tied, capsys):
    quantized(tied, "--format", "rtn4", "--mean-context", "100")
    text = capsys.readouterr().out
    draft = quantize_model(load_model(tied), FORMATS["rtn4"])
    for row in draft.report:
        (line,) = [line for line in text.splitlines() if line.startswith(row.name + " ")]
        assert f"{row.bytes:,}" in line and row.note in line
        assert "exact" in line or f"{row.sqnr_db:.2f}" in line
    assert f"stored: {draft.stored_bytes:,} bytes" in text
    assert "tied to model.embed_tokens.weight" in text and "stay in 16 bits" in text
    assert "c: nominal 0.2500, weights" in text and "mean context 100, cache in bfloat16" in text
    assert text.count("ok: ") == 2


def test_a_draft_may_be_written_over(tied):
    quantized(tied, "--format", "rtn4")
    out = quantized(tied, "--format", "rtn3")
    assert json.loads((out / "config.json").read_text())["quantization"]["bits"] == 3
    load_quantized(out, load_model(tied))


def test_a_file_that_is_not_what_was_counted_fails_the_check(tied, monkeypatch, capsys):
    from specdec.drafts import stored

    def padded(folder, model):
        save_quantized(folder, model)
        tensors, metadata = load_tensors(folder / SINGLE), stored._metadata(folder / SINGLE)
        tensors["model.norm.weight"] = -tensors["model.norm.weight"]
        save_tensors(folder / SINGLE, tensors, metadata)

    monkeypatch.setattr(stored, "save_quantized", padded)
    assert main(["quantize", "--out", str(tied.parent / "draft"), str(tied)]) == 1
    assert "check failed: loaded back, it decodes bit for bit" in capsys.readouterr().err


# --- a folder as a draft ------------------------------------------------------------------------------


def test_a_folder_is_a_draft_by_its_path(tied, monkeypatch):
    out = quantized(tied, "--format", "rtn3")
    target = load_model(tied)
    expected = digest(make_draft(target, "rtn3").model)
    assert digest(make_draft(target, str(out)).model) == expected
    monkeypatch.chdir(out.parent)
    assert digest(make_draft(target, "draft").model) == expected
    out.rename("rtn4")  # a format's name stays the format's; a separator makes it the folder's
    assert digest(make_draft(target, "./rtn4").model) == expected
    assert digest(make_draft(target, "rtn4").model) != expected
    with pytest.raises(FileFault, match="missing/draft is no folder"):
        make_draft(target, "missing/draft")
    with pytest.raises(ValueError, match="unknown draft 'missing'.*or a folder"):
        make_draft(target, "missing")


def edited(out: Path, **fields) -> None:
    path = out / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_what_does_not_fit_the_target_is_refused_by_name(tied):
    out, target = quantized(tied, "--format", "rtn3"), load_model(tied)
    good = (out / "config.json").read_text()
    fields = json.loads(good)["quantization"]
    cases = [
        ({"hidden_size": 96, "head_dim": 24}, "hidden_size is 96, that of the target 48"),
        ({"rope_theta": 5e5}, "rope_theta is 500000.0, that of the target 10000.0"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"attention_bias": True}, "attention_bias True is not done here"),
        ({"quantization": {**fields, "bits": 4}}, "bits 4 is not that of format rtn3"),
        ({"quantization": {**fields, "format": "x"}}, "unknown format 'x'"),
        ({"quantization": None}, "no quantization fields"),
        # same shapes, other meaning: only the weights' own record tells
        ({"quantization": {**fields, "format": "absmax3", "scheme": "absmax"}}, "another format"),
    ]
    for change, message in cases:
        (out / "config.json").write_text(good)
        edited(out, **change)
        with pytest.raises(FileFault, match=message):
            load_quantized(out, target)
    with pytest.raises(FileFault, match="states no quantization"):
        load_quantized(tied, target)


def test_broken_weights_are_refused_by_name(tied):
    out, target = quantized(tied, "--format", "rtn3"), load_model(tied)
    path, good = out / SINGLE, (out / SINGLE).read_bytes()
    name = "model.layers.1.mlp.up_proj.weight"
    metadata = {"quantization": json.dumps(json.loads((out / "config.json").read_text())["quantization"], sort_keys=True)}  # fmt: skip
    changes = [
        (lambda t: t.pop(f"{name}.codes"), f"'{name}.codes' is missing"),
        (lambda t: t.update({f"{name}.codes": t[f"{name}.codes"][:-1]}), "has shape"),
        (
            lambda t: t.update({f"{name}.scales": t[f"{name}.scales"].float()}),
            f"{name}: scales must",
        ),
        (lambda t: t[f"{name}.scales"].fill_(float("nan")), f"{name}: a scale is NaN"),
        (lambda t: t.update(more=torch.zeros(1)), "'more' has no place"),
    ]
    for change, message in changes:
        path.write_bytes(good)
        tensors = load_tensors(path)
        change(tensors)
        save_tensors(path, tensors, metadata)
        with pytest.raises(FileFault, match=message):
            load_quantized(out, target)
    for blob, message in ((good[:1000], "cut off"), (b"", "empty"), ((1 << 60).to_bytes(8, "little"), "no safetensors")):  # fmt: skip
        path.write_bytes(blob)
        with pytest.raises(FileFault, match=message):
            load_quantized(out, target)


# --- formats that look at text, and mixes ---------------------------------------------------------------


def test_a_format_that_needs_inputs_is_written_and_drafts_from_its_folder(tied, capsys):
    out, target = quantized(tied, "--format", "mse3-fp8+gptq"), load_model(tied)
    assert "3 bits" not in capsys.readouterr().err
    draft = make_draft(target, str(out) + "/")
    plain = make_draft(target, "mse3-fp8")
    assert draft.bytes_per_pass == plain.bytes_per_pass
    assert digest(draft.model) != digest(plain.model)
    assert digest(load_model(tied)) == digest(target)
    with pytest.raises(ValueError, match="selfdraft quantize --format mse3-fp8.gptq --out DIR"):
        make_draft(target, "mse3-fp8+gptq")


def test_a_mix_is_written_and_drafts_from_its_folder(tied, tmp_path, capsys):
    target = load_model(tied)
    names = [n for n, p in target.named_parameters() if p.dim() == 2]
    formats = dict.fromkeys(names, "rtn2") | {names[0]: "minmax4"}
    (tmp_path / "mix.json").write_text(json.dumps(formats))
    out = quantized(tied, "--format", f"mix:{tmp_path}/mix.json", "--json")
    report = json.loads(capsys.readouterr().out)
    assert all(report["checks"].values())
    bits = {row["name"]: row["bits_per_weight"] for row in report["tensors"] if row["quantized"]}
    assert bits[names[0]] > 5 > 3.5 > bits[names[1]]
    assert load_quantized(out, target).bytes_per_pass == report["bytes_per_pass"]
    prompt = [
        "--model",
        str(tied),
        "--prompt",
        "hello",
        "--draft",
        str(out),
        "--max-new-tokens",
        "3",
    ]
    assert main(["trace", *prompt]) == 0  # its cost panel reads the folder's bits
    config = json.loads((out / "config.json").read_text())
    del config["quantization"]["matrices"][names[1]]
    (out / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileFault):
        load_quantized(out, target)


def test_a_mix_that_leaves_a_matrix_out_is_refused(tied, tmp_path, capsys):
    (tmp_path / "mix.json").write_text('{"model.embed_tokens.weight": "rtn3"}')
    how = ["--format", f"mix:{tmp_path}/mix.json", "--out", str(tmp_path / "out"), str(tied)]
    assert "mix.json names no format for model.layers.0" in refusal(capsys, *how)
    assert not (tmp_path / "out").exists()


# --- what the command refuses -------------------------------------------------------------------------


def test_a_model_is_never_written_over(tied, capsys):
    before = files(tied)
    assert "is the model's own folder" in refusal(capsys, "--out", str(tied), str(tied))
    other = tied.parent / "other"
    save_model(other, Transformer(CONFIG, seed=2))
    assert "holds a model, which is not written over" in refusal(
        capsys, "--out", str(other), str(tied)
    )
    assert files(tied) == before


def test_wrong_input_is_one_line_and_leaves_nothing(tied, capsys, tmp_path):
    out = str(tmp_path / "draft")
    cases = [
        (["--format", "rtn99", "--out", out, str(tied)], "unknown format 'rtn99'; there are rtn8"),
        (["--out", out, str(tmp_path / "nowhere")], "nowhere is no folder"),
        (["--out", str(tied / SINGLE), str(tied)], "is a file; name a folder"),
        (["--out", str(tied / SINGLE / "x"), str(tied)], "cannot be written"),
        (["--mean-context", "301", "--out", out, str(tied)], "--mean-context 301 exceeds"),
    ]
    for argv, message in cases:
        assert message in refusal(capsys, *argv)
        assert not Path(out).exists()


def test_a_draft_is_not_quantized_again(tied, capsys):
    out = quantized(tied, "--format", "rtn3")
    assert "packed draft, not a model" in refusal(capsys, "--out", str(out) + "2", str(out))
