"""Accounting in `selfdraft exact`: what every Round and every text says of itself, held against tables, limits and passes made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from experiments.exact.check import ROUNDING, Check, Reading, near_and_far, steps, texts
from experiments.exact.enumeration import COOL, PROMPT, STOPS, target_of
from experiments.exact.metered import Metered
from micro.sampling import Sampling
from specdec.accept import RULES, chance_for
from specdec.drafts.base import Draft
from specdec.drafts.confidence import LeastProbability
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TreeDraft
from specdec.record import Round, Totals, speed_up
from specdec.table import TableModel, table_law


def accounts(
    target: TableModel,
    draft_of: Callable[[], Draft],
    gamma: int,
    count: int,
    *,
    rule: str = "token",
    sampling: Sampling = COOL,
    stops: Sequence[Sequence[int]] = (),
    seeds: int = 12,
) -> Reading:
    """Statements of rounds and texts that are false, over some sampled texts, each with a draft of its own."""
    wrong = 0
    for seed in range(seeds):
        draft = draft_of()
        model = draft.model if isinstance(draft, ModelDraft) else None
        if model is not None:
            draft.model = Metered(model)
        text, done, ended = list(PROMPT), [], ""
        for one, state in steps(target, draft, PROMPT, count, gamma, sampling=sampling, rule=rule,
                                chance=chance_for(rule, seed), stop=stops):  # fmt: skip
            room = min(count + len(PROMPT), target.context) - len(text)
            wrong += _false_of_round(
                one, text, room, gamma, target, model, sampling, bool(state.ended)
            )
            text += one.emitted
            wrong += state.tokens != text
            done.append(one)
            ended = state.ended
        wrong += _false_of_text(text, done, ended, target, count, stops)
        if model is not None:
            passes = draft.model.passes
            wrong += passes != sum(r.draft_passes for r in done)
            if draft.stop is None:
                wrong += passes != sum(r.proposed for r in done)
    return Reading(wrong, 0, "one false statement")


def _false_of_round(
    one: Round, text: list[int], room: int, gamma: int, target, model, sampling, last: bool
) -> int:
    """False statements of a round behind `text` with `room` for tokens. model: the draft's table, None where it has none."""
    path = [one.drafted[node] for node in one.kept]
    tail = list(one.emitted[len(path) :])
    is_full = one.checked == one.proposed == one.accepted
    statements = [
        0 < len(one.emitted) <= room,
        one.proposed <= min(gamma, room),
        one.rows == one.proposed + 1,
        one.accepted <= one.checked <= one.proposed == len(one.p) == len(one.q),
        list(one.emitted[: len(path)]) == path,
        len(tail) == (one.final != ""),
        one.thrown_away == one.proposed - one.checked,
        one.final != "correction" or one.checked > one.accepted,
        one.final != "bonus" or (one.accepted < room and (is_full or one.proposed > one.accepted)),
        one.final != "" or last,
        one.final == "" or abs(one.final_p - _p(target, [*text, *path], tail, sampling)) < ROUNDING,
        all(0 <= p <= 1 and 0 < q <= 1 for p, q in zip(one.p, one.q)),
    ]
    if model is not None:  # a chain, whose laws both tables tell
        before = [[*text, *one.drafted[:i]] for i in range(one.proposed)]
        for table, told in ((target, one.p), (model, one.q)):
            statements += [
                abs(told[i] - _p(table, before[i], [token], sampling)) < ROUNDING
                for i, token in enumerate(one.drafted)
            ]
    return statements.count(False)


def _p(target: TableModel, text: list[int], token: list[int], sampling: Sampling) -> float:
    return float(table_law(target, text, sampling)[token[0]])


