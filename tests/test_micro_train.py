"""Training: what a step does, and that a resumed run computes what an undisturbed one would, bit for bit."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
import torch

from micro.model import ModelConfig, Transformer
from micro.score import Score
from micro.text import Document, as_tokens, draw_batch
from micro.train import (
    Diverged,
    TrainConfig,
    Trainer,
    learning_rate,
    make_optimizers,
    own_randomness,
    train,
)
from micro.training_state import CheckpointFolder

TINY = ModelConfig(
    hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=16,
)  # fmt: skip
CONFIG = TrainConfig(
    steps=8, batch=2, block=12, lr=2e-3, warmup=2, optimizer="adamw", dropout=0.2, ema=0.9, eval_every=3,
)  # fmt: skip
TEXT = b"the quick brown fox jumps over the lazy dog. " * 6
CHECK = [Document("v", b"the lazy fox jumps over the quick dog. ")]


def make(config: TrainConfig = CONFIG, validation=CHECK) -> Trainer:
    model = Transformer(TINY, config.dropout, config.seed)
    return Trainer(model, as_tokens(TEXT), validation, config)


def bits(trainer: Trainer) -> dict[str, bytes]:
    return {name: t.numpy().tobytes() for name, t in trainer.state().tensors.items()}


# the configuration

WRONG = {
    "steps": 0, "batch": 1.5, "block": True, "lr": 0.0, "min_lr": 1.0, "warmup": -1, "optimizer": "sgd",
    "weight_decay": -0.1, "beta2": 1.0, "dropout": float("nan"), "clip": float("inf"), "ema": 1.0,
    "seed": -1, "eval_every": 0, "autocast": "float16",
}  # fmt: skip


def test_the_table_of_wrong_values_names_every_field():
    assert set(WRONG) == set(asdict(TrainConfig()))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        TrainConfig(**{name: WRONG[name]})


def test_the_rate_rises_linearly_and_falls_by_a_cosine():
    config = TrainConfig(steps=14, lr=1.0, min_lr=0.1, warmup=4)
    rates = [learning_rate(config, step) for step in range(14)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[8] == pytest.approx(0.55)  # half way down
    assert rates[13] == pytest.approx(0.1)
    assert all(a > b for a, b in zip(rates[3:], rates[4:]))


def test_without_warmup_the_first_step_is_near_the_top():
    assert 0.9 < learning_rate(TrainConfig(steps=100, lr=1.0, warmup=0), 0) <= 1


# a step


def test_it_learns_a_text_that_repeats():
    config = replace(CONFIG, steps=80, batch=8, lr=0.02, dropout=0.0, ema=0.0)
    losses = []
    trainer = make(config)
    assert train(trainer, lambda event: losses.append(event.loss))
    assert losses[0] == pytest.approx(math.log(256), abs=0.1)  # small weights: nearly uniform
    assert losses[-1] < 1.5  # a sentence of 45 bytes, 29 of them different


def test_muon_takes_the_matrices_of_the_blocks_and_nothing_decays_a_norm():
    model = Transformer(TINY)
    adamw, muon = make_optimizers(model, replace(CONFIG, optimizer="muon"))
    inner = {id(p) for n, p in model.named_parameters() if ".layers." in n and p.dim() == 2}
    assert {id(p) for p in muon.param_groups[0]["params"]} == inner
    decayed, norms = adamw.param_groups
    assert [p.dim() for p in decayed["params"]] == [2] and decayed["weight_decay"] > 0
    assert {p.dim() for p in norms["params"]} == {1} and norms["weight_decay"] == 0
    (alone,) = make_optimizers(model, CONFIG)
    assert sum(len(g["params"]) for g in alone.param_groups) == len(list(model.parameters()))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_moments_made_early_change_no_step(optimizer):
    """torch's own optimizers, with the states they make themselves, are the oracle."""
    config = replace(CONFIG, optimizer=optimizer)
    ours, theirs = Transformer(TINY, seed=1), Transformer(TINY, seed=1)
    eager, lazy = make_optimizers(ours, config), make_optimizers(theirs, config)
    for part in lazy:
        part.state.clear()
    for step in range(3):
        x, y = draw_batch(as_tokens(TEXT), 2, 12, 1, step)
        for model, optimizers in ((ours, eager), (theirs, lazy)):
            torch.nn.functional.cross_entropy(model(x)[0].transpose(1, 2), y).backward()
            for part in optimizers:
                part.step()
                part.zero_grad()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        assert torch.equal(a, b)


