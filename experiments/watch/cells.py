"""What became of each token of a round: the one place that reads fates off a Round."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.record import Round


@dataclass(frozen=True)
class Cell:
    """One token of a round, its fate (a name in experiments.drawing.palette.FATES), and both probabilities; a token of the target's own
    has no q."""

    token: int
    fate: str
    p: float | None
    q: float | None


def cells(done: Round) -> list[Cell]:
    """The drafted tokens in order with their fates, then the target's own token, if there is one.

    A drafted token is rejected where it was judged and not kept. An accepted token that is the last before a stop is kept;
    what lies behind it was never judged.
    """
    kept = set(done.kept)
    row = []
    for node, token in enumerate(done.drafted):
        judged = node < done.checked
        fate = "accepted" if node in kept else "rejected" if judged else "thrown away"
        row.append(Cell(token, fate, done.p[node], done.q[node]))
    if done.final:
        row.append(Cell(done.emitted[-1], done.final, done.final_p, None))
    return row
