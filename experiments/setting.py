"""What an experiment measures with: the model, its drafts, the prompts, and the texts they lead to.

Texts are drawn from the target alone, once for each temperature, and shared by every draft: drafts are compared on the
same texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from experiments.draft_formats import low_bit_copy
from experiments.prompts import Prompt
from micro.chance import SeededChance
from micro.checkpoint import load_model
from micro.generate import BATCH, generate_batch
from micro.many import draw_many, laws_of_many
from micro.model import Transformer
from micro.sampling import Sampling
from quant.bytes import Cost, costs, pass_bytes
from quant.model import QuantizedModel
from specdec.calibration import calibrated

CACHE_BYTES = 2  # of a number in the key-value cache: bfloat16


@dataclass(frozen=True)
class Texts:
    """Drawn text of all prompts x seeds: tokens (N, L), the laws they came from (N, L, V); `owner` (N,) the prompt."""

    tokens: Tensor
    laws: Tensor
    owner: Tensor


@dataclass
class Setting:
    """One model folder and a list of prompts. Raises FileFault, ValueError as loading does."""

    model_dir: Path
    prompts: list[Prompt]
    window: int = 64
    seeds: tuple[int, ...] = (1, 2, 3)
    most_gamma: int = 10
    rule: str = "token"
    progress: Callable[[str], None] = field(default=lambda what: None)
    texts_kept: int = 1  # temperatures whose texts stay in memory
    by_prompt: bool = (
        False  # all texts of a prompt at once: cheaper, but their number may change bits
    )
    _texts: dict[float, Texts] = field(default_factory=dict)

    def check(self) -> None:
        """Raises ValueError where a prompt and its continuation do not fit the context: before anything is measured."""
        room = self.model.context - self.window - self.most_gamma - 1
        for prompt in self.prompts:
            if not 1 <= len(prompt.tokens) <= room:
                raise ValueError(
                    f"prompt {prompt.id!r} has {len(prompt.tokens)} tokens; 1 to {room} leave room for a window of "
                    f"{self.window} in the context of {self.model.context}"
                )

    @cached_property
    def model(self) -> Transformer:
        return load_model(self.model_dir)

    @cached_property
    def weights_hash(self) -> str:
        """SHA-256 over the target's tensors as they are stored, not over the file around them."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(
                name.encode() + tensor.to(torch.bfloat16).view(torch.int16).numpy().tobytes()
            )
        return digest.hexdigest()[:16]

    @cached_property
    def prompts_hash(self) -> str:
        digest = hashlib.sha256()
        for prompt in self.prompts:
            digest.update(f"{prompt.id}\0{len(prompt.tokens)}\0".encode() + bytes(prompt.tokens))
        return digest.hexdigest()[:16]

    @cached_property
    def _drafts(self) -> dict[str, QuantizedModel]:
        return {}

    def draft(self, name: str) -> QuantizedModel:
        """The target's copy that a name stands for (experiments/draft_formats.py); made once."""
        if name not in self._drafts:
            self._drafts[name] = low_bit_copy(self.model, name, lambda: self.moments)
        return self._drafts[name]

    def add(self, name: str, draft: QuantizedModel) -> None:
        """A draft that was made elsewhere, under a name of its own."""
        self._drafts[name] = draft

    def forget(self, name: str) -> None:
        """Gives the memory of a draft back."""
        self._drafts.pop(name, None)

    @cached_property
    def moments(self) -> dict[str, Tensor]:
        """Of the inputs of the target's matrices, on training text."""
        self.progress("collecting the inputs of every matrix")
        return calibrated(self.model)

    @property
    def mean_context(self) -> int:
        """Tokens before the middle of the window, averaged over prompts."""
        mean = sum(len(prompt.tokens) for prompt in self.prompts) / len(self.prompts)
        return round(mean + self.window / 2)

    def cost(self, name: str) -> Cost:
        """The three c's of a draft; the cache at mean_context in bfloat16, in draft and target alike."""
        draft = self.draft(name)
        cache = self.model.cache_bytes(self.mean_context, CACHE_BYTES)
        return costs(draft.bytes_per_pass, pass_bytes(self.model), draft.nominal_bits, cache, cache)

    def identity(self, **more: object) -> dict:
        """What every key of this setting hashes, and `more`."""
        return {
            "weights": self.weights_hash,
            "prompts": self.prompts_hash,
            "dtype": "float32",
            "torch": torch.__version__,
            **more,
        }

    def texts(self, temperature: float) -> Texts:
        """window + most_gamma + 1 tokens behind every prompt, for every seed (one at temperature 0)."""
        if temperature not in self._texts:
            while len(self._texts) >= self.texts_kept:
                del self._texts[next(iter(self._texts))]
            self._texts[temperature] = self._draw(temperature)
        return self._texts[temperature]

    def _draw(self, temperature: float) -> Texts:
        self.progress(f"drawing text at T = {temperature:g}")
        seeds = self.seeds if temperature else self.seeds[:1]
        draw = self._draw_by_prompt if self.by_prompt else self._draw_together
        tokens, laws = draw(self.window + self.most_gamma + 1, Sampling(temperature), seeds)
        return Texts(tokens, laws, torch.arange(len(self.prompts)).repeat_interleave(len(seeds)))

    def _draw_together(self, length: int, sampling: Sampling, seeds: tuple[int, ...]):
        rows = [(prompt, seed) for prompt in self.prompts for seed in seeds]
        chances = [SeededChance(seed, prompt.id) for prompt, seed in rows]
        return generate_batch(self.model, [p.tokens for p, _ in rows], length, sampling, chances)

    def _draw_by_prompt(self, length: int, sampling: Sampling, seeds: tuple[int, ...]):
        parts = [
            draw_many(
                self.model, prompt.tokens, length, sampling, [SeededChance(s, prompt.id) for s in seeds]
            )
            for prompt in self.prompts
        ]  # fmt: skip
        return (torch.cat(part) for part in zip(*parts))

    @torch.inference_mode()
    def score(self, model: Transformer, texts: Texts, temperature: float) -> Tensor:
        """The laws (N, L, V) `model` would have drawn the texts' tokens from: one pass over each text."""
        score = self._score_by_prompt if self.by_prompt else self._score_together
        return score(model, texts, Sampling(temperature))

    def _score_by_prompt(self, model: Transformer, texts: Texts, sampling: Sampling) -> Tensor:
        laws = torch.empty_like(texts.laws)
        for i in texts.owner.unique().tolist():
            mine = texts.owner == i
            laws[mine] = laws_of_many(model, self.prompts[i].tokens, texts.tokens[mine], sampling)
        return laws

    def _score_together(self, model: Transformer, texts: Texts, sampling: Sampling) -> Tensor:
        """Rows of similar length share a batch; what pads a shorter one stands behind it and is seen by nobody."""
        N, L = texts.tokens.shape
        prompts = [self.prompts[i].tokens for i in texts.owner.tolist()]
        order = sorted(range(N), key=lambda row: len(prompts[row]))
        laws = torch.empty_like(texts.laws)
        for start in range(0, N, BATCH):
            rows = order[start : start + BATCH]
            longest = max(len(prompts[row]) for row in rows) + L - 1
            batch = torch.zeros(len(rows), longest, dtype=torch.long)
            for i, row in enumerate(rows):
                whole = torch.cat((torch.tensor(prompts[row]), texts.tokens[row, :-1]))
                batch[i, : len(whole)] = whole
            logits = model(batch)[0]  # (rows, longest, V)
            for i, row in enumerate(rows):
                first = len(prompts[row]) - 1  # logits there are of the text's first token
                laws[row] = sampling.probs(logits[i, first : first + L])
        return laws