def test_the_global_generator_is_left_alone_and_does_not_matter():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = make()
    first.advance()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)
    second = make()
    second.advance()
    assert bits(first) == bits(second)


def test_dropout_masks_depend_on_seed_and_step():
    def draw(seed, step):
        with own_randomness(seed, step, torch.device("cpu")):
            return torch.rand(4).tolist()

    assert draw(1, 5) == draw(1, 5)
    assert len({tuple(draw(*key)) for key in ((1, 5), (1, 6), (2, 5))}) == 3


def test_clipping_bounds_what_the_optimizer_sees():
    trainer = make(replace(CONFIG, clip=1e-3, warmup=0))
    event = trainer.advance()
    assert event.norm > 1e-3  # reported as it was before
    moments = [t for name, t in trainer.tensors().items() if name.endswith("/exp_avg")]
    total = math.sqrt(sum(float(t.double().square().sum()) for t in moments))
    assert total == pytest.approx(0.1 * 1e-3, rel=1e-2)  # (1 - beta1) x the clipped norm


def test_a_diverging_run_is_stopped_before_its_weights_are():
    trainer = make(replace(CONFIG, lr=1e30, warmup=0))
    with pytest.raises(Diverged, match="smaller lr than 1e\\+30"):
        train(trainer)
    assert 1 <= trainer.step < 8


def test_a_text_or_context_too_small_for_a_row_is_refused():
    model = Transformer(TINY)
    with pytest.raises(ValueError, match="12 bytes of text, 13 needed"):
        Trainer(model, as_tokens(b"x" * 12), [], CONFIG)
    Trainer(model, as_tokens(b"x" * 13), [], CONFIG).advance()
    with pytest.raises(ValueError, match="block 17 is beyond the model's context 16"):
        Trainer(model, as_tokens(TEXT), [], replace(CONFIG, block=17))


def test_the_last_window_is_reachable():
    tokens = torch.arange(14)
    starts = {int(draw_batch(tokens, 1, 12, 0, step)[0][0, 0]) for step in range(60)}
    assert starts == {0, 1}  # 14 - 12: both places; missing one has chance 2 x 2^-60


# averaging and the best


def test_the_average_follows_the_weights():
    trainer = make(replace(CONFIG, ema=0.5))
    expected = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    for step in range(3):
        trainer.advance()
        decay = min(0.5, (1 + step) / (10 + step))
        for name, p in trainer.parameters.items():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach()
    for name, tensor in trainer.average.items():
        assert torch.allclose(tensor, expected[name], atol=1e-6)  # float32, weights below 2


def test_without_averaging_the_average_is_the_weights():
    trainer = make(replace(CONFIG, ema=0.0))
    trainer.advance()
    for name, p in trainer.parameters.items():
        assert torch.equal(trainer.average[name], p)


def test_the_best_weights_are_those_of_the_lowest_validation_loss(monkeypatch):
    losses = iter([3.0, 2.0, 2.0, 2.5])  # as if scored at steps 2, 4, 6, 8; of equals the first
    monkeypatch.setattr("micro.train.score", lambda model, documents: Score(next(losses), 1))
    kept, best = {}, []
    trainer = make(replace(CONFIG, eval_every=2, ema=0.0))

    def report(event):
        kept[event.step] = {n: p.detach().clone() for n, p in trainer.parameters.items()}
        best.append(event.best)

    train(trainer, report)
    assert [step for step, is_best in enumerate(best, 1) if is_best] == [2, 4]
    assert (trainer.best_step, trainer.best_loss) == (4, 2.0)
    assert all(torch.equal(t, kept[4][name]) for name, t in trainer.best.items())
    assert not all(torch.equal(t, kept[8][name]) for name, t in trainer.best.items())


