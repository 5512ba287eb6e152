"""Small faults, planted in the very functions that generate() calls: exactness checks that would not see them prove nothing.

Each is one change of the kind that has really been made: an index off by one, a law from the wrong side, a cache a token
short. `plant` puts it in, counts how often the changed line ran, and takes it out again.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from experiments.exact import faults_draft as draft
from experiments.exact import faults_loop as loop
from experiments.exact import faults_rule as rule

Wrong = Callable[[Callable, Callable[[], None]], Callable]


@dataclass(frozen=True)
class Fault:
    """where: `module:name.name` of what is changed, a last part in a dict by its key; several where one change stands twice.
    family: which checks exercise it. cheapest: the tier that sees it soonest."""

    name: str
    object: str
    where: tuple[str, ...]
    what: str
    wrong: Wrong
    cheapest: str = "enumeration"
    family: str = "token"


class Counter:
    """How often a planted line ran."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@contextmanager
def plant(fault: Fault) -> Iterator[Counter]:
    """The fault is in the program inside the `with`, and gone behind it, whatever happens there."""
    reached = Counter()
    with ExitStack() as undo:
        for where in fault.where:
            _change(where, lambda real: fault.wrong(real, reached), undo)
        yield reached


def _change(where: str, make: Callable[[Callable], Callable], undo: ExitStack) -> None:
    module, _, path = where.partition(":")
    *way, last = path.split(".")
    owner = importlib.import_module(module)
    for name in way:
        owner = getattr(owner, name)
    if isinstance(owner, dict):
        undo.callback(owner.__setitem__, last, owner[last])
        owner[last] = make(owner[last])
        return
    real = inspect.getattr_static(owner, last)
    undo.callback(setattr, owner, last, real)
    setattr(owner, last, property(make(real.fget)) if isinstance(real, property) else make(real))


TOKEN_RULE, RESIDUAL = ("specdec.accept:RULES.token",), ("specdec.accept:residual",)
VERIFY, ONE_ROUND = ("specdec.decode:verify",), ("specdec.decode:one_round",)
PROPOSE, COMMIT = ("specdec.drafts.model:ModelDraft.propose",), ("specdec.drafts.model:ModelDraft.commit",)  # fmt: skip
GATHERS = ("specdec.table:TokenCache.gather", "micro.cache:KVCache.gather")
UNIFORM = ("micro.chance:SeededChance.uniform",)

