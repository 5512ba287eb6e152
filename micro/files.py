"""Files that are whole or absent, and errors that name them.

`FileFault` is the one error of everything read from or written to disk: its text says which file, what is wrong and what
would be right. Writers go to a temporary neighbour, flush, and rename: a kill leaves the old file or the new one, and at
worst a hidden temporary, which a later write of the same file removes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

STALE = 600.0  # seconds without a write, after which a temporary is a killed process's


class FileFault(ValueError):
    """A file or folder the user named is not what it should be."""


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Fill `path` by `write(file)`; on any error the old content stays and the temporary goes.

    Raises FileFault naming `path` where the disk is full or the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path)
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise FileFault(f"{path} cannot be written: {reason(error)}") from error
    finally:
        temporary.unlink(missing_ok=True) if temporary.parent.is_dir() else None


def _remove_stale(path: Path) -> None:
    """What killed processes left of earlier writes of `path`."""
    for old in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        with suppress(OSError):  # another process may be removing it too
            if time.time() - old.stat().st_mtime > STALE:
                old.unlink()


def write_json(path: Path, value: object) -> None:
    """Strict JSON (no NaN), indented, with a final newline. Raises as write_atomically, ValueError on NaN."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_bytes(path: Path) -> bytes:
    """The file's bytes. Raises FileFault where it is missing, a folder or unreadable."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileFault(f"{path} cannot be read: {reason(error)}") from error


def read_json(path: Path) -> dict:
    """A JSON object. Raises FileFault naming the file."""
    try:
        value = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFault):
            raise
        raise FileFault(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FileFault(f"{path} holds a {type(value).__name__}, not a JSON object")
    return value


def reason(error: OSError) -> str:
    """What the system said, in a few words."""
    return (error.strerror or type(error).__name__).lower()
