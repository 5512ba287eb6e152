"""What was trained or measured for one target: where it ships, and that it is not taken for another's.

Beside other weights a draft would still be exact and accepted seldom, so it is refused.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from micro.files import FileFault, read_json
from micro.model import Transformer

TRAINED = Path(__file__).parent / "trained"


def fingerprint(model: Transformer) -> str:
    """16 hex digits over all of a model's tensors, names and bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.float().numpy().tobytes())
    return digest.hexdigest()[:16]


def check_target(what: str, found: object, target: Transformer, how: str) -> None:
    """Raises FileFault where the target on record, `found`, is not this one. what: whose record, as in `DIR was trained`; how: what to do."""
    own = fingerprint(target)
    if found != own:
        raise FileFault(f"{what} for the target {found}, this is {own}: {how}")


def check_trained(folder: Path, target: Transformer, how: str) -> None:
    """check_target of the folder's training.json; how: the command that makes a draft."""
    found = read_json(folder / "training.json").get("target")
    check_target(f"{folder} was trained", found, target, f"make a draft of its own by {how}")
