"""The page's sections on other experiments: what their records say, and nothing of other settings."""

from __future__ import annotations

import re

from made_records import GAMMAS, fill, made_animal, made_result

from experiments.ladder.rates import rung
from experiments.page import evidence as page_evidence
from experiments.page import tables as page_tables
from experiments.page.command import build_page, sources, with_neighbours
from experiments.page.plate import plate_data
from experiments.rules import glance as rules_glance
from experiments.rules import run as rules_run
from experiments.store import Store


def exact(
    store: Store, fault: str | None, tier: str, draft: str | None, caught: bool, reached: int = 1
) -> None:
    """A record as `selfdraft exact` writes it."""
    point = {"fault": fault, "tier": tier, "draft": draft}
    outcome = {
        "check": "c",
        "caught": caught,
        "evidence": 0.5 if caught else 1e-16,
        "limit": 1e-12,
        "sees": "",
        "error": "",
    }
    result = {
        "object": "rule",
        "where": ["f"],
        "what": "p and q exchanged",
        "reached": reached,
        **outcome,
    }
    if fault is None:
        result = {"caught": caught, "checks": [outcome | {"draft": "any"}] * 3}
    store.append(
        "exact", {"version": 1, "source": "a", "level": "whole", **point}, point, "ok", result
    )


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [[re.sub("<.*?>", "", c) for c in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def test_faults_stand_by_tier_with_who_caught_them(tmp_path):
    store = Store(tmp_path)
    for tier in ("algebra", "statistics"):
        exact(store, None, tier, None, False)
    exact(store, "ratio <inverted>", "algebra", "near", True)
    exact(store, "ratio <inverted>", "algebra", "far", True)
    exact(store, "ratio <inverted>", "statistics", "near", False)
    exact(store, "never run", "algebra", "any", False, reached=0)
    html = page_evidence.exactness(store)
    assert cells(html) == [
        ["fault", "planted in", "algebra", "statistics"],
        ["none: the program as it is", "–", "0 of 3 checks", "0 of 3 checks"],
        ["ratio &lt;inverted&gt;", "rule", "near, far", "·"],
        ["never run", "rule", "–", ""],
    ]
    assert "1 of 2 planted faults are caught" in html
    assert 'title="near: 0.5, where at most 1e-12 is allowed; far: 0.5' in html


def test_something_caught_in_the_clean_run_is_an_alarm(tmp_path):
    store = Store(tmp_path)
    exact(store, None, "algebra", None, True)
    assert '<td class="alarm">3 of 3 checks</td>' in page_evidence.exactness(store)


def test_findings_about_other_code_are_not_mixed_in(tmp_path):
    store = Store(tmp_path)
    exact(store, "old", "algebra", "near", True)
    for record in store.records.values():
        record["environment"]["time"] = "2000-01-01T00:00:00Z"
        record["inputs"]["source"] = "b"
    exact(store, "new", "algebra", "near", True)
    html = page_evidence.exactness(store)
    assert "new" in html and "old" not in html


def ladder(store: Store, draft: str, bits: float, accepted: float) -> dict:
    """A record of the ladder: 4 prompts of 10 rounds each at the chosen gamma of 2, `accepted` tokens in each."""
    counts = {"rounds": [10.0] * 4, "accepted": [accepted] * 4, "checked": [20.0] * 4}
    sums = {name: sum(values) for name, values in counts.items()}
    part = {
        "choosing": {"rounds": [40.0] * 3, "accepted": [4 * accepted] * 3},
        "gamma": 2,
        "reporting": counts,
        "cached": {"gamma": 2, **sums},
        "shared": [sums, sums],
        "overlap": [0.9, 0.9],
    }
    result = {
        "temperatures": dict.fromkeys(("0", "0.5", "1"), part),
        "c": {"nominal": bits / 16, "weights": bits / 16, "with_cache": bits / 8},
        "bits_per_weight": bits,
        "relative_squared_error": 0.01,
        "kl": [0.1, 0.1],
        "agreement": [0.9, 0.9],
        "mean_context": 100,
    }
    point = {"draft": draft}
    inputs = {"version": 1, "weights": "made", "calibration": draft, **point}
    return store.append("ladder", inputs, point, "ok", result)


def test_the_frontier_shows_every_format_its_figure_and_the_best_of_its_bytes(tmp_path):
    store = Store(tmp_path)
    records = [
        ladder(store, "rtn4", 4.5, 18.0),
        ladder(store, "a<b", 4.5, 15.0),
        ladder(store, "rtn3", 3.5, 16.0),
    ]
    html = page_evidence.frontier(store)
    rows = {row[0]: row[1:] for row in cells(html)[1:]}
    assert set(rows) == {"rtn4 ◎", "a&lt;b", "rtn3 ◎"}
    one = rung(records[2])
    assert rows["rtn3 ◎"] == [
        "3.50", "0.219", "20.0", "0.1000", "0.800", "2",
        *[str(one.rates[t].speed_up) for t in (1.0, 0.5, 0.0)], f"{2.6 / (1 + 2 * 3.5 / 8):.2f}",
    ]  # fmt: skip
    assert html.count("<svg") == 1 and "equal speed-up" in html


def test_the_zoo_shows_the_faster_first_and_names_what_is_lossy(tmp_path):
    store = Store(tmp_path)
    for draft, more in (("rtn4", {"emitted": 20}), ("rtn3", {"exact": False, "tree": True})):
        made = made_animal(draft, **more)
        inputs = {"version": 2, "weights": "made", **made["point"]}
        store.append("zoo", inputs, made["point"], "ok", made["result"])
    html = page_evidence.zoo(store)
    rows = cells(html)[1:]
    assert rows == [
        ["rtn3", "1", "4", "–", "3.00", "5.0", "0.250", "1", "1.50 [1.50, 1.50]", "1.50", "1.50", "1.50", "LOSSY"],
        ["rtn4", "1", "4", "0.571", "2.00", "5.0", "0.250", "1", "1.00 [1.00, 1.00]", "1.00", "1.00", "1.00",
         "the target&#x27;s"],
    ]  # fmt: skip
    assert (
        html.count("<svg") == 1
        and "T = 1: rtn4" in html
        and "rtn3 1.50 [1.50, 1.50] is" not in html
    )


def compared(store: Store, temperature: float = 1.0, ease: float = 1.0) -> None:
    """A record of the rules: every rule with counts of its own, gammas beyond the estimate's."""
    rules = {}
    for i, rule in enumerate(rules_run.RULES):
        made = made_result(ease + i, gammas=GAMMAS + 2)
        rules[rule] = {n: made[n] for n in ("rounds", "checked", "accepted", "full_rounds")}
    about = {k: v for k, v in made.items() if k not in rules["token"]}
    point = {"draft": "rtn4", "temperature": temperature}
    inputs = {"version": rules_run.VERSION, "weights": "made", **point}
    store.append(rules_run.NAME, inputs, point, "ok", {**about, "rules": rules})


def test_rules_that_were_compared_are_choices_and_the_estimate_keeps_its_place(tmp_path):
    """Records of the rules lie in a folder of their own beside the plate's."""
    store = fill(tmp_path / "plate")
    alone = plate_data(sources(store))
    other = Store(tmp_path / "rules")
    compared(other)
    compared(other, temperature=1.5)
    data = plate_data(sources(with_neighbours(store)))
    names = dict(data["controls"])
    assert names["rule"] == ["token", "block", "match", "coupled"]
    assert names["gamma"] == [str(g + 1) for g in range(GAMMAS)]
    assert names["temperature"] == ["0", "0.5", "1", "1.5"]
    for key, setting in alone["settings"].items():  # what the estimate holds is its own
        assert data["settings"][key]["shown"] == setting["shown"]
    for i in range(4):
        assert f"0,2,{i},1,0" in data["settings"]
    assert (
        "0,3,0,1,0" in data["settings"]
    )  # T = 1.5 under the token rule: only the comparison has it


def test_neighbours_are_read_from_inside_the_folder_too(tmp_path, monkeypatch):
    monkeypatch.setattr(page_tables, "figures", lambda records: [])
    store = fill(tmp_path / "deep" / "reference")
    exact(Store(tmp_path / "deep" / "reference" / "exact"), "planted here", "algebra", "near", True)
    assert "planted here" in build_page(store)
    assert "planted here" not in str(store.records)  # the store that was given stays as it is


def test_a_glance_at_the_rules_is_enough_for_the_control_and_gives_way_to_the_comparison(tmp_path):
    store = fill(tmp_path)
    made = made_result(3.0, prompts=3)
    names = ("rounds", "checked", "accepted", "full_rounds")
    point = {"draft": "rtn4", "temperature": 1.0}
    rules = {rule: {n: made[n] for n in names} for rule in rules_glance.RULES}
    result = {k: v for k, v in made.items() if k not in names} | {"rules": rules}
    inputs = {"version": rules_glance.VERSION, "weights": "made", **point}
    store.append(rules_glance.NAME, inputs, point, "ok", result)
    data = plate_data(sources(store))
    assert dict(data["controls"])["rule"] == ["token", "block", "match", "coupled"]
    assert "3 prompts" in data["settings"]["0,2,1,1,0"]["say"]
    assert "0,1,1,1,0" not in data["settings"]  # at T = 0.5 nothing was measured
    compared(store)
    assert "6 prompts" in plate_data(sources(store))["settings"]["0,2,1,1,0"]["say"]
