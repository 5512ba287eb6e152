"""Training: one optimizer step after the other, evaluated at intervals, resumable to the bit.

Everything random is a pure function of (seed, step): the batch (micro.text.draw_batch) and the dropout masks. With the
weights, the optimizers' moments and the step number a run is therefore complete, and one that was stopped and resumed
computes what an undisturbed one would. Nothing here prints or writes: `train` calls back.

AdamW: Loshchilov and Hutter 2019 (arXiv 1711.05101). Muon: Jordan 2024; its step is scaled to AdamW's size (Liu et al. 2025,
arXiv 2502.16982, section 2.2), so one learning rate serves both. Weight averaging: Polyak and Juditsky 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from micro.chance import generator_for
from micro.model import Transformer
from micro.score import score
from micro.text import Document, draw_batch
from micro.training_state import TrainingState

OPTIMIZERS = ("adamw", "muon")
AUTOCASTS = ("off", "bfloat16")
MOMENTUM = 0.95  # of Muon
BETA1 = 0.9


@dataclass(frozen=True)
class TrainConfig:
    """What a run computes; the defaults are the recipe of the micro that ships.

    Two runs with equal configs on equal text and device compute the same numbers.

    steps, batch, block: optimizer steps; rows in a batch; bytes in a row.
    lr, min_lr, warmup: linear rise over `warmup` steps to `lr`, then a cosine down to `min_lr` at the last step.
    optimizer: adamw, or muon for the matrices inside the blocks and AdamW for the rest.
    weight_decay: of matrices, per unit of learning rate. clip: largest gradient norm, 0 = none.
    ema: decay of the averaged weights that are evaluated and kept, 0 = the last weights themselves.
    eval_every: steps between evaluations (the last step is always evaluated).

    Raises ValueError naming the first field that is out of range.
    """

    steps: int = 2800
    batch: int = 4
    block: int = 512
    lr: float = 5.6e-3
    min_lr: float = 0.0
    warmup: int = 140
    optimizer: str = "muon"
    weight_decay: float = 0.3
    beta2: float = 0.99
    dropout: float = 0.25
    clip: float = 1.0
    ema: float = 0.0
    seed: int = 1
    eval_every: int = 200
    autocast: str = "off"

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "block", "eval_every"):
            _check(name, self, int, lambda v: v >= 1, "a whole number of 1 or above")
        for name in ("warmup", "seed"):
            _check(name, self, int, lambda v: v >= 0, "a whole number of 0 or above")
        _check("lr", self, float, lambda v: v > 0, "a number above 0")
        _check("min_lr", self, float, lambda v: 0 <= v <= self.lr, f"from 0 to lr, {self.lr:g}")
        for name in ("weight_decay", "clip"):
            _check(name, self, float, lambda v: v >= 0, "a number of 0 or above")
        for name in ("beta2", "dropout", "ema"):
            _check(name, self, float, lambda v: 0 <= v < 1, "from 0 to below 1")
        for name, choices in (("optimizer", OPTIMIZERS), ("autocast", AUTOCASTS)):
            _check(name, self, str, choices.__contains__, "one of " + ", ".join(choices))


def _check(name: str, config: TrainConfig, kind: type, right: Callable, wanted: str) -> None:
    value = getattr(config, name)
    kinds = (int, float) if kind is float else (kind,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not right(value):
        raise ValueError(f"{name} must be {wanted}, not {value!r}")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}")


@dataclass(frozen=True)
class Event:
    """One finished step: its number (from 1), the batch's loss in nats, the rate it was made with, the gradient's norm
    before clipping, and, where evaluated, the validation loss in nats and whether it is the best so far."""

    step: int
    loss: float
    rate: float
    norm: float
    validation: float | None = None
    best: bool = False


class Diverged(ValueError):
    """The loss is no longer finite."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """Of step 0 ... steps - 1. Pure: a resumed run needs no scheduler's state."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    span = max(1, config.steps - config.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * (step - config.warmup + 1) / span))
    return config.min_lr + (config.lr - config.min_lr) * cosine


