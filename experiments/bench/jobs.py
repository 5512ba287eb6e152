"""What `selfdraft bench` times: the jobs, in groups that take turns, and the ratios read from them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import torch

from experiments.bench.peer import Peer, missing
from experiments.bench.timing import Ratio, Session, compare, ratio, take_turns
from experiments.options import check_rule
from experiments.paths import ROOT
from experiments.prompts import KINDS, Prompt, load_prompts
from experiments.store import environment
from experiments.watch.request import check_gamma, open_model
from micro.chance import SeededChance
from micro.generate import generate as plain_text
from micro.model import Transformer
from micro.sampling import Sampling
from quant.bytes import pass_bytes
from specdec.accept import chance_for
from specdec.decode import generate as speculative_text
from specdec.drafts import make_draft
from specdec.drafts.base import Draft
from specdec.drafts.model import ModelDraft
from specdec.record import Totals

TEMPERATURES = (0.0, 1.0)
PASSES = 20  # of one model, in a job that times single passes
OFF, LANES, SPEC = "plain, lanes off", "plain, in lanes", "speculation, in lanes"
PEER, ASSISTED = "transformers generate", "transformers assisted"

Job = Callable[[int], int]


@dataclass
class Bench:
    """Both sides of the comparison. `texts` keeps what each job wrote: (temperature, job, prompt) -> tokens."""

    model: Transformer
    draft: ModelDraft
    prompts: list[Prompt]
    tokens: int
    gamma: int
    lanes: int
    peer: Peer | None = None
    rule: str = "token"
    texts: dict[tuple, list[int]] = field(default_factory=dict)
    totals: dict[tuple, Totals] = field(default_factory=dict)

    def prompt(self, turn: int) -> list[int]:
        return self.prompts[turn % len(self.prompts)].tokens

    def plain(self, name: str, temperature: float, lanes: int) -> Job:
        def job(turn: int) -> int:
            text = plain_text(
                self.model, self.prompt(turn), self.tokens, Sampling(temperature), chance_for(self.rule, turn), lanes
            )  # fmt: skip
            return self._keep(temperature, name, turn, text)

        return job

    def speculation(
        self, name: str, temperature: float, draft: Draft, gamma: int, lanes: int
    ) -> Job:
        def job(turn: int) -> int:
            made = speculative_text(
                self.model, draft, self.prompt(turn), max_new_tokens=self.tokens, gamma=gamma,
                sampling=Sampling(temperature), chance=chance_for(self.rule, turn), lanes=lanes,
                rule=self.rule,
            )  # fmt: skip
            before = self.totals.get((temperature, name), Totals())
            self.totals[temperature, name] = before + made.totals
            return self._keep(temperature, name, turn, list(made.tokens))

        return job

    def theirs(self, name: str, temperature: float, assisted: bool) -> Job:
        def job(turn: int) -> int:
            text = self.peer.generate(self.prompt(turn), self.tokens, temperature, turn, assisted)
            passes = self.peer.passes
            made = Totals(rounds=passes["target"], emitted=len(text), draft_passes=passes["draft"])
            before = self.totals.get((temperature, name), Totals())
            self.totals[temperature, name] = before + made
            return self._keep(temperature, name, turn, text)

        return job

    def _keep(self, temperature: float, name: str, turn: int, text: list[int]) -> int:
        self.texts[temperature, name, turn % len(self.prompts)] = text
        return len(text)

    def decoding(self, temperature: float) -> dict[str, Job]:
        """All ways to write the same number of tokens."""
        jobs = {
            OFF: self.plain(OFF, temperature, 0),
            LANES: self.plain(LANES, temperature, self.lanes),
            SPEC: self.speculation(SPEC, temperature, self.draft, self.gamma, self.lanes),
        }
        if self.peer:
            jobs[PEER] = self.theirs(PEER, temperature, False)
            jobs[ASSISTED] = self.theirs(ASSISTED, temperature, True)
        return jobs

    def passes(self) -> dict[str, Job]:
        """Single passes behind half a context. A row is a token; the draft's pass is as long as the target's: on a
        processor both compute in float32."""
        shapes = {
            "1 row": (1, 0),
            f"{self.gamma + 1} rows": (self.gamma + 1, 0),
            "1 row, in lanes": (1, self.lanes),
            f"{self.gamma + 1} rows, in lanes": (self.gamma + 1, self.lanes),
        }
        return {name: passes_job(self.model, *shape) for name, shape in shapes.items()}

    def lengths(self) -> dict[str, Job]:
        """Plain text of N tokens and of 2 N, which fill the context behind one byte."""
        N = (self.model.context - 1) // 2

        def job(count: int) -> Job:
            return lambda turn: len(
                plain_text(self.model, [32], count, Sampling(0), SeededChance(turn))
            )

        return {f"{count} tokens": job(count) for count in (N, 2 * N)}

    def itself(self) -> dict[str, Job]:
        """The target as its own draft, one token a round: two passes for at most two tokens. Without lanes, for in lanes
        a draft's pass of one row is cheaper than the same model's padded one."""
        draft, name = ModelDraft(self.model, pass_bytes(self.model)), "draft = target"
        return {OFF: self.plain(OFF, 0.0, 0), name: self.speculation(name, 0.0, draft, 1, 0)}

    def identical(self) -> bool:
        """Greedy speculative text = greedy plain text, for every prompt that was written."""
        return all(
            text == self.texts[0.0, LANES, prompt]
            for (temperature, name, prompt), text in self.texts.items()
            if temperature == 0.0 and name == SPEC
        )


def passes_job(model: Transformer, rows: int, lanes: int) -> Job:
    """Passes of `rows` tokens behind half a context, in `lanes` (0: none)."""
    start = model.context // 2
    cache = model.new_cache(1, lanes)
    with torch.inference_mode():
        model(torch.zeros(1, start, dtype=torch.long), cache)
    tokens = torch.ones(1, rows, dtype=torch.long)

    @torch.inference_mode()
    def job(turn: int) -> int:
        for _ in range(PASSES):
            cache.truncate(start)
            logits, _ = model(tokens, cache)
        logits.tolist()
        return PASSES

    return job


def start_up(turn: int) -> int:
    """`selfdraft --help` from nothing, as a shell would start it."""
    command = [sys.executable, "-m", "experiments", "--help"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return 1


def open_bench(args: argparse.Namespace) -> tuple[Bench, str]:
    """Both sides, and why the peer is missing ("" where it is not). Raises ValueError naming what does not fit."""
    rule, model = check_rule(args.rule), open_model(args.model)
    check_gamma(args.gamma, args.lanes, model.context)
    prompts = one_of_each_kind(load_prompts(args.prompts))
    room = model.context - max(len(prompt.tokens) for prompt in prompts)
    if not args.tokens <= room:
        raise ValueError(
            f"--tokens {args.tokens} do not fit behind the prompts; 1 to {room} do, in a context of {model.context}"
        )
    draft, why = make_draft(model, args.draft), missing()
    peer = None if why else Peer(args.model, draft.model.state_dict(), args.gamma)
    return Bench(model, draft, prompts, args.tokens, args.gamma, args.lanes, peer, rule), why


def one_of_each_kind(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The first prompt of each kind that there is."""
    first = {prompt.kind: prompt for prompt in reversed(prompts)}
    return [first[kind] for kind in KINDS if kind in first]


