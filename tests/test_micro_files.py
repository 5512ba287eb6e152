"""What a killed writer leaves beside a file: never taken for the file, and gone with a later write."""

from __future__ import annotations

import os
import time

from micro.files import STALE, write_atomically


def test_an_old_temporary_goes_with_the_next_write_and_a_young_one_stays(tmp_path):
    """A young one may be another process's that writes at this moment."""
    path = tmp_path / "a[1].bin"
    old, young, other = (
        tmp_path / name for name in (".a[1].bin.1.tmp", ".a[1].bin.2.tmp", ".a1.bin.1.tmp")
    )
    for temporary in (old, young, other):
        temporary.write_bytes(b"half of it")
    for temporary in (old, other):
        os.utime(temporary, (time.time() - STALE - 1,) * 2)
    write_atomically(path, lambda file: file.write(b"whole"))
    assert path.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, young, other])
