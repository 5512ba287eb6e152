"""What the loop asks of whatever proposes text: a Draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from micro.chance import Chance
from micro.sampling import Sampling
from specdec.model import Model
from specdec.proposal import Proposal, Step


class Draft(Protocol):
    """A proposer.

    bytes_per_pass: weight bytes one draft pass reads. extra_bytes: what it keeps in memory beside the target, weights or tables,
    its cache aside; extra_parameters: how many numbers those are. The loop reads the first, tables of costs all three.

    start: a new text begins; nothing of the last one survives. propose: at most gamma tokens, a window's included, with the
    laws they were drawn from; none where it has nothing to offer. commit: the round's outcome; roll back own state.
    """

    bytes_per_pass: int
    extra_bytes: int
    extra_parameters: int

    def start(self, prompt: Sequence[int], target: Model) -> None: ...

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal: ...

    def commit(self, step: Step) -> None: ...
