"""Identity in `selfdraft exact`: a real Transformer with its real caches, speculative and plain, number by number.

In lanes the promise is bits: of tokens, of the target's logits behind them, of keys and values. Trees and passes of other
widths are equal up to rounding. Against a fault that plain decoding would share, plain text is itself held against passes
without a cache, and greedy ties against the lowest id.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from experiments.exact.caches import ROUNDED, distance, relative
from experiments.exact.check import Check, Reading, steps, texts
from experiments.exact.small_model import small_micro
from experiments.exact.statistics import MICRO_DRAFTS, warping
from experiments.identity.comparison import compare, plain_text
from micro.chance import Chance, KeyedChance, SeededChance
from micro.generate import generate as plain
from micro.generate import generate_batch, stream
from micro.model import Transformer
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.accept import RULES
from specdec.drafts import make_draft
from specdec.drafts.confidence import LeastProbability
from specdec.drafts.model import ModelDraft
from specdec.drafts.stored import load_quantized, save_quantized
from specdec.drafts.table import TextDraft
from specdec.proposal import Proposal

GREEDY = Sampling(0.0)
LANES = 8
PROMPTS = ([1, 2], [5], [9, 8, 7, 6, 5, 4, 3, 2, 1])


def bits(
    name: str,
    gamma: int = 4,
    count: int = 30,
    prompts: Sequence[Sequence[int]] = PROMPTS[:1],
    context: int = 64,
    lanes: int = LANES,
    dtype: torch.dtype = torch.float32,
    stop=None,
    rule: str = "token",
) -> Reading:
    """Logit rows, cache entries and texts that differ in any bit from plain decoding's."""
    target = small_micro(context=context)
    draft = make_draft(target, MICRO_DRAFTS[name], stop)
    target = target.to(dtype)
    differing = 0
    for prompt in prompts:
        reference = plain_text(target, prompt, count, lanes)
        found = compare(reference, steps(target, draft, prompt, count, gamma, sampling=GREEDY,
                                            lanes=lanes, rule=rule)).counts  # fmt: skip
        differing += found.texts_differing + found.rows_differing + found.entries_differing
        differing += sum(found.dead.values()) + (not found.entries)
    return Reading(differing, 0, "one bit")


def tied_micro() -> Transformer:
    """Every odd token's logit equals that of the even one before it, so greedy text holds even tokens alone."""
    target = small_micro(context=64)
    with torch.no_grad():
        target.lm_head.weight[1::2] = target.lm_head.weight[::2]
    return target


def ties(name: str) -> Reading:
    """Odd tokens of greedy text between equal logits, plain and speculative, and tokens in which the two differ."""
    target = tied_micro()
    want = plain(target, PROMPTS[0], 30, GREEDY, SeededChance(0), LANES)
    done = texts(target, make_draft(target, MICRO_DRAFTS[name]), PROMPTS[0], 30, 4, GREEDY,
                 lanes=LANES).tokens  # fmt: skip
    differing = sum(a != b for a, b in zip(want, done)) + abs(len(want) - len(done))
    return Reading(differing + sum(token % 2 for token in (*want, *done)), 0, "one token")


def sampled(name: str, sampling: Sampling, rule: str, chance_of) -> Reading:
    """Texts in which speculation under shared noise, or at a temperature next to 0, differs from plain decoding in lanes."""
    target = small_micro(context=64)
    draft, differing = make_draft(target, MICRO_DRAFTS[name]), 0
    for seed, prompt in enumerate(PROMPTS):
        want = plain(target, prompt, 40, sampling, chance_of(seed), LANES)
        done = texts(
            target, draft, prompt, 40, 4, sampling, chance_of(seed), lanes=LANES, rule=rule
        )
        differing += list(done.tokens) != want
    return Reading(differing, 0, "one token")


def stopped(name: str) -> Reading:
    """Texts with stops that are not plain text cut behind the first one."""
    target, wrong = small_micro(context=64), 0
    for prompt in PROMPTS:
        want = plain(target, prompt, 30, GREEDY, SeededChance(0), LANES)
        for place in range(0, 30, 3):
            stop = tuple(want[max(0, place - 1) : place + 1])
            end = next(e for e in range(1, 31) if tuple(want[max(0, e - len(stop)) : e]) == stop)
            given = bytes(stop) if place % 2 else stop  # two spellings of one stop
            done = texts(target, make_draft(target, MICRO_DRAFTS[name]), prompt, 30, 4, GREEDY,
                         lanes=LANES, stop=[given])  # fmt: skip
            wrong += list(done.tokens) != want[:end] or done.ended != "stop"
    return Reading(wrong, 0, "one token")


def plain_against_whole_passes(lanes: int) -> Reading:
    """Largest distance of plain decoding's logits from a pass without any cache; a wrong greedy token is infinitely far."""
    target, worst = small_micro(context=64), 0.0
    for prompt in PROMPTS:
        text = list(prompt)
        for token, logits, _ in stream(target, prompt, 30, GREEDY, SeededChance(0), lanes):
            with torch.inference_mode():
                want = target(torch.tensor([text]))[0][0, -1]
            worst = max(worst, relative(logits, want))
            if token != logits.tolist().index(max(logits.tolist())):
                return Reading(float("inf"), ROUNDED)
            text.append(token)
    return Reading(worst, ROUNDED)