def measure_all(args: argparse.Namespace, say: Callable[[str], None]) -> dict:
    """Everything, as strict JSON: settings, environment, times, ratios with their goals, clocks, identity."""
    bench, why = open_bench(args)
    if why:
        say(why)
    groups = {f"T = {t:g}": bench.decoding(t) for t in TEMPERATURES}
    groups["one pass"] = bench.passes()
    groups["length"] = bench.lengths()
    groups["draft = target"] = bench.itself()
    groups["start"] = {"selfdraft --help": start_up}
    sessions: dict[str, Session] = {}
    for name, jobs in groups.items():
        say(f"{name}: {', '.join(jobs)}")
        sessions[name] = take_turns(jobs, args.repeats, args.warmups)
    settings = ("draft", "rule", "gamma", "lanes", "tokens", "repeats", "warmups")
    return {
        "settings": {name: getattr(args, name) for name in settings}
        | {"model": str(args.model), "prompts": [prompt.id for prompt in bench.prompts]},
        "environment": environment() | {"transformers": bench.peer.version if bench.peer else None},
        "times_ms": {name: times(session) for name, session in sessions.items()},
        "ratios": [asdict(one) for one in ratios(sessions, bench)],
        "tokens_per_pass": {
            f"T = {t:g}, {name}": totals.tokens_per_pass for (t, name), totals in bench.totals.items()
        },
        "clock": clock_check(sessions.values()),
        "identical": bench.identical(),
    }  # fmt: skip


