"""Distillation of a small model of its own: laws known beforehand, overlap that grows, a resumed run, an untouched target."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from micro.model import ModelConfig, Transformer
from micro.text import as_tokens
from micro.train import train
from micro.training_state import CheckpointFolder
from specdec.distilling import DistilConfig, Distiller, write_own_text
from specdec.tuning_losses import Schedule

SIZES = {"vocab_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 2, "max_position_embeddings": 32}  # fmt: skip
CONFIG = DistilConfig(steps=6, batch=4, block=16, warmup=2, eval_every=2, remember=True)
TEXT = as_tokens(bytes(i * i % 29 for i in range(200)))
OPENINGS = [TEXT[i : i + 4].tolist() for i in range(0, 60, 10)]


def target_of() -> Transformer:
    model = Transformer(ModelConfig(**SIZES, hidden_size=32), seed=5).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(12 if parameter.dim() == 2 else 1)
    return model.requires_grad_(False)


TARGET = target_of()
OWN, CHECK = (write_own_text(TARGET, OPENINGS, 16, 1, name) for name in ("own", "validation"))


def run_of(config: DistilConfig = CONFIG) -> Distiller:
    student = Transformer(ModelConfig(**SIZES, hidden_size=16), seed=1)
    return Distiller(TARGET, student, TEXT, OWN, [CHECK], config)


def bits(run: Distiller) -> dict[str, bytes]:
    return {name: t.numpy().tobytes() for name, t in run.state().tensors.items()}


@pytest.mark.parametrize("parts", [1, 2])
def test_laws_that_were_kept_are_those_that_a_pass_would_give(parts):
    """Up to float16: log-probabilities of 0 to -20 in steps of at most 2^-7."""
    known, fresh = run_of(replace(CONFIG, parts=parts)), run_of(replace(CONFIG, remember=False))
    assert torch.equal(known.rows(3), fresh.rows(3))
    assert known.backward(3) == pytest.approx(fresh.backward(3), abs=2**-7)
    assert known.backward(3) != known.backward(4)


def test_distilling_raises_the_overlap_and_leaves_the_target_as_it_was():
    before = {n: t.clone() for n, t in TARGET.state_dict().items()}
    run = run_of(replace(CONFIG, steps=80, eval_every=20))
    start = run.validation_loss()
    seen = []
    assert train(run, lambda event: seen.append(event.validation))
    assert run.best_loss < 0.9 * start  # measured .43 after .50: few texts, half the width
    assert run.best_loss == min(v for v in seen if v is not None)
    assert all(torch.equal(t, before[n]) for n, t in TARGET.state_dict().items())


@pytest.mark.parametrize("stop", [3, 6])
def test_a_resumed_distillation_computes_what_an_undisturbed_one_would(stop, tmp_path):
    """Stopped where the loss changes (3) and at the end (6)."""
    straight, first, second = run_of(), run_of(), run_of()
    train(straight)
    folder = CheckpointFolder(tmp_path, {"seed": 1})
    train(first, save=folder.save, stop=lambda step: step == stop)
    second.restore(CheckpointFolder(tmp_path, {"seed": 1}).load()[0])
    train(second)
    assert bits(second) == bits(straight)


def test_without_validation_the_last_step_is_kept():
    student = Transformer(ModelConfig(**SIZES, hidden_size=16), seed=1)
    run = Distiller(TARGET, student, TEXT, OWN, (), CONFIG)
    train(run)
    assert run.best_step == CONFIG.steps and run.best_loss is None


@pytest.mark.parametrize(
    "wrong",
    [{"dropout": 0.1}, {"own_share": 1.5}, {"parts": 5}, {"remember": True, "own_share": 0.5}],
    ids=str,
)
def test_a_wrong_value_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be "):
        replace(CONFIG, schedule=Schedule((("kl", 1.0),)), **wrong)
