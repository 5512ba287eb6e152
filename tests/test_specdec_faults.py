"""Each check can fail: small faults planted in the functions that generate() calls, and the check that notices.

Four checks on the real loop: the joint law of the text by enumeration; expected counts, text by text, against replay; what the
caches hold after a round; and, with real caches in lanes, bits of logits and caches against plain decoding. A clean loop
passes all of them, and for every fault it is said which of them see it: a dropped bonus, for one, leaves the law as it was.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import specdec.accept
import specdec.block
import specdec.decode
import specdec.match
from experiments.comparison import compare, plain_text
from experiments.exact_laws import gap, law_of, target_law, walks
from experiments.small_model import small_micro
from micro.cache import KVCache
from micro.chance import SeededChance, every_branch
from micro.sampling import Sampling
from specdec.accept import acceptance, residual
from specdec.decode import Decoding, rounds
from specdec.drafts import make_draft
from specdec.drafts.model import ModelDraft
from specdec.proposal import Proposal
from specdec.replay import acceptance_given_output, replay
from specdec.table import TokenCache, near, random_model, table_law

PROMPT, COUNT, GAMMA = [1, 0], 4, 2
WINDOW = 4  # a round behind a fully accepted one must still start inside
CLEAN, SEEN = 1e-12, 1e-4  # a clean loop's rounding, and the least that a fault must move
TARGET = random_model(2, seed=3)
NEAR, FAR = near(TARGET), random_model(2, seed=40)
# residuals of two tokens are always certain; three tokens show what is drawn from them
TARGET3 = random_model(3, seed=3)
SAMPLING = Sampling(0.8)


def law_gap(model=NEAR, target=TARGET, count=COUNT, wrap=lambda chance: chance, **options) -> float:
    """How far the loop's joint law of `count` tokens is from the target's."""
    draft = ModelDraft(model, 1)
    runs = every_branch(
        lambda chance: specdec.decode.generate(
            target, draft, PROMPT, max_new_tokens=count, gamma=GAMMA, sampling=SAMPLING,
            chance=wrap(chance), **options)
    )  # fmt: skip
    return gap(law_of(runs), target_law(target, PROMPT, count, SAMPLING, options.get("stop", ())))


def count_gap(model=NEAR) -> float:
    """How far expected rounds and accepted tokens are from replay's, given the text: the worst text."""
    sums: dict = {}
    for chance, done in walks(TARGET, ModelDraft(model, 1), PROMPT, max_new_tokens=WINDOW + GAMMA,
                              gamma=GAMMA, sampling=SAMPLING):  # fmt: skip
        starts = np.cumsum([0, *(len(r.emitted) for r in done.rounds)])
        inside = [r for r, start in zip(done.rounds, starts) if start < WINDOW]
        row = np.array([1, len(inside), sum(r.accepted for r in inside)]) * chance
        sums[done.tokens] = sums.get(done.tokens, 0) + row
    worst = 0.0
    for text, (mass, n, accepted) in sums.items():
        p, q = (
            np.array([[float(table_law(m, (*PROMPT, *text[:i]), SAMPLING)[t]) for i, t in enumerate(text)]])
            for m in (TARGET, model)
        )  # fmt: skip
        want = replay(acceptance_given_output(p, q), GAMMA, WINDOW)
        off = (abs(n / mass - want.rounds[0]), abs(accepted / mass - want.accepted[0]))
        worst = max(worst, *off)
    return worst


def cache_faults() -> int:
    """How often, after the rounds of some sampled texts, a cache does not hold what it should."""
    wrong = 0
    for model in (TARGET, NEAR):
        for seed in range(5):
            draft = ModelDraft(model, 1)
            for _, state in rounds(TARGET, draft, PROMPT, max_new_tokens=15, gamma=GAMMA,
                                   sampling=SAMPLING, chance=SeededChance(seed)):  # fmt: skip
                held = draft.cache.tokens
                wrong += state.cache.tokens != state.tokens[:-1]
                wrong += held != state.tokens[: len(held)]
    return wrong


def identical_in_lanes(lanes: int = 8) -> bool:
    """Bits of tokens, logits and caches of a small micro's greedy text, plain and speculative."""
    target = small_micro(context=64)
    plain = plain_text(target, [1, 2], 30, lanes)
    counts, fork, _ = compare(plain, rounds(target, make_draft(target, "rtn4"), [1, 2], gamma=4,
                                         max_new_tokens=30, sampling=Sampling(0.0),
                                         chance=SeededChance(1), lanes=lanes))  # fmt: skip
    assert counts.tokens == 30 or fork
    return counts.identical


def test_a_clean_loop_passes_every_check():
    for model in (NEAR, FAR, TARGET):
        assert law_gap(model) < CLEAN
        assert count_gap(model) < 1e-11
    for rule in ("token", "block", "match"):
        assert law_gap(near(TARGET3), TARGET3, 3, rule=rule) < CLEAN
    assert law_gap(count=3, stop=[(0,)]) < CLEAN
    assert cache_faults() == 0
    assert identical_in_lanes()


