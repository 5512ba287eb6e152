"""Acceptance by depth and rank that was measured for a draft and ships: what `tree:best,N:INNER` plans its trees by.

trained/trees/INNER.json beside this file holds the fingerprint of the target it was measured on, how children were drawn, and for
each temperature a(depth, rank) as specdec/trees.py has it. `selfdraft run trees --write` measures and writes it. A wrong table
would make a worse tree and no wrong text; still another target's is refused, since the best would not be the best.
"""

from __future__ import annotations

from pathlib import Path

from micro.files import FileFault, read_json, write_json
from micro.model import Transformer
from quant.bytes import pass_bytes
from specdec.drafts.shipped import TRAINED, check_target, fingerprint
from specdec.trees import Acceptance, Shape, best_plan

FOLDER = TRAINED / "trees"


def write_measured(
    draft: str, target: Transformer, how: str, found: dict[float, Acceptance]
) -> Path:
    """Write a draft's table. Raises FileFault naming a file that cannot be written."""
    path = FOLDER / f"{draft}.json"
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = {f"{t:g}": [[round(a, 4) for a in row] for row in rows] for t, rows in found.items()}
    write_json(path, {"target": fingerprint(target), "how": how, "temperatures": rows})
    return path


def read_measured(draft: str, target: Transformer) -> tuple[str, dict[float, Acceptance]]:
    """(how, temperature -> acceptance). Raises ValueError where none was measured for the draft, FileFault where it does not fit."""
    there = sorted(path.stem for path in FOLDER.glob("*.json"))
    if draft not in there:
        raise ValueError(
            f"no acceptance by rank and depth was measured for {draft!r} ({', '.join(there) or 'none'} there is): "
            f"give a shape, as in tree:without,2x2x1:{draft}"
        )
    path = FOLDER / f"{draft}.json"
    raw = read_json(path)
    try:
        made_for, how = raw["target"], raw["how"]
        found = {float(t): rows for t, rows in raw["temperatures"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFault(f"{path} is no table of acceptance: {error}") from error
    how_to = f"give a shape, as in tree:without,2x2x1:{draft}, or measure by `selfdraft run trees --model DIR --write`"
    check_target(f"{path} was measured", made_for, target, how_to)
    return how, found


def measured_shapes(
    target: Transformer, draft: str, nodes: int, bytes_per_pass: int
) -> tuple[str, dict[float, Shape]]:
    """(how, temperature -> the tree of at most `nodes` nodes that promises the largest speed-up by bytes, no deeper than was measured). Raises as above."""
    how, found = read_measured(draft, target)
    c = bytes_per_pass / pass_bytes(target)
    return how, {t: best_plan(a, nodes + 1, len(a), c).shape for t, a in found.items()}
