"""A model's folder in and out: config.json and model.safetensors, as transformers' LlamaForCausalLM reads them.

What a config asks for and this code does not do is refused by name: silently ignored, it would turn into nonsense at
some far position. Weights are stored in bfloat16 and computed in float32.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch

from micro.files import FileFault, read_json, write_json
from micro.model import Decoder, ModelConfig, Transformer
from micro.tensors import SINGLE, load_folder, save_tensors

STORED = torch.bfloat16  # the target everyone measures is the 16-bit file

# fields whose only value this code does; anything else is refused
FIXED = {
    "model_type": ("llama",),
    "hidden_act": ("silu", "swish"),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "sliding_window": (None,),
    "rope_interleaved": (False,),
    "partial_rotary_factor": (1, 1.0),
    "pretraining_tp": (1,),
    "quantization_config": (None,),
}
# sizes beyond any model of today, whose products torch could not count or whose tables would not fit memory
LARGEST = {
    "vocab_size": 1 << 24,
    "hidden_size": 1 << 24,
    "intermediate_size": 1 << 24,
    "max_position_embeddings": 1 << 20,
}
# fields that change nothing computed here
INERT = {
    "architectures", "transformers_version", "torch_dtype", "dtype", "use_cache", "initializer_range",
    "bos_token_id", "eos_token_id", "pad_token_id", "_name_or_path", "attention_dropout",
    "is_llama_config", "quantization", "training", "name_or_path",
}  # fmt: skip


def config_to_json(config: ModelConfig) -> dict:
    """The config.json of a Llama. Null bos / eos / pad: otherwise bytes 1 and 2 would end text elsewhere."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(config),
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "dtype": "bfloat16",
    }


def config_from_json(raw: dict, where: str = "config.json") -> ModelConfig:
    """Raises FileFault naming `where` and the first field this code cannot honour."""
    known = {field.name for field in fields(ModelConfig)}
    values = {name: raw[name] for name in known & raw.keys()}
    for name in sorted(raw.keys() - known - INERT):
        _refuse(name, raw[name], raw, values, where)
    for name in ("rms_norm_eps", "rope_theta"):
        if name in values:
            values[name] = _number(name, values[name], where)
    for name, most in LARGEST.items():
        if isinstance(values.get(name), int) and values[name] > most:
            raise FileFault(
                f"{where}: {name} {values[name]} is too large, at most {most:,} is done"
            )
    # a Llama config that does not say these means transformers' defaults, not micro's
    values.setdefault("tie_word_embeddings", False)
    values.setdefault("rms_norm_eps", 1e-6)
    values.setdefault("num_key_value_heads", values.get("num_attention_heads"))
    required = known - {"rope_theta"}
    if missing := sorted(required - values.keys()):
        raise FileFault(f"{where}: {missing[0]} is missing")
    try:
        return ModelConfig(**values)
    except (ValueError, TypeError) as error:
        raise FileFault(f"{where}: {error}") from error


def _number(name: str, value: object, where: str) -> float:
    try:
        if type(value) in (int, float):
            return float(value)
    except OverflowError:  # a whole number above 1e308
        pass
    raise FileFault(f"{where}: {name} must be a number that can be computed with, not {value!r}")


def _refuse(name: str, value: object, raw: dict, values: dict, where: str) -> None:
    """Raises FileFault unless the field asks for nothing; nested rope settings move into `values`."""
    if name in ("rope_scaling", "rope_parameters") and isinstance(value, dict):
        kind = value.get("rope_type", value.get("type", "default"))
        if kind != "default":
            raise FileFault(f"{where}: {name} asks for type {kind!r}; only plain rotation is done")
        if extra := sorted(value.keys() - {"rope_type", "type", "rope_theta"}):
            raise FileFault(f"{where}: {name} asks for {extra[0]!r}, which is not done here")
        values["rope_theta"] = value.get("rope_theta", values.get("rope_theta", 10000.0))
    elif name == "head_dim" and value is not None:
        heads = raw.get("num_attention_heads")
        if (
            not isinstance(value, int)
            or not isinstance(heads, int)
            or value * heads != raw.get("hidden_size")
        ):
            raise FileFault(f"{where}: head_dim {value!r} is not hidden_size / num_attention_heads")
    elif name in FIXED:
        if value not in FIXED[name]:
            raise FileFault(f"{where}: {name} {value!r} is not done here, only {FIXED[name][0]!r}")
    elif value not in (None, False):
        raise FileFault(
            f"{where}: field {name!r} is not known here; what it asks for cannot be done"
        )


def save_model(folder: Path, model: Transformer, training: dict | None = None) -> None:
    """Write the folder, weights in bfloat16; `training` (command, seed, loss, ...) goes into training.json."""
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    state = {name: tensor.to(STORED) for name, tensor in state.items()}
    folder = Path(folder)
    write_json(folder / "config.json", config_to_json(model.config))
    save_tensors(folder / SINGLE, state, {"format": "pt"})
    if training is not None:
        write_json(folder / "training.json", training)


def expected_tensors(config: ModelConfig) -> Iterator[tuple[str, torch.Size]]:
    """Names and shapes of a model's stored tensors, one by one.

    Nothing is allocated: a config that asks for a billion layers ends at the first that its file does not hold.
    """
    with torch.device("meta"):
        one = Decoder(replace(config, num_hidden_layers=1), dropout=0.0)
    shapes = {f"model.{name}": tensor.shape for name, tensor in one.state_dict().items()}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = shapes["model.embed_tokens.weight"]
    yield from ((name, shape) for name, shape in shapes.items() if ".layers.0." not in name)
    for layer in range(config.num_hidden_layers):
        for name, shape in shapes.items():
            if ".layers.0." in name:
                yield name.replace(".layers.0.", f".layers.{layer}."), shape


def load_model(folder: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a folder, in eval mode, without gradients, its 16-bit numbers widened to `dtype`.

    Raises FileFault naming the file, the field or the tensor at fault.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):  # unlike Path.is_dir, no error where a name is too long
        raise FileFault(f"{folder} is no folder; a model is a folder with config.json and {SINGLE}")
    raw = read_json(folder / "config.json")
    if raw.get("quantization") is not None:
        raise FileFault(
            f"{folder} holds a packed draft, not a model: give it as a draft, beside the model it was "
            f"made from"
        )
    config = config_from_json(raw, str(folder / "config.json"))
    state, note = load_folder(folder, expected_tensors(config))
    if note:
        warnings.warn(note, stacklevel=2)
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise FileFault(
                f"{folder}: tensor {name!r} holds {tensor.dtype}, not numbers of a model"
            )
        if not tensor.isfinite().all():
            raise FileFault(f"{folder}: tensor {name!r} holds NaN or infinity")
    model = Transformer(config)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model.to(dtype).eval().requires_grad_(False)
