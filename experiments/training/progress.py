"""How a training run shows itself on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

from micro.train import Event

EVERY = 15.0  # seconds between plain lines


class TrainingProgress:
    """Told of every step. Output that cannot be written is given up: it never ends a run."""

    def __init__(self, steps: int, first: int, tokens_per_step: int) -> None:
        self.steps, self.first, self.tokens = steps, first, tokens_per_step
        self.begun = time.monotonic()
        self.said = -EVERY  # a line after the first step, so that a log shows life at once
        self.validation = ""
        self.bar = None
        if sys.stderr is not None and sys.stderr.isatty():
            self.bar = tqdm(total=steps, initial=first, desc="train", dynamic_ncols=True)

    def __call__(self, event: Event) -> None:
        if event.validation is not None:
            self.validation = f" validation {event.validation:.3f}{'*' if event.best else ''}"
        elapsed = time.monotonic() - self.begun
        speed = (event.step - self.first) * self.tokens / max(elapsed, 1e-9)
        text = f"loss {event.loss:.3f}{self.validation} rate {event.rate:.1e} {speed:,.0f} tokens/s"
        try:
            if self.bar is not None:
                self.bar.set_postfix_str(text, refresh=False)
                self.bar.update(event.step - self.bar.n)
            elif elapsed - self.said >= EVERY or event.step == self.steps:
                self.said = elapsed
                left = (self.steps - event.step) * elapsed / max(1, event.step - self.first)
                print(
                    f"step {event.step}/{self.steps} {text}, {clock(left)} left",
                    file=sys.stderr,
                    flush=True,
                )
        except (OSError, ValueError, AttributeError):
            self.bar, self.said = None, float("inf")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def clock(seconds: float) -> str:
    """74 -> '1:14'."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
