"""Check that speculative text equals plain text, bit for bit: greedy text, and at any temperature that of --rule coupled.

Every prompt is decoded plainly once and with every draft and draft length. Tokens, the target's logits behind each of them, and
both caches at the end are compared bit for bit. Under the coupled rule draft and target draw with the same noise, keyed by
seed and position, so that the text is the target's own with any draft; the other rules promise that at temperature 0 alone.

All passes are padded to one row count ("lanes"), because the order of floating-point sums changes with the number of rows;
whether lanes suffice on this machine is probed first, and nothing is claimed where they do not. --lanes off shows what
happens without.

Exit code 1 where anything differs or is no evidence: a fork is shown with its position, both tokens and the top-2 margin.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from experiments.options import (
    add_draft_stop,
    add_lanes,
    add_model,
    add_rule,
    add_sampling,
    check_rule,
    draft_stop,
    set_threads,
    whole,
)
from experiments.paths import DATA
from experiments.prompts import Prompt, load_prompts
from experiments.watch.request import check_gamma, open_model
from experiments.watch.stream_text import show_byte

DRAFTS = "rtn4,rtn3,absmax3"
SHOWN = 10  # forks that are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--drafts", default=DRAFTS, metavar="A,B",
                        help="drafts; parted by ; where a name holds a comma (default: %(default)s)")  # fmt: skip
    parser.add_argument("--gammas", type=gammas, default="1-10", metavar="A-B|A,B",
                        help="draft lengths (default: %(default)s)")  # fmt: skip
    parser.add_argument("--tokens", type=whole(1), default=10, metavar="N",
                        help="new tokens of each text (default: 10)")  # fmt: skip
    parser.add_argument("--prompts", type=whole(1), default=None, metavar="N",
                        help="only the first N prompts (default: all)")  # fmt: skip
    parser.add_argument("--prompt-set", type=Path, default=DATA / "prompts.jsonl", metavar="FILE",
                        help="prompts, one JSON object a line (default: data/prompts.jsonl)")  # fmt: skip
    parser.add_argument("--workers", type=whole(1, 64), default=None, metavar="N",
                        help="processes (default: one a core, at most 4)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="write one JSON object")
    add_rule(parser)
    add_draft_stop(parser)
    add_sampling(parser, temperature=0.0)
    add_lanes(parser)
    add_model(parser)
    parser.add_argument("--threads", type=whole(1, 256), default=1, metavar="N",
                        help="processor threads of each process (default: 1)")  # fmt: skip


def gammas(text: str) -> list[int]:
    """argparse's type of `1-10` and `1,4,7`."""
    if match := re.fullmatch(r"(\d{1,3})-(\d{1,3})", text):
        values = list(range(int(match[1]), int(match[2]) + 1))
    elif re.fullmatch(r"\d{1,3}(,\d{1,3})*", text):
        values = [int(part) for part in text.split(",")]
    else:
        values = []
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} names no draft lengths of 1 or above, as 1-10 or 1,4"
        )
    return values


def names_in(text: str) -> list[str]:
    """`rtn4,rtn3` or `layers:0,3;rtn3`: the drafts of --drafts, each once."""
    return list(dict.fromkeys(text.strip(";").split(";") if ";" in text else text.split(",")))


