"""One writer a folder: a lock that tells who holds it, and that even a killed process gives back.

The system keeps the lock for as long as the process lives (flock; msvcrt on Windows): the file `.lock` only tells who it is. Two
trainings in one folder would write each other's checkpoints over; records need no lock, every process has a file of its own.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from micro.files import FileFault, reason

NAME = ".lock"


@contextmanager
def held(*folders: Path) -> Iterator[None]:
    """Make the folders and hold them; one that is named twice is held once.

    Raises FileFault: another process holds one of them (naming it), or a folder cannot be made or written.
    """
    distinct = {Path(folder).resolve(): Path(folder) for folder in folders}
    with ExitStack() as stack:
        for folder in distinct.values():
            stack.enter_context(_held(folder))
        yield


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _take(path)
    except OSError as error:
        raise FileFault(f"{folder} cannot be written: {reason(error)}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: whoever opened it meanwhile finds it gone and opens anew
        os.close(lock)


def _take(path: Path) -> int:
    """The descriptor of the held file. Raises FileFault where it is another's, OSError where it cannot be made."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            os.close(file)
            raise FileFault(
                f"{path.parent} is in use by {_holder(path)}: wait for its end, or give another folder"
            ) from None
        except OSError:
            pass  # a file system without locks: two runs are not told apart there
        if _is_still(file, path):
            with suppress(
                OSError
            ):  # on a full disk the holder has no name, and is held all the same
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
                os.write(file, _myself().encode())
            return file
        os.close(file)


def _lock(file: int) -> None:
    """Without waiting. Raises BlockingIOError, PermissionError where another process holds it."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        os.lseek(file, 1 << 20, os.SEEK_SET)  # a locked byte cannot be read: not one of the text
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(file: int, path: Path) -> bool:
    """Not where the last holder removed it between our opening and our locking."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """What the lock's file tells; it may just have been taken or given back."""
    try:
        told = path.read_text(errors="replace").split()
    except OSError:
        told = []
    return " ".join(told) or "another process"


def _myself() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {platform.node() or 'this machine'}, since {since}"
