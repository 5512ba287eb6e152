"""The bench's result as a card for people. Measures nothing."""

from __future__ import annotations


def card(result: dict) -> list[str]:
    """Settings and machine, times, ratios with their goals, then what to know when reading them."""
    s, e, clock = result["settings"], result["environment"], result["clock"]
    peer = f"transformers {e['transformers']}" if e["transformers"] else "no transformers"
    return [
        f"{e['machine']}, {e['threads']} threads, {e['device']}, {e['dtype']}; torch {e['torch']}, {peer}",
        f"one sequence, {s['tokens']} new tokens, prompts {', '.join(s['prompts'])}; draft {s['draft']}, rule {s['rule']}, gamma {s['gamma']}, "
        f"{s['lanes']} lanes; {s['warmups']} warm-ups, {s['repeats']} turns",
        "",
        f"{'milliseconds a token or pass':44} {'median':>9} {'quartiles':>19} {'min':>9} {'max':>9}",
        *(_time(f"{group}: {job}", t) for group, jobs in result["times_ms"].items() for job, t in jobs.items()),
        "",
        f"{'times faster (median of pairs)':62} {'95% interval':>16}   goal",
        *(_ratio(line) for line in result["ratios"]),
        "",
        "Tokens per pass: "
        + "; ".join(f"{name} {value:.2f}" for name, value in result["tokens_per_pass"].items()),
        f"Greedy speculative text is {'that' if result['identical'] else 'NOT that'} of plain decoding. The clocks inside account for "
        f"{clock['inside_share']:.1%} of {clock['outside_seconds']:.1f} s by the one outside.",
    ]  # fmt: skip


def _time(name: str, t: dict[str, float]) -> str:
    quartiles = f"{t['q1']:.3f} - {t['q3']:.3f}"
    return f"{name:44} {t['median']:9.3f} {quartiles:>19} {t['min']:9.3f} {t['max']:9.3f}"


def _ratio(line: dict) -> str:
    interval = f"[{line['low']:.2f}, {line['high']:.2f}]"
    if line["confidence"] < 0.95:  # too few turns: say what the widest interval is worth
        interval += f" at {line['confidence']:.0%}"
    goal = "" if line["goal"] is None else f"   {line['wanted']} {line['goal']:g}: {'met' if line['met'] else 'MISSED'}"  # fmt: skip
    return f"{line['name']:62} {line['value']:5.2f} {interval}{goal}"