class Checker:
    """Compares the texts of one prompt. Made once in every worker: the model and its drafts stay."""

    def __init__(self, args: argparse.Namespace):
        from micro.sampling import Sampling
        from specdec.drafts import make_draft

        self.model, stop = open_model(args.model), draft_stop(args.draft_stop)
        self.drafts = {name: make_draft(self.model, name, stop) for name in names_in(args.drafts)}
        self.lengths, self.tokens, self.lanes = args.gammas, args.tokens, args.lanes
        self.sampling = Sampling(args.temperature, args.top_k, args.top_p)
        self.rule, self.seed = args.rule, args.seed

    def check(self, prompt: Prompt) -> list[tuple]:
        """[(draft, gamma, lanes, Counts, Fork or None)]: every draft and length, and one text without lanes beside them."""
        grid = [(name, gamma) for name in self.drafts for gamma in self.lengths]
        results = self._compared(prompt, grid, self.lanes)
        if self.lanes:
            results += self._compared(prompt, [(next(iter(self.drafts)), self.lengths[-1])], 0)
        return results

    def _compared(self, prompt: Prompt, grid: list[tuple[str, int]], lanes: int) -> list[tuple]:
        from experiments.identity.comparison import compare, plain_text
        from specdec.accept import chance_for
        from specdec.decode import rounds

        chance = partial(chance_for, self.rule, self.seed, prompt.id)
        plain = plain_text(self.model, prompt.tokens, self.tokens, lanes, self.sampling, chance())
        results = []
        for name, gamma in grid:
            decoding = rounds(
                self.model,
                self.drafts[name],
                prompt.tokens,
                max_new_tokens=self.tokens,
                gamma=gamma,
                sampling=self.sampling,
                chance=chance(),
                lanes=lanes,
                rule=self.rule,
            )
            compared = compare(plain, decoding)
            results.append((name, gamma, lanes, compared.counts, compared.fork))
        return results


def run(args: argparse.Namespace) -> int:
    from experiments.identity.controls import noticed

    prompts = load_prompts(args.prompt_set)[: args.prompts]
    set_threads(args.threads)
    if check_rule(args.rule) != "coupled" and args.temperature > 0:
        raise ValueError(
            f"--temperature {args.temperature:g} with --rule {args.rule} promises the target's distribution, not its text; "
            "give -T 0 or --rule coupled"
        )
    checker = Checker(args)
    _check_fit(checker, prompts, args.prompt_set)
    unsafe = _probe(checker)
    if unsafe:
        if args.json:
            print(json.dumps({"lanes": args.lanes, "unsafe_lanes": unsafe, "identical": None}))
        else:
            print(
                f"no claim: a token has other bits in lanes {unsafe} of {args.lanes} than in lane 0"
            )
        return 1
    controls = noticed(checker.model, next(iter(checker.drafts.values())), prompts[0].tokens)
    try:
        results = list(_progress(_results(checker, args, prompts), prompts))
    except ValueError as error:  # the request was checked above: this is the engine's own
        print(json.dumps({"fault": str(error), "identical": None}) if args.json else f"no claim: {error}")  # fmt: skip
        return 1
    report = summarise(args, prompts, results, controls)
    print(json.dumps(report, allow_nan=False) if args.json else "\n".join(lines(report)))
    return 0 if report["identical"] else 1


def _check_fit(checker: Checker, prompts: list[Prompt], source: Path) -> None:
    """Raises ValueError before anything is decoded."""
    context = checker.model.context
    check_gamma(max(checker.lengths), checker.lanes, context)
    for prompt in prompts:
        if len(prompt.text) + checker.tokens > context:
            raise ValueError(
                f"{source}: prompt {prompt.id!r} has {len(prompt.text)} bytes, --tokens {checker.tokens} more "
                f"exceed the context of {context}"
            )


def _probe(checker: Checker) -> list[int]:
    from micro.lanes import probe

    return list(probe(checker.model, checker.lanes)) if checker.lanes else []


_worker: Checker | None = None  # of a worker process


def _start_worker(args: argparse.Namespace) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    set_threads(args.threads)
    _worker = Checker(args)


def _check(prompt: Prompt) -> list[tuple]:
    return _worker.check(prompt)