def _false_of_text(text, rounds, ended, target, count, stops) -> int:
    """False statements of a finished text: where it ended, why, and its totals."""
    new = text[len(PROMPT) :]
    ends = [
        end
        for end in range(1, len(new) + 1)
        if any(len(s) <= end and tuple(new[end - len(s) : end]) == tuple(s) for s in stops)
    ]
    wanted = "stop" if ends else "length" if len(new) == count else "context"
    full = wanted == "stop" or len(new) == min(count, target.context - len(PROMPT))
    totals = Totals.of(rounds)
    statements = [
        ended == wanted,
        ends in ([], [len(new)]),
        full,
        totals.rounds == len(rounds),
        totals.emitted == len(new),
        totals.accepted == sum(len(r.kept) for r in rounds),
        totals.checked == sum(r.checked for r in rounds),
        totals.proposed == totals.checked + totals.thrown_away == sum(len(r.drafted) for r in rounds),
        totals.full_rounds == sum(len(r.kept) == len(r.drafted) for r in rounds),
        totals.draft_passes == sum(r.draft_passes for r in rounds),
        Totals.of(rounds[:1]) + Totals.of(rounds[1:]) == totals,
        totals.alpha == (totals.accepted / totals.checked if totals.checked else None),
        totals.accepted_per_drafted == (totals.accepted / totals.proposed if totals.proposed else None),
        totals.acceptance_length == 1 + totals.accepted / len(rounds),
        totals.full_share == totals.full_rounds / len(rounds),
        speed_up(rounds, 0.25, lambda rows: 1.0) == totals.estimated_speed_up(0.25),
        totals.tokens_per_pass == len(new) / len(rounds),
        totals.estimated_speed_up(0.25) == len(new) / (len(rounds) + 0.25 * totals.draft_passes),
    ]  # fmt: skip
    return statements.count(False)


def chain_rounds(target: TableModel, model: TableModel, gamma: int, rule: str) -> Reading:
    """False statements that hold for chains alone: what was proposed, what a refusal and a full round leave."""
    wrong = 0
    for seed in range(12):
        room = 17
        for one in texts(target, ModelDraft(model, 1), PROMPT, room, gamma, COOL,
                         chance_for(rule, seed), rule=rule).rounds:  # fmt: skip
            fits = min(gamma, room)
            full = one.accepted == fits
            wrong += one.proposed != fits
            wrong += one.draft_passes != fits
            wrong += one.kept != tuple(range(one.accepted))
            wrong += one.final != (("bonus" if fits < room else "") if full else "correction")
            wrong += one.checked != (fits if full else one.accepted + 1)
            room -= len(one.emitted)
    return Reading(wrong, 0, "one false statement")


def account_checks(target: TableModel) -> Iterator[Check]:
    cut = {"token": {}, "stop": {"stops": ((2, 1), (0, 0))}, "limit": {}}
    for name, model in near_and_far(target).items():
        of = partial(ModelDraft, model, 1)
        for family, more in cut.items():
            count, gamma = (5, 6) if family == "limit" else (17, 3)
            yield Check(f"accounts, {family}", partial(accounts, target, of, gamma, count, **more),
                        name, family, "probe")  # fmt: skip
        for rule in RULES:
            yield Check(f"{rule}, every round of a chain",
                        partial(chain_rounds, target, model, 3, rule), name, rule, "probe")  # fmt: skip
            for what, stops in STOPS.items():
                yield Check(f"{rule}, accounts, stop: {what}",
                            partial(accounts, target, of, 5, 17, rule=rule, stops=stops, seeds=8),
                            name, "stop")  # fmt: skip
        short = target_of(3, 5, context=9)
        at_end = partial(ModelDraft, near_and_far(short)[name], 1)
        yield Check("accounts up to the context's end", partial(accounts, short, at_end, 4, 50),
                    name, "limit")  # fmt: skip
        tree = partial(TreeDraft, model, (-1, -1, 0, 1, 1, 3), "without")
        yield Check("accounts of trees", partial(accounts, target, tree, 6, 17), name, "tree",
                    "probe")  # fmt: skip
        stopping = partial(ModelDraft, model, 1, LeastProbability(0.4))
        yield Check("accounts of a draft that stops", partial(accounts, target, stopping, 4, 17),
                    name)  # fmt: skip
    script = partial(ScriptedDraft, [0, 1, 2] * 4)
    yield Check("accounts of point masses", partial(accounts, target, script, 3, 17))
