"""How long until the plate's whole grid is known to a standard error of 0.01? Replay, our loop, transformers' assisted generation.

Wanted are tokens per pass at every point of the grid (drafts x temperatures x gamma 1 ... 10), with a standard error of 0.01 of text and
coins, given the prompts. If one text's share in that error is s, N = (s / 0.01)^2 texts are wanted, and at least one of every
prompt. A text in the loop serves one point; a text that replay draws and a draft scores once serves all its gammas, is drawn and
scored beside the prompt's others (micro/many.py), and has its luck taken out (Expected.surplus).

Measured: s and the seconds of a text. Extrapolated: the sum of N x seconds over the grid; nobody waits for the loop to finish it.
The loop is measured at three gammas and taken as linear between them. Assisted generation makes rounds of the same law, so only
its seconds are its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from experiments.bench.peer import Peer, missing
from experiments.estimate import DRAFTS, TEMPERATURES, overlaps, replayed, scored
from experiments.loop.beside import inside, spread
from experiments.prompts import load_prompts
from experiments.setting import Setting, Texts
from experiments.stats import less_noise, standard_errors
from experiments.store import environment
from micro.chance import SeededChance
from micro.sampling import Sampling
from specdec.decode import generate
from specdec.drafts.model import ModelDraft

WANTED = 0.01
GOALS = {"loop": 100.0, "assisted": 300.0}
GAMMAS = (1, 4, 10)  # at which loop and assisted generation are measured
PROMPTS, TEXTS = 32, 16  # of replay: as many of a prompt as all prompts' share of what is wanted
LOOP_PROMPTS, SEEDS, ASSISTED_TEXTS = 12, (1, 2), 2


def texts_wanted(s: float, prompts: int) -> float:
    """(s / 0.01)^2, and at least one text of each prompt."""
    return max(float(prompts), (s / WANTED) ** 2)


def one_text_error(
    emitted: np.ndarray, rounds: np.ndarray, owner: np.ndarray, fitted: int = 0
) -> float:
    """s: the standard error of tokens per pass, given the prompts, that a single text would leave."""
    return standard_errors(emitted, rounds, owner, fitted).text * len(rounds) ** 0.5


def measure_precision(args: argparse.Namespace, say: Callable[[str], None]) -> dict:
    """Everything measured and extrapolated, as strict JSON. Without transformers "assisted" is absent."""
    prompts, why = load_prompts(args.prompts), missing()
    if why:
        say(why)
    chosen = [prompts[i] for i in spread(PROMPTS, len(prompts))]
    seeds = tuple(range(1, TEXTS + 1))
    setting = Setting(args.model, chosen, seeds=seeds, by_prompt=True, progress=say)
    setting.check()
    peers = {} if why else {
        (draft, gamma): Peer(args.model, setting.draft(draft).module.state_dict(), gamma)
        for draft in DRAFTS for gamma in GAMMAS
    }  # fmt: skip
    measured = []
    for t in TEMPERATURES:
        measured.append({"temperature": t, "replay": _replay(setting, t)})
        say(f"the loop at T = {t:g}")
        measured[-1]["loop"] = [_loop(setting, t, d, g) for d in DRAFTS for g in GAMMAS]
        if peers:
            say(f"assisted generation at T = {t:g}")
            measured[-1]["assisted"] = [
                _assisted(setting, t, d, g, peers[d, g]) for d in DRAFTS for g in GAMMAS
            ]
    return {
        "wanted": WANTED,
        "prompts": len(prompts),
        "drafts": list(DRAFTS),
        "temperatures": list(TEMPERATURES),
        "most_gamma": setting.most_gamma,
        "window": setting.window,
        "environment": environment(),
        "measured": measured,
        **extrapolated(measured, len(prompts), setting.most_gamma),
    }


def _replay(setting: Setting, temperature: float) -> dict:
    """Seconds of a text's drawing; for each draft those of its scoring and replay, and the largest s of any gamma."""
    start = time.perf_counter()
    texts = setting.texts(temperature)
    drawing = time.perf_counter() - start
    drafts = [_replayed(setting, texts, temperature, draft) for draft in DRAFTS]
    return {"texts": len(texts.owner), "drawing": drawing / len(texts.owner), "drafts": drafts}


def _replayed(setting: Setting, texts: Texts, temperature: float, draft: str) -> dict:
    start, s, owner = time.perf_counter(), 0.0, texts.owner.numpy()
    _, q = scored({"draft": draft, "temperature": temperature}, setting)
    overlap = overlaps(texts, q, setting)
    for one in replayed("token", texts, q, setting):
        if temperature:
            emitted = one.accepted + one.rounds
            calm = less_noise(emitted, one.rounds, owner, one.surplus(overlap))
            s = max(s, one_text_error(calm, one.rounds, owner, fitted=1))
    return {"draft": draft, "seconds": (time.perf_counter() - start) / len(owner), "s": s}