def _results(checker, args: argparse.Namespace, prompts: list[Prompt]) -> Iterable[list[tuple]]:
    """check(prompt) of every prompt, in order, here or in several processes."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    workers = min(args.workers or min(cores, 4), len(prompts))
    if workers == 1:
        yield from map(checker.check, prompts)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (args,))
    try:
        yield from pool.map(_check, prompts)
    finally:
        pool.shutdown(cancel_futures=True)


def _progress(results: Iterable, prompts: list[Prompt]) -> Iterable:
    from tqdm import tqdm

    return tqdm(results, total=len(prompts), unit="prompt", disable=None, file=sys.stderr)


def summarise(args, prompts: list[Prompt], results: list[list[tuple]], controls: dict) -> dict:
    """Counts by draft, forks, the texts without lanes and the liveness controls, as plain values."""
    import torch

    from experiments.identity.counts import Counts

    by_draft = {name: Counts() for name in names_in(args.drafts)}
    unpadded, forks = Counts(), []
    for prompt, compared in zip(prompts, results):
        for name, gamma, lanes, counts, fork in compared:
            if lanes != args.lanes:
                unpadded += counts
                continue
            by_draft[name] += counts
            if fork:
                forks.append({"prompt": prompt.id, "draft": name, "gamma": gamma, **asdict(fork)})
    total = sum(by_draft.values(), Counts())
    return {
        "identical": total.identical if all(controls.values()) else None,
        "lanes": args.lanes,
        "rule": args.rule,
        "temperature": args.temperature,
        "seed": args.seed,
        "draft_stop": args.draft_stop,
        "threads": args.threads,
        "torch": torch.__version__,
        "prompts": len(prompts),
        "gammas": args.gammas,
        "drafts": {name: asdict(counts) for name, counts in by_draft.items()},
        "total": asdict(total),
        "without_lanes": asdict(unpadded) if args.lanes else None,
        "forks": forks,
        "dead": total.dead,
        "controls": controls,
    }


def lines(report: dict) -> list[str]:
    """The table, the forks, the controls, the verdict."""
    from experiments.identity.counts import controls_line, dead_line

    lanes = f"in {report['lanes']} lanes" if report["lanes"] else "without lanes"
    head = f"{'identical':13}{'texts':>18}{'logits rows':>20}{'cache entries':>34}"
    rows = [(name, counts) for name, counts in report["drafts"].items()]
    rows.append(("all", report["total"]))
    if report["without_lanes"]:
        rows.append(("no lanes *", report["without_lanes"]))
    out = [head, *(_row(name, counts) for name, counts in rows)]
    if report["without_lanes"]:
        first = next(iter(report["drafts"]))
        out.append(
            f"* for comparison: {first}, gamma {report['gammas'][-1]}, every pass as wide as it is"
        )
    for fork in report["forks"][:SHOWN]:
        out.append(_fork_line(fork))
    if len(report["forks"]) > SHOWN:
        out.append(f"... and {len(report['forks']) - SHOWN} more forks")
    total = report["total"]
    verdict = {True: "identical: yes", False: "identical: NO", None: "no claim"}
    out.append(controls_line(report["controls"]))
    if report["dead"]:
        out.append(dead_line(report["dead"]))
    out.append(
        f"{verdict[report['identical']]}. {total['tokens']:,} tokens of {total['texts']:,} texts "
        f"({report['prompts']} prompts, gamma {_span(report['gammas'])}, T {report['temperature']:g}, "
        f"rule {report['rule']}), "
        f"{total['rows']:,} rows of logits and {total['entries']:,} cache entries compared bit for bit "
        f"{lanes} ({report['threads']} thread{'s' * (report['threads'] > 1)}, torch {report['torch']})"
    )
    return out


def _row(name: str, c: dict) -> str:
    cells = [
        f"{c[what] - c[what + '_differing']:,} of {c[what]:,}"
        for what in ("texts", "rows", "entries")
    ]
    return f"{name:13}{cells[0]:>18}{cells[1]:>20}{cells[2]:>34}"


def _fork_line(fork: dict) -> str:
    plain, other = (
        "nothing" if token is None else f"{token} {show_byte(token)}"
        for token in (fork["plain"], fork["speculative"])
    )
    margin = "-" if fork["margin"] is None else f"{fork['margin']:.2g}"
    return (
        f"fork: prompt {fork['prompt']}, {fork['draft']}, gamma {fork['gamma']}, new token {fork['place'] + 1}: "
        f"plain {plain}, speculative {other}, top-2 margin {margin}"
    )


def _span(values: list[int]) -> str:
    whole_range = values == list(range(values[0], values[-1] + 1)) and len(values) > 1
    return f"{values[0]} to {values[-1]}" if whole_range else ", ".join(map(str, values))
