"""A file of prompts: one JSON object a line, with `id`, `kind` and `text`; further fields are passed over.

A prompt's tokens are the bytes of its text, exactly. Only a newline byte ends a line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from micro.files import FileFault, read_bytes

KINDS = ("lesson", "copy", "free")


@dataclass(frozen=True)
class Prompt:
    """One prompt: its name in records, its kind, its bytes."""

    id: str
    kind: str
    text: bytes

    @property
    def tokens(self) -> list[int]:
        return list(self.text)


def load_prompts(path: Path) -> list[Prompt]:
    """All prompts of a file, in its order. Raises FileFault naming the file and the line at fault."""
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if line.strip():
            prompt = _parse(line, f"{path} line {number}")
            if prompt.id in prompts:
                raise FileFault(f"{path} line {number}: id {prompt.id!r} was used before")
            prompts[prompt.id] = prompt
    if not prompts:
        raise FileFault(
            f'{path} holds no prompt; a line is {{"id": ..., "kind": ..., "text": ...}}'
        )
    return list(prompts.values())


def _parse(line: bytes, where: str) -> Prompt:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileFault(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise FileFault(f"{where} holds a {type(row).__name__}, not a JSON object")
    for name in ("id", "kind", "text"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise FileFault(f"{where}: {name!r} must be a text that is not empty")
    if row["kind"] not in KINDS:
        raise FileFault(f"{where}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
    try:
        return Prompt(row["id"], row["kind"], row["text"].encode())
    except UnicodeEncodeError as error:
        raise FileFault(f"{where}: 'text' holds half a surrogate pair: {error.reason}") from error