def times(session: Session) -> dict[str, dict]:
    """Of each job, a unit: median, quartiles, extremes in ms."""
    return {name: timing.summary() for name, timing in session.timings.items()}


def clock_check(sessions: Sequence[Session]) -> dict[str, float]:
    """Seconds by a clock around everything, and the sum of what was timed inside: they must nearly agree."""
    sessions = list(sessions)
    outside, inside = sum(s.outside for s in sessions), sum(s.inside for s in sessions)
    return {"outside_seconds": outside, "inside_seconds": inside, "inside_share": inside / outside}


@dataclass(frozen=True)
class Line:
    """A ratio and what is wanted of it; goal None: it is only told. met: None without a goal."""

    name: str
    value: float
    low: float
    high: float
    confidence: float
    wanted: str = ""
    goal: float | None = None
    met: bool | None = None

    @classmethod
    def of(cls, name: str, r: Ratio, wanted: str = "", goal: float | None = None) -> Line:
        met = None
        if goal is not None:
            met = r.value >= goal if wanted == "at least" else r.value <= goal
        return cls(name, r.value, r.low, r.high, r.confidence, wanted, goal, met)


def ratios(sessions: dict[str, Session], bench: Bench) -> list[Line]:
    """All ratios of the sessions, those against the peer only where it was timed."""
    lines = []
    for t in TEMPERATURES:
        session, at = sessions[f"T = {t:g}"], f"T = {t:g}: "
        if bench.peer:
            lines += [
                Line.of(at + "plain, lanes off, over transformers", compare(session, PEER, OFF), "at least", 2.0),
                Line.of(at + "plain, in lanes, over transformers", compare(session, PEER, LANES), "at least", 1.0),
                Line.of(at + "speculation over assisted", compare(session, ASSISTED, SPEC), "at least", 1.7 if t else 1.5),
            ]  # fmt: skip
        lines.append(Line.of(at + "measured speed-up: speculation over plain, both in lanes", compare(session, LANES, SPEC)))  # fmt: skip
        lines.append(Line.of(at + "measured speed-up: speculation in lanes over plain, lanes off", compare(session, OFF, SPEC)))  # fmt: skip
        if bench.peer:
            lines.append(Line.of(at + "theirs: assisted over generate", compare(session, PEER, ASSISTED)))  # fmt: skip
        lines.append(Line.of(at + "what lanes cost, a token", compare(session, LANES, OFF)))
    one, length = sessions["one pass"], [t.seconds for t in sessions["length"].timings.values()]
    help_seconds = sessions["start"].timings["selfdraft --help"].seconds
    return lines + [
        Line.of("what lanes cost, a pass of 1 row", compare(one, "1 row, in lanes", "1 row")),
        Line.of("a pass of gamma + 1 rows over 1 row, lanes off", compare(one, f"{bench.gamma + 1} rows", "1 row")),
        Line.of("time of 2 N tokens over N, lanes off", ratio(length[1], length[0]), "at most", 2.5),
        Line.of("draft = target, gamma 1, over plain, lanes off", compare(sessions["draft = target"], OFF, "draft = target"), "at most", 1.1),
        Line.of("seconds of selfdraft --help", ratio(help_seconds, [1.0] * len(help_seconds)), "at most", 0.5),
    ]  # fmt: skip