_TABLE = (
    Fault("resample from p", "rule", RESIDUAL,
          "a correction is drawn from p and not from what acceptance left of it", rule.resample_from_p),
    Fault("ratio inverted", "rule", ("specdec.accept:acceptance",),
          "accepted with q / p", rule.ratio_inverted),
    Fault("p and q swapped in the residual", "rule", RESIDUAL,
          "a correction is drawn from what q has beyond p", rule.swapped_residual),
    Fault("argmax draft with soft q", "draft", PROPOSE,
          "the likeliest token is drafted, and q says that it was drawn", draft.argmax_draft),
    Fault("q before warping", "draft", PROPOSE,
          "q is told without the temperature, top-k and top-p it was drawn with", draft.q_before_warping),
    Fault("q at another temperature", "draft", PROPOSE,
          "q is told at 1.5 times the temperature it was drawn at", draft.q_at_another_temperature),
    Fault("discard-then-stop", "draft", PROPOSE,
          "drafting stops at an unlikely token, which is thrown away", draft.discard_then_stop),
    Fault("bonus by argmax", "rule", VERIFY, "a bonus is the target's likeliest token", rule.bonus_by_argmax),
    Fault("bonus from the draft", "rule", TOKEN_RULE, "a bonus is drawn from the draft's last law", rule.bonus_from_draft),
    Fault("bonus dropped", "rule", VERIFY, "a fully accepted round has no bonus", rule.bonus_dropped, "counts"),
    Fault("one uniform for a block", "chance", TOKEN_RULE,
          "all coins of a round are decided by one uniform", rule.one_uniform),
    Fault("uniforms re-seeded", "chance", ONE_ROUND, "every round begins the stream of uniforms anew",
          loop.reseeded, "statistics"),
    Fault("uniforms in bfloat16", "chance", UNIFORM, "uniforms are rounded to bfloat16",
          loop.rounded_uniform, "statistics"),
    Fault("uniforms in steps of 1/256", "chance", UNIFORM, "uniforms are what a bfloat16 generator makes",
          loop.coarse_uniform, "statistics"),
    Fault("p shifted by one", "rule", VERIFY, "each token is judged by its neighbour's row of p", rule.shifted_p),
    Fault("first draft never checked", "rule", TOKEN_RULE, "the first drafted token is always kept",
          rule.first_never_checked),
    Fault("siblings against the unrenormalised p", "rule", RESIDUAL,
          "behind a refused sibling max(p - q, 0) is not scaled up", rule.unscaled_residual, family="tree"),
    Fault("q not conditioned on earlier siblings", "draft", ("specdec.drafts.table:TreeDraft.propose",),
          "siblings drawn without replacement are told as if drawn with it", draft.unconditioned_siblings,
          family="tree"),
    Fault("residual without renormalising", "rule", RESIDUAL,
          "behind a refused point mass the rest of p is not scaled up", rule.unscaled_hole, family="tree"),
    Fault("tree positions as in a chain", "draft", ("specdec.proposal:Proposal.depths",),
          "node i stands at position i, however deep it is", draft.depths_of_a_chain, family="tree"),
    Fault("tree nodes see their siblings", "draft", ("specdec.proposal:Proposal.visible",),
          "a node sees all nodes before it, ancestors or not", draft.all_earlier_seen, family="tree"),
    Fault("draft cache one short after a fully accepted round", "draft", PROPOSE,
          "only the newest token is read, though two are missing", draft.newest_only, "counts"),
    Fault("draft cache two too many trimmed after a rejection", "draft", COMMIT,
          "two tokens that were right are forgotten and read again", draft.two_too_many, "caches"),
    Fault("draft cache keeps a refused token", "draft", COMMIT,
          "what stands last behind a rejection is not what the text says", draft.stale_commit, "caches"),
    Fault("target cache not rolled back", "cache", GATHERS, "refused tokens stay in the target's cache",
          loop.not_rolled_back),
    Fault("target cache cut one short", "cache", GATHERS, "a kept token is missing from the target's cache",
          loop.one_short),
    Fault("cache slots not moved", "cache", GATHERS, "every kept place holds the first one's token",
          loop.slots_not_moved),
    Fault("last bit of a cache entry", "cache", ("micro.cache:KVCache.gather",),
          "one number of a real cache changes by its last bit", loop.last_bit, "identity"),
    Fault("stop token inside a block ignored", "loop", ("specdec.decode:Decoding.cut",),
          "a text ends at a stop only where it is a round's last token", loop.stop_ignored, family="stop"),
    Fault("state left from the last call", "draft", ("specdec.drafts.model:ModelDraft.start",),
          "the draft keeps its cache from the text before", draft.cache_of_last_call, "caches"),
    Fault("coupled noise with an ordinary residual", "rule", ("specdec.accept:RULES.coupled",),
          "draft and target share their noise, and the token rule judges", rule.ordinary_residual,
          family="coupled"),
    Fault("coupled noise without its position", "chance", ("micro.chance:KeyedChance.draw",),
          "one noise serves all positions of a text", loop.noise_without_place, "statistics", "coupled"),
    Fault("coupled draft at the next position", "draft", PROPOSE,
          "the draft draws under the noise of the next position", draft.noise_of_next_place, "counts", "coupled"),
    Fault("ties by highest id", "sampling", ("micro.sampling:first_argmax",),
          "of equal logits the highest id wins", loop.highest_id, family="greedy"),
    Fault("top-k keeps one too many", "sampling", ("micro.sampling:Sampling._cut",),
          "top-k keeps k + 1 tokens", loop.top_k_plus_one, "algebra", "warping"),
    Fault("the last round of a limit counted whole", "loop", ONE_ROUND,
          "a round that a limit made shorter is recorded with all of gamma", loop.last_round_whole,
          "counts", "limit"),
    Fault("the limit forgotten by one", "loop", ("specdec.decode:Decoding.room",),
          "there is always room for one token more", loop.room_for_one_more, family="limit"),
    Fault("thrown away counted as checked", "loop", ("specdec.decode:_round",),
          "tokens behind a rejection are recorded as judged", loop.thrown_counted_as_checked, "counts"),
    Fault("block residual without its weight", "rule", ("specdec.block:excess",),
          "what the target wants beyond the draft is taken at full weight", rule.block_without_weight,
          family="block"),
    Fault("block coin that is the weight itself", "rule", ("specdec.block:keep_chance",),
          "a prefix is kept with its weight and not with h", rule.block_coin_is_weight, family="block"),
    Fault("match keeps the drafted token", "rule", ("specdec.accept:RULES.match",),
          "after a mismatch the draft's token is emitted", rule.match_keeps_drafted, family="match"),
)  # fmt: skip
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _TABLE}