# --- faults of the rule: the law shows them


def test_p_and_q_swapped(monkeypatch):
    monkeypatch.setattr(specdec.accept, "acceptance", lambda p, q, t: acceptance(q, p, t))
    assert law_gap() > SEEN and law_gap(FAR) > SEEN and count_gap() > SEEN


def test_p_and_q_swapped_in_the_residual(monkeypatch):
    monkeypatch.setattr(specdec.accept, "residual", lambda p, q, t: residual(q, p, t))
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


def test_the_correction_drawn_from_p(monkeypatch):
    monkeypatch.setattr(specdec.accept, "residual", lambda p, q, t: p)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


def test_the_first_draft_token_never_checked(monkeypatch):
    real = specdec.accept.token_rule

    def unchecked(proposal, p, chance, position, room):
        laws = (p[0], *proposal.laws[1:])
        return real(replace(proposal, laws=laws), p, chance, position, room)

    monkeypatch.setitem(specdec.accept.RULES, "token", unchecked)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


def test_p_shifted_by_a_row(monkeypatch):
    real = specdec.decode.verify
    monkeypatch.setattr(
        specdec.decode, "verify", lambda proposal, p, *rest: real(proposal, p.roll(1, 0), *rest)
    )
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


def test_q_before_warping(monkeypatch):
    propose = ModelDraft.propose

    def unwarped(self, gamma, sampling, chance):
        done, text = propose(self, gamma, sampling, chance), list(self._tokens)
        laws = [
            table_law(self.model, (*text, *done.tokens[:place]), Sampling())
            for place in range(len(done.tokens))
        ]
        return Proposal.chain(done.tokens, laws, done.passes)

    monkeypatch.setattr(ModelDraft, "propose", unwarped)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


def test_a_likeliest_draft_token_under_a_soft_q(monkeypatch):
    class First:
        def draw(self, law, position):
            return int(law.argmax())

    real = ModelDraft.propose

    def propose(self, gamma, sampling, chance):
        return real(self, gamma, sampling, First())

    monkeypatch.setattr(ModelDraft, "propose", propose)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


class BonusByArgmax:
    def __init__(self, real):
        self.real = real

    def __call__(self, proposal, p, chance, position, room, rule):
        verdict = self.real(proposal, p, chance, position, room, rule)
        if verdict.rejected or verdict.token is None:
            return verdict
        return replace(verdict, token=int(p[len(verdict.kept)].argmax()))


def test_the_bonus_by_argmax(monkeypatch):
    monkeypatch.setattr(specdec.decode, "verify", BonusByArgmax(specdec.decode.verify))
    assert law_gap() > SEEN and law_gap(TARGET) > SEEN


def test_the_bonus_drawn_from_the_drafts_law(monkeypatch):
    real = specdec.accept.token_rule

    def wrong(proposal, p, chance, position, room):
        tail = proposal.laws[-1][None] if len(proposal.tokens) else p[-1:]
        return real(proposal, torch.cat((p[:-1], tail)), chance, position, room)

    monkeypatch.setitem(specdec.accept.RULES, "token", wrong)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN


class OneUniform:
    """One uniform for all coins of a round, walked exactly: what is known of it is an interval that each coin cuts."""

    def __init__(self, chance):
        self.chance, self.low, self.high = chance, 0.0, 1.0

    def accept(self, probability):
        at = min(max(probability, self.low), self.high)
        yes = self.chance.accept((at - self.low) / (self.high - self.low))
        self.low, self.high = (self.low, at) if yes else (at, self.high)
        return yes

    def draw(self, law, position):
        self.low, self.high = 0.0, 1.0  # a round's draws stand before its coins or behind them
        return self.chance.draw(law, position)


def test_one_uniform_for_a_whole_round():
    """Seen in the joint law, and not in the first token alone."""
    assert law_gap(wrap=OneUniform) > SEEN and law_gap(FAR, wrap=OneUniform) > SEEN
    assert law_gap(count=1, wrap=OneUniform) < CLEAN


def test_a_block_residual_without_its_weight(monkeypatch):
    real = specdec.block.excess
    monkeypatch.setattr(specdec.block, "excess", lambda w, p, q, t: real(1.0, p, q, t))
    assert law_gap(rule="block") > SEEN and law_gap(FAR, rule="block") > SEEN


def test_a_block_coin_that_is_the_weight_itself(monkeypatch):
    monkeypatch.setattr(specdec.block, "keep_chance", lambda w, left: w)
    assert max(law_gap(m, rule="block") for m in (NEAR, FAR)) > SEEN


def test_match_that_keeps_the_drafts_token_after_a_mismatch(monkeypatch):
    real = specdec.match.match_rule

    def wrong(proposal, p, chance, position, room):
        verdict = real(proposal, p, chance, position, room)
        if not verdict.rejected:
            return verdict
        return replace(verdict, token=proposal.tokens[len(verdict.kept)])

    monkeypatch.setitem(specdec.accept.RULES, "match", wrong)
    assert law_gap(rule="match") > SEEN and law_gap(FAR, rule="match") > SEEN


