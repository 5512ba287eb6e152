"""The same decoding by transformers, to be timed beside ours: same folder, float32, same prompts and token counts.

Plain `generate`, and assisted generation with the quantized copy's decoded weights as the assistant. Assisted generation drafts
a constant number of tokens and never stops early, as our loop does: num_assistant_tokens = gamma, schedule constant,
assistant_confidence_threshold 0. top_k is 0 and top_p 1, since transformers' own top_k of 50 would be another distribution.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def missing() -> str:
    """Why the peer cannot be timed, in one line; "" where it can."""
    if importlib.util.find_spec("transformers"):
        return ""
    return 'transformers is not installed, so only our own times are taken; it comes with: pip install -e ".[test]"'


class Peer:
    """Raises ValueError or OSError as transformers does where it cannot load the folder."""

    def __init__(self, folder: Path, draft_state: dict[str, Tensor], gamma: int) -> None:
        """draft_state: the draft's decoded weights under the target's names."""
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.version = transformers.__version__
        load = transformers.LlamaForCausalLM.from_pretrained
        self.target = load(folder, dtype=torch.float32, local_files_only=True).eval()
        self.assistant = copy.deepcopy(self.target)
        self.assistant.load_state_dict(draft_state)
        settings = self.assistant.generation_config
        settings.num_assistant_tokens = gamma
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        self.passes = {"target": 0, "draft": 0}
        self.target.register_forward_pre_hook(self._counter("target"))
        self.assistant.register_forward_pre_hook(self._counter("draft"))

    def _counter(self, name: str):
        def count(module, args) -> None:
            self.passes[name] += 1

        return count

    def generate(
        self, prompt: Sequence[int], new_tokens: int, temperature: float, seed: int, assisted: bool
    ) -> list[int]:
        """Exactly `new_tokens` tokens, in the host's memory. `passes` then tells the calls it took, prefill included."""
        import torch

        self.passes.update(target=0, draft=0)
        tokens = torch.tensor([list(prompt)])
        options = {"do_sample": False}
        if temperature:
            options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        if assisted:
            options["assistant_model"] = self.assistant
        with torch.random.fork_rng(devices=[]):  # transformers draws from the global generator
            torch.manual_seed(seed)
            text = self.target.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
                pad_token_id=0,
                **options,
            )
        return text[0, len(prompt) :].tolist()