def batch() -> Reading:
    """A batch against single texts: tokens and laws; and its bits in other company, which must not change at all."""
    target, sampling, count = small_micro(context=64), Sampling(0.8, 20), 12
    chances = lambda: [SeededChance(3, str(row)) for row in range(len(PROMPTS))]  # noqa: E731
    tokens, laws = generate_batch(target, PROMPTS, count, sampling, chances())
    worst = 0.0
    for row, (prompt, chance) in enumerate(zip(PROMPTS, chances())):
        alone = list(stream(target, prompt, count, sampling, chance))
        if [token for token, _, _ in alone] != tokens[row].tolist():
            return Reading(float("inf"), ROUNDED)
        worst = max(
            worst, relative(laws[row], sampling.probs(torch.stack([x for _, x, _ in alone])))
        )
    fewer = generate_batch(target, PROMPTS[:2], count, sampling, chances()[:2])
    same = torch.equal(fewer[0], tokens[:2]) and torch.equal(fewer[1], laws[:2])
    return Reading(worst if same else float("inf"), ROUNDED)


class BranchingDraft(TextDraft):
    """Point masses in a tree of 5: the right token stands second, so that what is kept lies in scattered slots.

    The root's children are a wrong token and the right one; the right one's children likewise, and below the right one of those
    one more right token.
    """

    def __init__(self, truth: Sequence[int], vocab: int) -> None:
        self.truth, self.vocab = list(truth), vocab

    def propose(self, gamma: int, sampling: Sampling, chance: Chance) -> Proposal:
        right = (self.truth[len(self.text) :] + [0] * 3)[:3]
        wrong = [(token + 1) % self.vocab for token in right]
        tokens = (wrong[0], right[0], wrong[1], right[1], right[2])[:gamma]
        return Proposal(tokens, (-1, -1, 1, 1, 3)[:gamma], (None,) * len(tokens), passes=0)


def tree(lanes: int) -> Reading:
    """Logits behind kept nodes and cache entries of a tree's path, against passes over the text alone."""
    target = small_micro(context=64)
    truth = [1, 2, *plain(target, [1, 2], 36, GREEDY, SeededChance(0))]
    draft, worst, text = BranchingDraft(truth, target.vocab), 0.0, [1, 2]
    for one, state in steps(target, draft, [1, 2], 30, 5, sampling=GREEDY, lanes=lanes):
        rows = [0, *(node + 1 for node in one.kept)][: len(one.emitted)]
        whole = target(torch.tensor([[*text, *one.emitted]]))[0][0]
        for place, row in enumerate(rows):
            worst = max(worst, relative(state.last_logits[row], whole[len(text) - 1 + place]))
        text += one.emitted
        worst = max(worst, distance(target, state.cache, text, lanes))
        if one.proposed == 5 and one.accepted != 3:
            return Reading(float("inf"), ROUNDED)
    return Reading(worst if text == truth[:32] else float("inf"), ROUNDED)


def stored() -> Reading:
    """A draft written to a folder and read back: texts and counts that differ from those of the one it was made of."""
    target, wrong = small_micro(context=64), 0
    with tempfile.TemporaryDirectory() as folder:
        for format in MICRO_DRAFTS.values():
            copy = quantize_model(target, parse_format(format))
            save_quantized(Path(folder) / format, copy)
            pair = [ModelDraft(copy.module, copy.bytes_per_pass),
                    load_quantized(Path(folder) / format, target)]  # fmt: skip
            a, b = (texts(target, draft, [1, 2], 30, 4, Sampling(0.8)) for draft in pair)
            wrong += a != b or pair[0].bytes_per_pass != pair[1].bytes_per_pass
    return Reading(wrong, 0, "one token or count")


def checks() -> Iterator[Check]:
    for name in MICRO_DRAFTS:
        yield Check("bits in lanes, gamma 4", partial(bits, name), name, level="probe")
        yield Check("ties between equal logits", partial(ties, name), name, "greedy", "probe")
        for gamma in (1, 2, 7):
            yield Check(f"bits in lanes to the context's end, gamma {gamma}",
                        partial(bits, name, gamma, 64, PROMPTS, 32), name)  # fmt: skip
        yield Check("bits in lanes, a draft that stops",
                    partial(bits, name, stop=LeastProbability(0.4)), name)  # fmt: skip
        for rule in RULES:
            yield Check(f"{rule}, bits in lanes", partial(bits, name, rule=rule), name, rule,
                        "quick" if rule == "token" else "probe")  # fmt: skip
        for dtype in (torch.float64, torch.bfloat16):
            yield Check(f"bits in lanes, {str(dtype)[6:]}", partial(bits, name, dtype=dtype),
                        name, level="whole")  # fmt: skip
        yield Check("bits in 16 lanes, gamma 12, long texts",
                    partial(bits, name, 12, 300, PROMPTS, 320, 16), name, level="whole")  # fmt: skip
        for sampling in (Sampling(1.0), Sampling(0.5), Sampling(1.5, 0, 0.95)):
            yield Check(f"keyed text is plain text, {warping(sampling)}",
                        partial(sampled, name, sampling, "coupled", KeyedChance), name, "coupled",
                        "probe" if sampling == Sampling(1.0) else "quick")  # fmt: skip
        yield Check("text at T 1e-9 is greedy text",
                    partial(sampled, name, Sampling(1e-9), "token", SeededChance), name)  # fmt: skip
        yield Check("stops cut plain text", partial(stopped, name), name, "stop", "quick")
    for lanes in (0, LANES):
        width = f"{lanes or 'no'} lanes"
        yield Check(f"plain text against whole passes, {width}",
                    partial(plain_against_whole_passes, lanes), level="quick")  # fmt: skip
        yield Check(f"a tree's path against whole passes, {width}", partial(tree, lanes),
                    family="tree", level="quick" if lanes else "probe")  # fmt: skip
    yield Check("batched text against single texts", batch)
    yield Check("a stored draft against the one it was made of", stored)
