"""The loop: the draft proposes, one target pass checks, the rule keeps the law. It names no draft.

After every round the target's cache holds exactly tokens[:-1], and a draft's cache a prefix of it: the last token of
the text is the root that the next pass feeds first, so a fully accepted round is no special case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from micro.chance import Chance
from micro.generate import check_request
from micro.sampling import Sampling
from specdec.accept import check_chance, verify
from specdec.drafts.base import Draft
from specdec.model import Model
from specdec.proposal import Proposal, Step, Verdict
from specdec.record import Generation, Round

Stop = int | bytes | Sequence[int]


@dataclass
class Decoding:
    """A text under way. `tokens`, `cache` and `last_logits` (rows, V) of the last target pass, the root's row first, may be
    read between rounds; `ended` is "" until it has."""

    target: Model
    tokens: list[int]
    start: int
    limit: int
    stops: tuple[tuple[int, ...], ...]
    cache: object
    ended: str = ""
    last_logits: Tensor | None = None

    @property
    def room(self) -> int:
        """Tokens that may still be emitted."""
        return min(
            self.limit - (len(self.tokens) - self.start), self.target.context - len(self.tokens)
        )

    def cut(self, emitted: list[int]) -> list[int]:
        """`emitted` up to and including the first stop it completes; a stop may have begun in an earlier round."""
        output = self.tokens[self.start :] + emitted
        before = len(output) - len(emitted)
        for end in range(before + 1, len(output) + 1):
            if any(len(s) <= end and tuple(output[end - len(s) : end]) == s for s in self.stops):
                self.ended = "stop"
                return emitted[: end - before]
        return emitted


def begin(
    target: Model,
    prompt: Sequence[int],
    max_new_tokens: int,
    stop: Sequence[Stop] = (),
    lanes: int = 0,
) -> Decoding:
    """Check the request and prefill prompt[:-1], which is no round. Raises ValueError on a request that cannot be met."""
    check_request(prompt, max_new_tokens, target.context, target.vocab)
    stops = _as_tokens(stop)
    cache = target.new_cache(1, lanes)
    if len(prompt) > 1:
        target.forward(torch.tensor([list(prompt[:-1])]), cache)
    return Decoding(target, list(prompt), len(prompt), max_new_tokens, stops, cache)


def _as_tokens(stop: Sequence[Stop]) -> tuple[tuple[int, ...], ...]:
    """Each stop as a run of tokens. Raises ValueError on text, which has no one encoding here, and on nothing."""
    if isinstance(stop, str) or any(isinstance(s, str) for s in stop):
        raise ValueError("stop must hold tokens or byte strings, not text: encode it")
    stops = tuple((s,) if isinstance(s, int) else tuple(s) for s in stop)
    if not all(stops):
        raise ValueError("stop holds an empty string")
    return stops


@torch.inference_mode()
def one_round(
    state: Decoding,
    draft: Draft,
    gamma: int,
    sampling: Sampling,
    chance: Chance,
    rule: str = "token",
) -> Round:
    """Draft, check, roll back; advances `state`."""
    room, position = state.room, len(state.tokens)
    proposal = draft.propose(min(gamma, room), sampling, chance)
    if proposal.rows - 1 > min(gamma, room):  # would fill the context or the limit unseen
        raise ValueError(
            f"the draft proposed {proposal.rows - 1} tokens where {min(gamma, room)} were asked for"
        )
    logits, hidden = _target_pass(state, proposal)
    state.last_logits = logits
    p = sampling.probs(logits[: len(proposal.tokens) + 1])  # a window's rows are nobody's laws
    verdict = verify(proposal, p, chance, position, room, rule)
    accepted = [proposal.tokens[node] for node in verdict.kept]
    emitted = state.cut(accepted + ([] if verdict.token is None else [verdict.token]))
    kept = verdict.kept[: len(emitted)]
    state.cache.gather(position - 1, [0, *(node + 1 for node in kept)][: len(emitted)])
    state.tokens += emitted
    if not state.ended and state.room == 0:
        state.ended = "length" if len(state.tokens) - state.start == state.limit else "context"
    draft.commit(Step(state.tokens, kept, tuple(emitted), logits, hidden, state.cache))
    return _round(proposal, verdict, kept, emitted, p, draft.bytes_per_pass)


def _target_pass(state: Decoding, proposal: Proposal) -> tuple[Tensor, Tensor]:
    """Logits (rows, V) and states (rows, D): the root's row first, a window's last."""
    window = proposal.window
    beside, depths = (window.tokens, window.depths) if window else ((), ())
    tokens = torch.tensor([[state.tokens[-1], *proposal.tokens, *beside]])
    if proposal.is_chain and not window:
        logits, hidden = state.target.forward(tokens, state.cache)
    else:
        positions = torch.tensor([0, *proposal.depths(), *depths]) + (len(state.tokens) - 1)
        logits, hidden = state.target.forward(tokens, state.cache, positions, proposal.visible())
    return logits[0], hidden[0]


def _round(
    proposal: Proposal, verdict: Verdict, kept, emitted: list[int], p: Tensor, bytes_per_pass: int
) -> Round:
    """The record, with what lies behind a stop counted as thrown away."""
    read = proposal.bytes_read
    is_cut = len(emitted) < len(verdict.kept) + (verdict.token is not None)
    final = "" if is_cut or verdict.token is None else "correction" if verdict.rejected else "bonus"
    nodes = range(len(proposal.tokens))
    rows = (
        p[[parent + 1 for parent in proposal.parent], list(proposal.tokens)] if nodes else p[:0, 0]
    )
    after = verdict.kept[-1] + 1 if verdict.kept else 0
    return Round(
        emitted=tuple(emitted),
        drafted=proposal.tokens,
        kept=kept,
        checked=_judged(proposal, kept) if is_cut else verdict.checked,
        final=final,
        draft_passes=proposal.passes,
        draft_bytes=proposal.passes * bytes_per_pass if read is None else read,
        rows=proposal.rows,
        p=tuple(rows.tolist()),
        q=tuple(
            1.0 if law is None else float(law[token])
            for token, law in zip(proposal.tokens, proposal.laws)
        ),
        final_p=float(p[after, verdict.token]) if final else None,
    )


def _judged(proposal: Proposal, kept: tuple[int, ...]) -> int:
    """Nodes judged on the way down an accepted path: each kept one and its refused elder siblings."""
    return sum(proposal.children(proposal.parent[node]).index(node) + 1 for node in kept)


def rounds(
    target: Model,
    draft: Draft,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    gamma: int,
    sampling: Sampling,
    chance: Chance,
    stop: Sequence[Stop] = (),
    lanes: int = 0,
    rule: str = "token",
) -> Iterator[tuple[Round, Decoding]]:
    """generate(), round by round: for streaming, tracing and comparing. Arguments and errors as there."""
    if gamma < 1:
        raise ValueError(f"gamma must be 1 or above, not {gamma}")
    check_chance(rule, chance)
    if lanes and gamma + 1 > lanes:
        raise ValueError(f"gamma {gamma} needs {gamma + 1} lanes, there are {lanes}")
    with torch.inference_mode():
        state = begin(target, prompt, max_new_tokens, stop, lanes)
        draft.start(list(prompt), target)
    while not state.ended:
        yield one_round(state, draft, gamma, sampling, chance, rule), state


def generate(target: Model, draft: Draft, prompt: Sequence[int], **options) -> Generation:
    """Speculative text from `prompt`, distributed exactly as the target's own.

    Args:
        target, draft: a Model, and what proposes for it.
        prompt: at least one token, shorter than the context.
        max_new_tokens: the limit; the context is another.
        gamma: tokens a draft may propose a round, 1 or above; fewer near a limit.
        sampling: temperature, top-k, top-p, of target and draft alike.
        chance: all randomness of the text.
        stop: tokens or byte strings that end the text; the first one met is its last part.
        lanes: rows every target pass is padded to, at least gamma + 1; 0: none.
        rule: a name in specdec.accept.RULES.

    Raises: ValueError naming the argument.
    """
    steps = list(rounds(target, draft, prompt, **options))  # at least one
    _, state = steps[-1]
    done = tuple(one for one, _ in steps)
    return Generation(tuple(state.tokens[state.start :]), done, state.ended)