def _loop(setting: Setting, temperature: float, draft: str, gamma: int) -> dict:
    """Seconds of a text, without lanes, and s, at one point."""
    rows = spread(LOOP_PROMPTS, len(setting.prompts))
    owner = np.array([row for row in rows for _ in (SEEDS if temperature else SEEDS[:1])])
    seeds = np.tile(SEEDS if temperature else SEEDS[:1], len(rows))
    copy = setting.draft(draft)
    model_draft = ModelDraft(copy.module, copy.bytes_per_pass)
    emitted, rounds, seconds = [], [], 0.0
    for turn, (row, seed) in enumerate([(0, 9), *zip(owner.tolist(), seeds.tolist())]):
        start = time.perf_counter()
        made = generate(
            setting.model, model_draft, setting.prompts[row].tokens, max_new_tokens=setting.window + gamma,
            gamma=gamma, sampling=Sampling(temperature), chance=SeededChance(seed, setting.prompts[row].id),
        )  # fmt: skip
        if turn == 0:
            continue  # a warm-up
        seconds += time.perf_counter() - start
        totals = inside(made, setting.window)
        emitted.append(totals.emitted)
        rounds.append(totals.rounds)
    counts = np.array(emitted, dtype=float), np.array(rounds, dtype=float)
    s = one_text_error(*counts, owner) if temperature else 0.0
    return {"draft": draft, "gamma": gamma, "texts": len(owner), "seconds": seconds / len(owner), "s": s}  # fmt: skip


def _assisted(setting: Setting, temperature: float, draft: str, gamma: int, peer: Peer) -> dict:
    """Seconds of a text of as many tokens."""
    seconds = 0.0
    for turn in range(ASSISTED_TEXTS + 1):
        prompt = setting.prompts[turn % len(setting.prompts)]
        start = time.perf_counter()
        peer.generate(prompt.tokens, setting.window + gamma, temperature, turn, assisted=True)
        seconds += (time.perf_counter() - start) * (turn > 0)  # the first is a warm-up
    return {"draft": draft, "gamma": gamma, "texts": ASSISTED_TEXTS, "seconds": seconds / ASSISTED_TEXTS}  # fmt: skip


def extrapolated(measured: list[dict], prompts: int, most_gamma: int) -> dict:
    """Texts and seconds for the whole grid, by each way, and how many times faster replay is."""
    ways = [way for way in ("loop", "assisted") if way in measured[0]]
    total = {way: {"texts": 0.0, "seconds": 0.0} for way in ("replay", *ways)}
    for one in measured:
        _add(total["replay"], *_by_replay(one["replay"], prompts))
        for draft in dict.fromkeys(point["draft"] for point in one["loop"]):
            for gamma in range(1, most_gamma + 1):
                texts = texts_wanted(_at(one["loop"], draft, gamma, "s"), prompts)
                for way in ways:
                    _add(total[way], texts, texts * _at(one[way], draft, gamma, "seconds"))
    ratios = {way: total[way]["seconds"] / total["replay"]["seconds"] for way in ways}
    return {"total": total, "times_faster": ratios}


def _by_replay(one: dict, prompts: int) -> tuple[float, float]:
    """Texts and seconds of a temperature: as many are drawn as the draft that wants most wants, each scores what it wants."""
    wanted = [texts_wanted(own["s"], prompts) for own in one["drafts"]]
    scoring = sum(texts * own["seconds"] for texts, own in zip(wanted, one["drafts"]))
    return max(wanted), max(wanted) * one["drawing"] + scoring


def _add(total: dict, texts: float, seconds: float) -> None:
    total["texts"] += texts
    total["seconds"] += seconds


def _at(points: list[dict], draft: str, gamma: int, name: str) -> float:
    """The measured value at `gamma`, linear between those that were measured and level outside."""
    own = [point for point in points if point["draft"] == draft]
    return float(np.interp(gamma, [p["gamma"] for p in own], [p[name] for p in own]))


TITLES = {"replay": "replay", "loop": "our loop, lanes off", "assisted": "transformers assisted"}


def card(result: dict) -> list[str]:
    """The result for people, with what is measured and what is not."""
    e, total = result["environment"], result["total"]
    points = len(result["drafts"]) * len(result["temperatures"]) * result["most_gamma"]
    return [
        f"{e['machine']}, {e['threads']} threads, {e['dtype']}; torch {e['torch']}",
        f"To a standard error of {result['wanted']:g} (text and coins, given {result['prompts']} prompts) of tokens per pass at all "
        f"{points} points: {', '.join(result['drafts'])}; T {', '.join(f'{t:g}' for t in result['temperatures'])}; gamma 1 to "
        f"{result['most_gamma']}",
        "",
        f"{'':24}{'texts':>12}{'ms a text':>12}{'time in all':>16}",
        *(
            f"{TITLES[way]:24}{own['texts']:12,.0f}{1e3 * own['seconds'] / own['texts']:12.1f}{_duration(own['seconds']):>16}"
            for way, own in total.items()
        ),
        "",
        *(
            f"replay is {ratio:,.0f} times faster than {TITLES[way]}   at least {GOALS[way]:g}: "
            f"{'met' if ratio >= GOALS[way] else 'MISSED'}"
            for way, ratio in result["times_faster"].items()
        ),
        "Measured: seconds and spread of a text. Extrapolated: all texts and times above. The loop's are taken at gamma "
        f"{', '.join(map(str, GAMMAS))}, linear between; assisted generation has the loop's spread and its own seconds.",
    ]  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
