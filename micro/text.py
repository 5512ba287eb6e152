"""Files -> bytes -> documents -> train, validation and held-out text -> batches.

A byte is a token: what is on disk is what is trained on, with no decoding in between. Documents are split whole. A batch
is a pure function of (seed, step), so a resumed run draws what an undisturbed one would.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from micro.chance import generator_for
from micro.files import FileFault, read_bytes

SEPARATOR = b"\n"  # stands between joined documents
SPLITS = ("train", "validation", "held-out")


@dataclass(frozen=True)
class Document:
    """One file: its name, its bytes, and what it is for."""

    name: str
    data: bytes
    split: str = "train"


@dataclass(frozen=True)
class Corpus:
    """Documents by split; `where` names the source in errors."""

    documents: tuple[Document, ...]
    where: str = field(default="text", compare=False)

    def split(self, name: str) -> list[Document]:
        return [document for document in self.documents if document.split == name]

    def joined(self, name: str) -> bytes:
        """The split's documents with SEPARATOR between them."""
        return SEPARATOR.join(document.data for document in self.split(name))

    def thinned(self, share: float) -> Corpus:
        """The same text with about `share` of its training documents, taken evenly from first to last; the rest as it is.

        Raises ValueError where that leaves no training document.
        """
        number, kept = 0, []
        for document in self.documents:
            if document.split == "train":
                number += 1
                if math.floor(number * share) == math.floor((number - 1) * share):
                    continue
            kept.append(document)
        if not any(document.split == "train" for document in kept):
            raise ValueError(f"a share of {share:g} leaves none of {number} training documents")
        return Corpus(tuple(kept), self.where)

    def sha256(self) -> str:
        """Hash over names, splits and bytes: changes with any of them."""
        digest = hashlib.sha256()
        for document in self.documents:
            head = json.dumps([document.name, document.split, len(document.data)])
            digest.update(head.encode() + document.data)
        return digest.hexdigest()


def read_course(data: Path) -> Corpus:
    """The course: data/course as data/plates.jsonl divides it. Raises FileFault naming the file."""
    data = Path(data)
    documents = []
    for number, line in enumerate(read_bytes(data / "plates.jsonl").split(b"\n"), 1):
        if line:
            where = f"{data / 'plates.jsonl'} line {number}"
            try:
                row = json.loads(line)
                name, split = str(row["file"]), row["split"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FileFault(f"{where}: {error!r}") from error
            if split not in SPLITS:
                raise FileFault(f"{where}: split {split!r} is none of {', '.join(SPLITS)}")
            documents.append(Document(name, read_bytes(data / "course" / name), split))
    return Corpus(tuple(documents), str(data / "course"))


def read_texts(paths: Iterable[Path], block: int) -> Corpus:
    """Anyone's files and folders (read in sorted order, hidden files passed over).

    From ten documents on, every tenth is held out whole; below that, the last tenth of the joined text is, or nothing
    where that would leave too little to train on. Raises FileFault: missing, empty, or under `block` + 1 bytes to train on.
    """
    paths = [Path(path) for path in paths]
    documents = [Document(str(f), read_bytes(f)) for path in paths for f in _files(path)]
    where = ", ".join(map(str, paths))
    if len(documents) >= 10:
        splits = ["held-out" if i % 10 == 9 else "train" for i in range(len(documents))]
        documents = [Document(d.name, d.data, split) for d, split in zip(documents, splits)]
    else:
        documents = _cut_tail(SEPARATOR.join(d.data for d in documents), where, block)
    corpus = Corpus(tuple(documents), where)
    found = len(corpus.joined("train"))
    if found < block + 1:
        raise FileFault(
            f"{where}: {found} bytes to train on, at least {block + 1} needed (context {block} + 1); "
            f"give more text or a smaller --context"
        )
    return corpus


def _cut_tail(whole: bytes, where: str, block: int) -> list[Document]:
    tail = len(whole) // 10
    if tail < 2 or len(whole) - tail < block + 1:
        return [Document(where, whole)]
    return [
        Document(where, whole[:-tail]),
        Document(f"{where} (last tenth)", whole[-tail:], "held-out"),
    ]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file())
    visible = [f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts)]
    if not visible:
        raise FileFault(f"{path} is a folder without files")
    return visible


def as_tokens(data: bytes) -> Tensor:
    """(len(data),) int64: byte for byte."""
    return (
        torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
        if data
        else torch.zeros(0).long()
    )


def draw_batch(
    tokens: Tensor, rows: int, block: int, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """Inputs and targets (rows, block) at random places; the last window, ending on the last byte, is among them.

    Raises ValueError where the text is shorter than block + 1.
    """
    if len(tokens) < block + 1:
        raise ValueError(f"{len(tokens)} bytes of text, {block + 1} needed")
    starts = generator_for(seed, "batch", step).integers(0, len(tokens) - block, size=rows)
    windows = torch.stack([tokens[start : start + block + 1] for start in starts.tolist()])
    return windows[:, :-1], windows[:, 1:]


def scoring_windows(length: int, context: int, stride: int) -> list[tuple[int, int, int]]:
    """(start, end, first scored) windows that score bytes 1 ... length - 1 of a document once each.

    After the first window every byte sees at least context - stride bytes before it. Raises ValueError unless
    0 < stride < context: a longer stride would pass bytes over.
    """
    if not 0 < stride < context:
        raise ValueError(f"stride must lie between 0 and the context of {context}, not {stride}")
    windows, done = [], 1
    while done < length:
        end = min(length, done + stride if windows else context)
        windows.append((max(0, end - context), end, done))
        done = end
    return windows


def tile(documents: Sequence[Document], context: int, stride: int) -> tuple[Tensor, Tensor, Tensor]:
    """Documents cut for scoring: inputs, targets and a mask of what counts, (N, context - 1) each.

    A byte counts once; the first of a document, which nothing precedes, never.
    """
    inputs, targets, counts = [], [], []
    for document in documents:
        tokens = as_tokens(document.data)
        for start, end, first in scoring_windows(len(tokens), context, stride):
            window = torch.zeros(context, dtype=torch.long)
            window[: end - start] = tokens[start:end]
            index = torch.arange(start + 1, start + context)
            inputs.append(window[:-1])
            targets.append(window[1:])
            counts.append((index >= first) & (index < end))
    return torch.stack(inputs), torch.stack(targets), torch.stack(counts)
