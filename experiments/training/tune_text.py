"""The texts a draft is tuned on: what people wrote, and what the target writes behind openings of it, made once and kept.

Openings are windows of equal length, evenly spaced over a split's documents. The training split gives what is learned from, the
validation split (of a reader's own text: the held-out part) what the best step is chosen by. The course's held-out plates
are not read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.store import key_of
from micro.files import FileFault
from micro.model import Transformer
from micro.tensors import load_tensors, save_tensors
from micro.text import Corpus, as_tokens
from specdec.distilling import OwnText, write_own_text


@dataclass(frozen=True)
class TextPlan:
    """How much the target writes: texts of each split, tokens of an opening and of a whole row, and the seed."""

    own_texts: int = 256
    validation_texts: int = 64
    opening: int = 64
    block: int = 256
    seed: int = 1


def openings(tokens: Tensor, count: int, length: int) -> list[list[int]]:
    """`count` windows of `length`, from the first to the last. Raises ValueError where the text is shorter than one."""
    if len(tokens) < length:
        raise ValueError(f"{len(tokens)} bytes of text, {length} needed for an opening")
    starts = torch.linspace(0, len(tokens) - length, count).long().tolist()
    return [tokens[start : start + length].tolist() for start in starts]


def chosen_by(corpus: Corpus) -> str | None:
    """The split that chooses the best step; None where nothing is held out."""
    return next((s for s in ("validation", "held-out") if corpus.split(s)), None)


def own_texts(
    target: Transformer, fingerprint: str, corpus: Corpus, plan: TextPlan, folder: Path, say
) -> tuple[OwnText | None, list[OwnText]]:
    """What the target wrote behind training text, and behind validation text. Read from `folder` where it was written before.

    say: told before the minute that writing takes. Raises FileFault where the file does not hold what its name says.
    """
    key = key_of("own text", {"target": fingerprint, "text": corpus.sha256(), **asdict(plan)})
    path = folder / f"own-text-{key}.safetensors"
    wanted = {"own": ("train", plan.own_texts)}
    if split := chosen_by(corpus):
        wanted["validation"] = (split, plan.validation_texts)
    wanted = {name: asked for name, asked in wanted.items() if asked[1]}
    if not path.exists():
        say(f"the target writes {sum(n for _, n in wanted.values())} texts of {plan.block} bytes")
        made = {}
        for name, (split, count) in wanted.items():
            given = openings(as_tokens(corpus.joined(split)), count, plan.opening)
            made[name] = write_own_text(target, given, plan.block, plan.seed, name).tokens
        save_tensors(path, made, {"format": "pt"})
    found = load_tensors(path)
    for name, (_, count) in wanted.items():
        if name not in found or found[name].shape != (count, plan.block):
            raise FileFault(f"{path} does not hold {count} texts {name!r}; delete it")
    texts = {name: OwnText(tokens, plan.opening) for name, tokens in found.items()}
    return texts.get("own"), [texts["validation"]] if "validation" in texts else []
