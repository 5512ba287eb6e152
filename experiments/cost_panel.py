"""What a traced text cost: the counts of its rounds, the three c's, and a time line.

The time line is naive on purpose: a target pass takes 1 however many rows it checks, a draft pass takes c by weight bytes,
nothing else takes time. Plain decoding needs one target pass a token.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from experiments.palette import FATES, paint
from micro.files import read_json
from specdec.record import Round, Totals
from specdec.theory import tokens_per_pass

WIDTH = 60  # characters of the longer of the two time lines


def cost_panel(request, draft: str, rounds: list[Round]) -> dict:
    """Counts, rates, c and the estimated speed-up by each definition of c, as plain values."""
    totals = Totals.of(rounds)
    context = mean_context(len(request.prompt), rounds)
    c = asdict(three_costs(request, draft, context))
    return {
        "totals": totals.to_json(),
        "thrown_away": totals.thrown_away,
        "alpha": totals.alpha,
        "tokens_per_pass": totals.tokens_per_pass,
        "formula": None if totals.alpha is None else tokens_per_pass(totals.alpha, request.gamma),
        "gamma": request.gamma,
        "mean_context": context,
        "c": c,
        "estimated_speed_up": {name: totals.estimated_speed_up(value) for name, value in c.items()},
    }


def mean_context(prompt: int, rounds: list[Round]) -> int:
    """Tokens before a target pass, averaged over the passes."""
    before, total = prompt, 0
    for done in rounds:
        total += before
        before += len(done.emitted)
    return round(total / len(rounds))


def three_costs(request, draft: str, context: int):
    """c by its three definitions; caches in bfloat16, of draft and target alike."""
    from quant.bytes import costs, pass_bytes

    cache, target = request.model.cache_bytes(context), pass_bytes(request.model)
    return costs(request.draft.bytes_per_pass, target, nominal_bits(draft), cache, cache)


def nominal_bits(draft: str) -> int:
    """Bits a code of a draft that was made from this spec: a format's name, or the folder of a stored draft."""
    from quant.formats import parse_format

    try:
        return parse_format(draft).bits
    except ValueError:
        return read_json(Path(draft) / "config.json")["quantization"]["bits"]


def panel_lines(costs: dict, rounds: list[Round], coloured: bool = False) -> list[str]:
    """Counts with the marks of the legend, c's with their speed-ups, and the time lines."""
    totals, c, speed = costs["totals"], costs["c"], costs["estimated_speed_up"]
    finals = [done.final for done in rounds]
    counts = [
        ("rounds", totals["rounds"]),
        ("proposed", totals["proposed"]),
        ("checked", totals["checked"]),
        ("accepted", totals["accepted"]),
        ("rejected", totals["checked"] - totals["accepted"]),
        ("thrown away", costs["thrown_away"]),
        ("correction", finals.count("correction")),
        ("bonus", finals.count("bonus")),
        ("emitted", totals["emitted"]),
        ("alpha = accepted / checked", _two(costs["alpha"])),
        ("tokens per pass = emitted / rounds", _two(costs["tokens_per_pass"])),
        (f"formula (1 - a^{costs['gamma'] + 1}) / (1 - a)", _two(costs["formula"])),
    ]
    names = {
        "nominal": "bits / 16",
        "weights": "weight bytes of draft / target (target in bfloat16)",
        "with_cache": f"with a bfloat16 cache at {costs['mean_context']} tokens",
    }
    lines = [f"{_mark(name, coloured)} {name:36}{value:>6}" for name, value in counts]
    lines += ["", "  c       estimated speed-up"]
    lines += [f"  {c[key]:.3f}   {_two(speed[key])}   {what}" for key, what in names.items()]
    return [*lines, "", *time_lines(rounds, c["weights"])]


def _mark(name: str, coloured: bool) -> str:
    """The mark of a fate, a space for any other count."""
    fate = FATES.get(name)
    return paint(fate.mark, fate.colour, coloured) if fate else " "


def time_lines(rounds: list[Round], c: float) -> list[str]:
    """Two bars to one scale: # target pass, . draft passes, in the order they happen."""
    emitted = sum(len(r.emitted) for r in rounds)
    segments = []
    for done in rounds:
        segments += [(".", c * done.draft_passes), ("#", 1.0)]
    spent = sum(length for _, length in segments)
    scale = WIDTH / max(spent, emitted)
    return [
        f"  time in target passes (naive: a pass costs 1 for any number of rows, a draft pass {c:.3f})",
        f"  plain        {emitted:6.1f}  {_bar([('#', float(emitted))], scale)}",
        f"  speculative  {spent:6.1f}  {_bar(segments, scale)}",
        "                       # target   . draft",
    ]


def _bar(segments: list[tuple[str, float]], scale: float) -> str:
    """Each character shows what runs at its middle."""
    bar, ends, time = "", 0.0, 0.0
    step = 1 / scale
    for mark, length in segments:
        ends += length
        while time + step / 2 <= ends:
            bar += mark
            time += step
    return bar


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