def test_without_validation_the_last_weights_are_the_best():
    trainer = make(validation=[])
    train(trainer)
    assert (trainer.best_step, trainer.best_loss) == (8, None)


def test_other_weights_are_lent_and_taken_back():
    trainer = make()
    own = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    zeros = {n: torch.zeros_like(p) for n, p in own.items()}
    with pytest.raises(RuntimeError), trainer.weights(zeros) as model:
        assert not any(p.any() for p in model.parameters())
        raise RuntimeError
    assert all(torch.equal(p, own[n]) for n, p in trainer.parameters.items())


# resume


def run_identity(config: TrainConfig = CONFIG) -> dict:
    return {"text": "abc", **asdict(config)}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("stops", [[1], [3], [4], [8], [1, 2, 3, 6, 7]])  # 3, 6: just evaluated
def test_resumed_equals_straight_bit_for_bit(tmp_path, optimizer, stops):
    config = replace(CONFIG, optimizer=optimizer)
    straight, events = make(config), []
    train(straight, events.append)

    resumed = []
    for stop in [*stops, None]:
        trainer, folder = make(config), CheckpointFolder(tmp_path, run_identity(config))
        if folder.paths():
            trainer.restore(folder.load()[0])
        train(trainer, resumed.append, folder.save, save_every=100, stop=lambda s: s == stop)  # noqa: B023
        trainer = make(config)
        trainer.restore(CheckpointFolder(tmp_path, run_identity(config)).load()[0])
        assert trainer.step == (stop or 8)
    assert resumed == events  # losses, rates, norms, validation: exact floats
    assert bits(trainer) == bits(straight)
    assert (trainer.best_step, trainer.best_loss) == (straight.best_step, straight.best_loss)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing():
    trainer = make()
    trainer.advance()
    good, before = trainer.state(), bits(trainer)

    def with_tensors(**changes):
        return replace(good, tensors={**good.tensors, **changes})

    name = "weights/model.norm.weight"
    missing = {n: t for n, t in good.tensors.items() if n != name}
    cases = {
        "is missing": replace(good, tensors=missing),
        "has no place": with_tensors(extra=torch.zeros(1)),
        "of shape \\[3\\]": with_tensors(**{name: torch.zeros(3)}),
        "float64": with_tensors(**{name: good.tensors[name].double()}),
        "NaN or infinity": with_tensors(**{name: good.tensors[name] * float("nan")}),
        "step 9": replace(good, step=9),
        "best 5": replace(good, best_step=5),
    }
    for message, state in cases.items():
        with pytest.raises(ValueError, match=message):
            trainer.restore(state)
        assert bits(trainer) == before


def test_saving_comes_at_intervals_at_the_end_and_at_a_stop():
    saved = []
    assert train(make(), save=lambda state: saved.append(state.step), save_every=3)
    assert saved == [3, 6, 8]
    saved.clear()
    assert not train(make(), save=lambda s: saved.append(s.step), stop=lambda step: step == 4)
    assert saved == [4]


def test_events_are_plain_values():
    events = []
    train(make(), events.append)
    assert json.loads(json.dumps([asdict(e) for e in events], allow_nan=False))
    assert [e.step for e in events if e.validation is not None] == [3, 6, 8]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_state_moves_between_devices():
    def on(device):
        return Trainer(Transformer(TINY, 0.2, 1).to(device), as_tokens(TEXT), CHECK, CONFIG)

    here, there = on("cpu"), on("cuda")
    here.advance()
    there.restore(here.state())
    there.advance()
    back = on("cpu")
    back.restore(there.state())
    assert bits(back) == bits(there)
    back.advance()