def make_optimizers(model: Transformer, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW for all, or Muon for the blocks' matrices and AdamW for embedding, head and norms. Norms never decay."""
    named = dict(model.named_parameters())  # a tied head appears once
    inner = [n for n, p in named.items() if p.dim() == 2 and ".layers." in n]
    outer = [n for n, p in named.items() if p.dim() == 2 and ".layers." not in n]
    norms = [n for n, p in named.items() if p.dim() < 2]
    decayed = outer if config.optimizer == "muon" else inner + outer
    groups = [
        {"params": [named[n] for n in decayed], "weight_decay": config.weight_decay},
        {"params": [named[n] for n in norms], "weight_decay": 0.0},
    ]
    optimizers = [torch.optim.AdamW(groups, lr=config.lr, betas=(BETA1, config.beta2))]
    if config.optimizer == "muon":
        matrices = [named[n] for n in inner]
        muon = torch.optim.Muon(
            matrices,
            lr=config.lr,
            weight_decay=config.weight_decay,
            momentum=MOMENTUM,
            adjust_lr_fn="match_rms_adamw",
        )
        optimizers.append(muon)
    for optimizer in optimizers:
        fill_moments(optimizer)
    return optimizers


def fill_moments(optimizer: torch.optim.Optimizer) -> None:
    """The zeros that torch would make at the first step, made now: a state has the same tensors at every step."""
    muon = isinstance(optimizer, torch.optim.Muon)
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        names = ("momentum_buffer",) if muon else ("exp_avg", "exp_avg_sq")
        optimizer.state[parameter] = {name: torch.zeros_like(parameter) for name in names}
        if not muon:  # on the CPU wherever the weights are, as torch keeps it
            optimizer.state[parameter]["step"] = torch.tensor(0.0)


@contextmanager
def own_randomness(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Dropout draws from its device's global generator: seeded from (seed, step) inside, put back afterwards."""
    generator = _global_generator(device)
    before = generator.get_state()
    generator.manual_seed(int(generator_for(seed, "dropout", step).integers(2**63)))
    try:
        yield
    finally:
        generator.set_state(before)


def _global_generator(device: torch.device) -> torch.Generator:
    """torch.manual_seed would reach every device's; this is the one that dropout on `device` uses."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return (
        torch.mps._get_default_mps_generator() if device.type == "mps" else torch.default_generator
    )


class Trainer:
    """A run in memory: model, optimizers, averaged and best weights, step number.

    What it learns is in three methods, which another kind of training has of its own: `make_optimizers`, `backward`,
    `validation_loss` (specdec/tuning.py). A group of parameters that states a `share` takes that share of the rate.

    Args: `model` on its device, with config.dropout built in; `tokens` (N,) the training bytes; `validation` documents
    (none: nothing is evaluated and the last weights are the best). Raises ValueError where the text is shorter than a row.
    """

    def __init__(
        self,
        model: Transformer,
        tokens: Tensor,
        validation: Sequence[Document],
        config: TrainConfig,
    ) -> None:
        if config.block > model.context:
            raise ValueError(f"block {config.block} is beyond the model's context {model.context}")
        self.model, self.tokens, self.validation, self.config = model, tokens, validation, config
        self.optimizers = self.make_optimizers()
        self.parameters = dict(model.named_parameters())
        self.average = {n: p.detach().clone() for n, p in self.parameters.items()}
        self.best = {n: p.detach().clone() for n, p in self.parameters.items()}
        self.best_loss: float | None = None
        self.best_step = self.step = 0
        draw_batch(tokens, 1, config.block, 0, 0)  # raises where the text is too short

    def make_optimizers(self) -> list[torch.optim.Optimizer]:
        return make_optimizers(self.model, self.config)

    def advance(self) -> Event:
        """One step, with evaluation where it is due. Raises Diverged, leaving the weights as they were."""
        config, index = self.config, self.step
        rate = learning_rate(config, index)
        loss = self.backward(index)
        limit = config.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), limit))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Diverged(
                f"the loss at step {index + 1} is {loss}, its gradient's norm {norm}: training has "
                f"diverged; a smaller lr than {config.lr:g} or a longer warmup would be right"
            )
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("share", 1.0)
            optimizer.step()
            optimizer.zero_grad()
        self._follow(index)
        self.step += 1
        due = self.step % config.eval_every == 0 or self.step == config.steps
        return Event(self.step, loss, rate, norm, *(self._evaluate() if due else ()))

    def backward(self, index: int) -> float:
        """Fill the gradients from batch `index`; its mean loss in nats."""
        config, device = self.config, self.model.device
        x, y = draw_batch(self.tokens, config.batch, config.block, config.seed, index)
        x, y = x.to(device), y.to(device)
        self.model.train()
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.autocast != "off")
        with own_randomness(config.seed, index, device), autocast:
            logits = self.model(x)[0]  # (B, T, V)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        loss.backward()
        return float(loss.detach())

    @torch.no_grad()
    def _follow(self, index: int) -> None:
        """Move the average towards the weights; early on faster, or the random start would linger in it."""
        decay = min(self.config.ema, (1 + index) / (10 + index))
        for name, parameter in self.parameters.items():
            self.average[name].lerp_(parameter.detach(), 1 - decay)

    def validation_loss(self) -> float:
        """Of the weights inside, in nats a byte."""
        return score(self.model, self.validation).nats

    def _evaluate(self) -> tuple[float | None, bool]:
        """Validation loss of the averaged weights, and whether they are the best; they are kept if so."""
        loss = None
        if self.validation:
            with self.weights(self.average):
                loss = self.validation_loss()
        best = loss is None or self.best_loss is None or loss < self.best_loss
        if best:
            self.best_loss, self.best_step = loss, self.step
            copy_into(self.best, self.average)
        return loss, best

    @contextmanager
    def weights(self, values: dict[str, Tensor]) -> Iterator[Transformer]:
        """The model with other weights inside, with its own again afterwards."""
        own = {n: p.detach().clone() for n, p in self.parameters.items()}
        copy_into(self.parameters, values)
        try:
            yield self.model
        finally:
            copy_into(self.parameters, own)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the run by name, the live ones."""
        parts = {"weights": self.parameters, "average": self.average, "best": self.best}
        found = {
            f"{part}/{n}": t.detach() for part, named in parts.items() for n, t in named.items()
        }
        names = {id(p): n for n, p in self.parameters.items()}
        for optimizer in self.optimizers:
            for parameter, moments in optimizer.state.items():
                prefix = f"optimizer/{names[id(parameter)]}"
                found |= {f"{prefix}/{key}": tensor for key, tensor in moments.items()}
        return found

    def state(self) -> TrainingState:
        """All that a resumed run needs: a copy, on the CPU."""
        tensors = {name: t.detach().cpu().clone() for name, t in self.tensors().items()}
        return TrainingState(self.step, self.best_step, self.best_loss, tensors)

    def restore(self, state: TrainingState) -> None:
        """Continue from `state`, whichever device wrote it.

        Raises ValueError naming the tensor or number that does not belong to this run; the run is then as it was.
        """
        if not 0 <= state.best_step <= state.step <= self.config.steps:
            raise ValueError(f"step {state.step} (best {state.best_step}) is none of this run's")
        live = self.tensors()
        for name in sorted(live.keys() ^ state.tensors.keys()):
            which = "is missing" if name in live else "has no place in this run"
            raise ValueError(f"tensor {name!r} {which}")
        for name, own in live.items():
            found = state.tensors[name]
            if found.shape != own.shape or found.dtype != own.dtype:
                raise ValueError(
                    f"tensor {name!r} is {found.dtype} of shape {list(found.shape)}, wanted is "
                    f"{own.dtype} of {list(own.shape)}"
                )
            if not found.isfinite().all():
                raise ValueError(f"tensor {name!r} holds NaN or infinity")
        copy_into(live, state.tensors)
        self.step, self.best_step, self.best_loss = state.step, state.best_step, state.best_loss


@torch.no_grad()
def copy_into(to: dict[str, Tensor], source: dict[str, Tensor]) -> None:
    """Overwrite each tensor by its namesake, in place, across devices."""
    for name, tensor in to.items():
        tensor.copy_(source[name])


def train(
    trainer: Trainer,
    report: Callable[[Event], None] = lambda event: None,
    save: Callable[[TrainingState], None] = lambda state: None,
    save_every: int = 100,
    stop: Callable[[int], bool] = lambda step: False,
) -> bool:
    """Run to the last step, or until `stop(step)`; True when the last step was reached.

    After every step comes `report`, then, every `save_every` steps and at the end, `save`. A step's evaluation belongs
    to it, so whatever is saved has been evaluated. Raises Diverged; what was saved stays good.
    """
    while trainer.step < trainer.config.steps:
        event = trainer.advance()
        report(event)
        stopping = stop(event.step)
        if stopping or event.step % save_every == 0 or event.step == trainer.config.steps:
            save(trainer.state())
        if stopping:
            break
    return trainer.step == trainer.config.steps
