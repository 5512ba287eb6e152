"""What every tier of `selfdraft exact` is made of: a check measures one number and says how large it may be.

A check is asked twice: of the program as it is, where it must stay within its limit, and with a fault planted, where some
check must not. So each has a family (the rule or the kind of text that it exercises) by which a fault finds the checks that
could see it, and a draft: near (its laws resemble the target's), far, or any where none or several take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from experiments.exact.metered import Metered
from micro.chance import Chance, SeededChance
from micro.sampling import Sampling
from specdec import decode
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.model import Model
from specdec.record import Generation
from specdec.table import TableModel, near

# which checks are run: on every fault, in a quick clean run, in the whole one; each with those before it
LEVELS = ("probe", "quick", "whole")
DRAFTS = ("any", "near", "far")
ROUNDING = (
    1e-12  # of sums of some hundred thousand products in float64, each right to 1e-16 of its size
)


@dataclass(frozen=True)
class Reading:
    """A measured number, what it may be at most, and in words how small an error it would show."""

    evidence: float
    limit: float
    sees: str = ""


@dataclass(frozen=True)
class Check:
    """`run()` measures. family "" is of interest to every fault. level: the first of LEVELS that it belongs to."""

    name: str
    run: Callable[[], Reading]
    draft: str = "any"
    family: str = "token"
    level: str = "quick"


@dataclass(frozen=True)
class Outcome:
    """What a check found. evidence None: it broke off, `error` says with what, which is a catch too."""

    check: str
    caught: bool
    evidence: float | None
    limit: float | None
    sees: str = ""
    error: str = ""


def judge(check: Check) -> Outcome:
    """Run a check. An error inside it counts as caught: a faulty loop may fall over as well as miscount."""
    try:
        found = check.run()
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(check.name, True, None, None, error=said)
    caught = not found.evidence <= found.limit  # also where it is NaN
    return Outcome(check.name, caught, float(found.evidence), float(found.limit), found.sees)


def up_to(level: str, checks: Iterable[Check]) -> list[Check]:
    """Those of `level` and of the ones before it."""
    return [check for check in checks if LEVELS.index(check.level) <= LEVELS.index(level)]


def texts(
    target: Model,
    draft: Draft,
    prompt: Sequence[int],
    count: int,
    gamma: int,
    sampling: Sampling | None = None,
    chance: Chance | None = None,
    **options,
) -> Generation:
    """specdec.decode.generate with a guard: every round emits a token, so the prefill, a draft's own of the target's states and
    `count` passes are all it may take."""
    return decode.generate(
        Metered(target, count + 2),
        draft,
        prompt,
        max_new_tokens=count,
        gamma=gamma,
        sampling=sampling or Sampling(),
        chance=chance or SeededChance(1),
        **options,
    )


def steps(target: Model, draft: Draft, prompt: Sequence[int], count: int, gamma: int, **options):
    """specdec.decode.rounds under the same guard."""
    options = {"sampling": Sampling(), "chance": SeededChance(1)} | options
    metered = Metered(target, count + 2)
    return decode.rounds(metered, draft, prompt, max_new_tokens=count, gamma=gamma, **options)


def near_and_far(target: TableModel) -> dict[str, TableModel]:
    """Drafts for a table target: one that it mostly agrees with, and one that it mostly does not."""
    return {"near": near(target), "far": near(target, spread=4.0)}


def pairs_of(target: TableModel) -> dict[str, ModelDraft]:
    """near_and_far as drafts."""
    return {name: ModelDraft(model, 1) for name, model in near_and_far(target).items()}
