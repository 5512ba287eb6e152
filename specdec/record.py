"""What happened in each round, and every rate, derived in one place.

Counts are stored, rates derived; totals over totals, never a mean of means. Names in use elsewhere, for the same rounds:

    alpha (here)              accepted / checked: of the tokens that were judged, the share kept. Leviathan's estimate of E[beta].
    accepted / drafted        accepted / proposed: lower, since tokens behind a rejection count against it. vLLM's "draft
                              acceptance rate", llama.cpp's "accept".
    acceptance length         1 + accepted / rounds: EAGLE's and Spec-Bench's tau ("mean accepted tokens", "mean acceptance
                              length"). Differs from tokens per pass where a limit or a stop leaves a round without its bonus.
    per position              accepted at place i / rounds that proposed a token there (vLLM's per-position rate); conditional:
                              / rounds whose earlier places were all accepted.
    overlap beta              sum of min(p, q) at a position: needs both laws, not a coin; specdec/replay.py reports its mean.
    tokens per pass           emitted / rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields


@dataclass(frozen=True)
class Round:
    """One draft phase and one target pass.

    `emitted` are the tokens that reached the output, after any cut; `drafted` all that were proposed; `kept` the accepted
    nodes among them (after the cut). `final`: "correction", "bonus", or "" where a limit or a stop left neither. `p`, `q`: both laws'
    probability of each drafted token (q 1 for a point mass). `draft_bytes`: weight bytes that the draft's passes read, of all its
    models. `rows`: real rows of the target pass.
    """

    emitted: tuple[int, ...]
    drafted: tuple[int, ...]
    kept: tuple[int, ...]
    checked: int
    final: str
    draft_passes: int
    rows: int
    p: tuple[float, ...] = ()
    q: tuple[float, ...] = ()
    final_p: float | None = None
    draft_bytes: int = 0

    @property
    def proposed(self) -> int:
        return len(self.drafted)

    @property
    def accepted(self) -> int:
        return len(self.kept)

    @property
    def thrown_away(self) -> int:
        return self.proposed - self.checked


@dataclass(frozen=True)
class Totals:
    """Sums over rounds. All may be fractional: replay fills them with expectations."""

    rounds: float = 0
    proposed: float = 0
    checked: float = 0
    accepted: float = 0
    emitted: float = 0
    draft_passes: float = 0
    full_rounds: float = 0
    draft_bytes: float = 0
    rows: float = 0

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> Totals:
        rounds = list(rounds)
        return cls(
            rounds=len(rounds),
            proposed=sum(r.proposed for r in rounds),
            checked=sum(r.checked for r in rounds),
            accepted=sum(r.accepted for r in rounds),
            emitted=sum(len(r.emitted) for r in rounds),
            draft_passes=sum(r.draft_passes for r in rounds),
            full_rounds=sum(r.accepted == r.proposed for r in rounds),
            draft_bytes=sum(r.draft_bytes for r in rounds),
            rows=sum(r.rows for r in rounds),
        )

    def __add__(self, other: Totals) -> Totals:
        pairs = ((f.name, getattr(self, f.name) + getattr(other, f.name)) for f in fields(self))
        return Totals(**dict(pairs))

    @property
    def thrown_away(self) -> float:
        return self.proposed - self.checked

    @property
    def alpha(self) -> float | None:
        """accepted / checked, None where nothing was judged."""
        return self.accepted / self.checked if self.checked else None

    @property
    def accepted_per_drafted(self) -> float | None:
        return self.accepted / self.proposed if self.proposed else None

    @property
    def tokens_per_pass(self) -> float | None:
        return self.emitted / self.rounds if self.rounds else None

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / rounds, as other tools count it."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def full_share(self) -> float | None:
        """M: share of rounds whose every drafted token was accepted."""
        return self.full_rounds / self.rounds if self.rounds else None

    def estimated_speed_up(self, c: float, w: float = 1.0, overhead: float = 0.0) -> float | None:
        """Emitted tokens over what they cost in one-row target passes.

        c: cost of a draft pass; w: of a verifying pass (1: reading the weights is all); overhead: o, of a round.
        """
        cost = self.rounds * (w + overhead) + c * self.draft_passes
        return self.emitted / cost if cost else None

    def speed_up_by_bytes(self, target_bytes: int) -> float | None:
        """Emitted tokens over weight bytes read, in target passes of `target_bytes`: the estimate where a draft's passes differ."""
        cost = self.rounds + self.draft_bytes / target_bytes
        return self.emitted / cost if cost else None

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def speed_up(
    rounds: Iterable[Round], c: float, w: Callable[[int], float], overhead: float = 0.0
) -> float | None:
    """Totals.estimated_speed_up with a pass cost w(rows) for each round's own rows."""
    rounds = list(rounds)
    cost = sum(w(r.rows) + overhead + c * r.draft_passes for r in rounds)
    return sum(len(r.emitted) for r in rounds) / cost if cost else None


def per_position(rounds: Iterable[Round], conditional: bool) -> list[float | None]:
    """Acceptance at places 1, 2, ... of a chain: accepted there / proposed there, or / all before accepted."""
    rounds = list(rounds)
    rates: list[float | None] = []
    for place in range(max((r.proposed for r in rounds), default=0)):
        tried = [
            r for r in rounds if r.proposed > place and (not conditional or r.accepted >= place)
        ]
        # behind a stop a token was neither accepted nor rejected
        tried = [r for r in tried if not conditional or r.checked > place]
        kept = sum(r.accepted > place for r in tried)
        rates.append(kept / len(tried) if tried else None)
    return rates


@dataclass(frozen=True)
class Generation:
    """A finished text: new tokens (with the stop, if one was met), the rounds behind them, and why it ended:
    "length", "context" or "stop"."""

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...] = field(repr=False)
    ended: str

    @property
    def totals(self) -> Totals:
        return Totals.of(self.rounds)
