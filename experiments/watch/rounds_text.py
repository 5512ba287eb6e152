"""A recorded run in words and counts: its title, its totals, and the check of its text. Runs no model."""

from __future__ import annotations

from specdec.record import Totals


def title(record: dict) -> str:
    """lesson, rtn4, T = 1, γ = 4"""
    point = record["point"]
    rule = "" if point["rule"] == "token" else f", {point['rule']} rule"
    return f"{point['kind']}, {point['draft']}, T = {point['temperature']:g}, γ = {point['gamma']}{rule}"


def totals(record: dict) -> Totals:
    """The run's counts, from its recorded tokens' fates."""
    done = record["result"]["rounds"]
    fates = [[token["fate"] for token in one["drafted"]] for one in done]
    return Totals(
        rounds=len(done),
        proposed=sum(map(len, fates)),
        checked=sum(one["checked"] for one in done),
        accepted=sum(one.count("accepted") for one in fates),
        emitted=sum(len(one["emitted"]) for one in done),
        draft_passes=sum(one["draft_passes"] for one in done),
        full_rounds=sum(one.count("accepted") == len(one) for one in fates),
    )


def check_text(record: dict) -> str:
    """What is known of the text beside the target's own."""
    same, n = record["result"]["same_text"], len(record["result"]["tokens"])
    if same is None:
        return (
            "Every token is drawn from exactly the target's distribution. At T > 0 a text is one draw, so there is no second "
            "text to compare byte by byte; `selfdraft exact` tests the distribution."
        )
    how = "greedy" if not record["point"]["temperature"] else "under the same keyed noise"
    if same:
        return f"The text equals the target's own, {how}: all {n} tokens, in the same lanes."
    return f"The text DIFFERS from the target's own, {how}."