# --- faults of the loop


def test_a_dropped_bonus(monkeypatch):
    """The law stays exact, and one token a full round is lost: only counts can show it."""
    real = specdec.decode.verify

    def dropped(*args):
        verdict = real(*args)
        return verdict if verdict.rejected else replace(verdict, token=None)

    monkeypatch.setattr(specdec.decode, "verify", dropped)
    assert law_gap() < CLEAN and count_gap() > SEEN


def test_the_targets_cache_not_rolled_back(monkeypatch):
    monkeypatch.setattr(TokenCache, "gather", lambda self, start, kept: None)
    assert law_gap() > SEEN and law_gap(FAR) > SEEN and cache_faults() > 0


def test_the_targets_cache_cut_one_short(monkeypatch):
    real = TokenCache.gather
    monkeypatch.setattr(
        TokenCache, "gather", lambda self, s, kept: real(self, s, kept[:-1] or kept)
    )
    assert law_gap() > SEEN and cache_faults() > 0


def test_the_drafts_cache_one_short_after_a_full_round(monkeypatch):
    """The last draft token is never fed: q is still what was drawn from, so the law holds and only acceptance falls."""
    monkeypatch.setattr(ModelDraft, "propose", reading_the_newest_only(ModelDraft.propose))
    assert law_gap() < CLEAN and count_gap(TARGET) > SEEN and cache_faults() > 0


def test_the_drafts_cache_not_rolled_back_after_a_rejection(monkeypatch):
    monkeypatch.setattr(ModelDraft, "propose", reading_the_newest_only(ModelDraft.propose))
    monkeypatch.setattr(
        ModelDraft, "commit", lambda self, s: setattr(self, "_tokens", list(s.tokens))
    )
    assert law_gap() < CLEAN and count_gap() > SEEN and cache_faults() > 0


def reading_the_newest_only(real):
    """propose() as if the cache always lacked one token, whatever it really lacks."""

    def propose(self, gamma, sampling, chance):
        tokens = self._tokens
        if self.cache.length:
            self._tokens = [*self.cache.tokens, tokens[-1]]
        done = real(self, gamma, sampling, chance)
        self._tokens = tokens
        return done

    return propose


def test_a_stop_inside_a_run_that_is_ignored(monkeypatch):
    def late(self, emitted):
        if any((token,) in self.stops for token in emitted[-1:]):
            self.ended = "stop"
        return emitted

    assert law_gap(count=3, stop=[(0,)]) < CLEAN
    monkeypatch.setattr(Decoding, "cut", late)
    assert law_gap(count=3, stop=[(0,)]) > SEEN


def test_a_round_that_forgets_the_limit(monkeypatch):
    monkeypatch.setattr(
        Decoding, "room", property(lambda self: self.limit - len(self.tokens) + self.start + 1)
    )
    with pytest.raises(AssertionError):  # such a loop may also never end: the first text is enough
        for one, state in rounds(TARGET, ModelDraft(TARGET, 1), PROMPT, max_new_tokens=3,
                                 gamma=3, sampling=SAMPLING, chance=SeededChance(1)):  # fmt: skip
            assert sum(map(len, [one.emitted])) <= 3 and len(state.tokens) <= len(PROMPT) + 3


def test_state_left_from_the_last_call(monkeypatch):
    """A draft that keeps its cache from the text before. The law holds; counts and caches show it."""
    real = ModelDraft.start

    def lazy(self, prompt, target):
        cache = getattr(self, "cache", None)
        real(self, prompt, target)
        if cache is not None:
            cache.truncate(min(cache.length, len(prompt) - 1))
            self.cache = cache

    monkeypatch.setattr(ModelDraft, "start", lazy)
    draft = ModelDraft(TARGET, 1)
    for prompt in ([1, 1, 1, 1], [0, 0, 0, 0]):
        steps = rounds(TARGET, draft, prompt, max_new_tokens=4, gamma=2, sampling=SAMPLING,
                       chance=SeededChance(1))  # fmt: skip
        *_, (_, state) = steps
    held = draft.cache.tokens
    assert held != state.tokens[: len(held)]


# --- faults in real caches: bits show them


def test_a_cache_entry_that_changed_is_noticed(monkeypatch):
    """The last bit of one number, of some 4,000, in the first round: greedy text alone would not show it."""
    real, touched = KVCache.gather, []

    def touch(self, start, kept):
        real(self, start, kept)
        if not touched:
            entry = self.keys[0, 0, 0, 0, :1]
            touched.append(float(entry))
            entry.copy_(torch.nextafter(entry, torch.full_like(entry, float("inf"))))

    monkeypatch.setattr(KVCache, "gather", touch)
    assert not identical_in_lanes() and touched


def test_a_missing_roll_back_in_a_real_cache_is_noticed(monkeypatch):
    real = KVCache.gather
    monkeypatch.setattr(
        KVCache, "gather", lambda self, s, kept: real(self, s, [0] * len(kept) if len(kept) > 1 else kept)
    )  # fmt: skip
    assert not identical_in_lanes()
