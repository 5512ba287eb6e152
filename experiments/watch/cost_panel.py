"""What a traced text cost: the counts of its rounds, the three c's, and a time line.

The time line is naive on purpose: a target pass takes 1 however many rows it checks, a draft pass its weight bytes over the
target's, nothing else takes time. Plain decoding needs one target pass a token.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from experiments.drawing.palette import FATES, paint
from micro.files import read_json
from specdec.record import Round, Totals
from specdec.theory import tokens_per_pass

WIDTH = 60  # characters of the longer of the two time lines


def cost_panel(request, draft: str, rounds: list[Round]) -> dict:
    """Counts, rates, c and the estimated speed-up by each definition of c that the draft has, as plain values.

    Bits a weight and a cache of the target's shape belong to the model's own copies; of any other draft bytes alone are told.
    """
    from quant.bytes import pass_bytes

    totals, target = Totals.of(rounds), pass_bytes(request.model)
    context, bits = mean_context(len(request.prompt), rounds), nominal_bits(draft)
    c = {"weights": request.draft.bytes_per_pass / target}
    if bits is not None:
        c = asdict(three_costs(request, bits, target, context))
    speed = {name: totals.estimated_speed_up(value) for name, value in c.items()}
    return {
        "totals": totals.to_json(),
        "thrown_away": totals.thrown_away,
        "alpha": totals.alpha,
        "tokens_per_pass": totals.tokens_per_pass,
        "formula": None if totals.alpha is None else tokens_per_pass(totals.alpha, request.gamma),
        "gamma": request.gamma,
        "mean_context": context,
        "target_bytes": target,
        "c": c,
        # a cascade's passes differ, so bytes are counted and not passes
        "estimated_speed_up": speed | {"weights": totals.speed_up_by_bytes(target)},
    }


def mean_context(prompt: int, rounds: list[Round]) -> int:
    """Tokens before a target pass, averaged over the passes."""
    before, total = prompt, 0
    for done in rounds:
        total += before
        before += len(done.emitted)
    return round(total / len(rounds))


def three_costs(request, bits: float, target: int, context: int):
    """c by its three definitions; caches in bfloat16, of draft and target alike."""
    from quant.bytes import costs

    cache = request.model.cache_bytes(context)
    return costs(request.draft.bytes_per_pass, target, bits, cache, cache)


def nominal_bits(draft: str) -> float | None:
    """Bits a code of the model's own copy that was made from this spec; None of any other draft."""
    from quant.formats import parse_format
    from specdec.drafts import family
    from specdec.drafts.tuned import ENDING

    kind = family(draft)
    if kind == "stored":
        return read_json(Path(draft) / "config.json")["quantization"]["bits"]
    if kind in ("quantized", "tuned"):
        return parse_format(draft.removesuffix(ENDING)).bits
    return None


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
    lines += [
        f"  {c[key]:.3f}   {_two(speed[key])}   {what}" for key, what in names.items() if key in c
    ]
    return [*lines, "", *time_lines(rounds, costs["target_bytes"])]


def _mark(name: str, coloured: bool) -> str:
    """The mark of a fate, a space for any other count."""
    fate = FATES.get(name)
    return paint(fate.mark, fate.colour, coloured) if fate else " "


def time_lines(rounds: list[Round], target_bytes: int) -> list[str]:
    """Two bars to one scale: # target pass, . draft passes by the bytes they read, in the order they happen."""
    emitted = sum(len(r.emitted) for r in rounds)
    segments = []
    for done in rounds:
        segments += [(".", done.draft_bytes / target_bytes), ("#", 1.0)]
    spent = sum(length for _, length in segments)
    scale = WIDTH / max(spent, emitted)
    return [
        "  time in target passes (naive: one costs 1 for any number of rows, a draft pass its weight bytes)",
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
