"""The experiment of shared caches: what it counts and derives, what it prints and draws."""

import copy
import json

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.halves import halves
from experiments.prompts import load_prompts
from experiments.shared import run as shared_run
from experiments.shared.figure import shared
from experiments.shared.table import as_json, change, lines, pairs, rates, row
from experiments.store import Store
from micro.checkpoint import save_model
from tests.byte_model import byte_model

WINDOW = 16
ROWS = [("x-1", "lesson", "The attention"), ("x-2", "lesson", "Some"), ("y-1", "lesson", "a b"),
        ("y-2", "lesson", "One more")]  # fmt: skip
POINTS = [{"draft": "rtn2", "cache": cache, "temperature": t} for t in (0.0, 1.0)
          for cache in shared_run.CACHES]  # fmt: skip


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    save_model(folder / "model", byte_model())
    text = "".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in ROWS)
    (folder / "prompts.jsonl").write_text(text)
    patch = pytest.MonkeyPatch()
    patch.setattr(shared_run, "POINTS", POINTS)

    def run(*more):
        return main(["run", "shared", "--model", str(folder / "model"), "--prompts",
                     str(folder / "prompts.jsonl"), "--window", str(WINDOW),
                     "--out", str(folder / "out"), *more])  # fmt: skip

    run.folder = folder
    yield run
    patch.undo()


@pytest.fixture(scope="module")
def records(call):
    assert call() == 0
    return Store(call.folder / "out").of("shared")


def test_places_of_a_round_are_counted():
    assert shared_run.at_places([2, 1, 0, 8]) == [3, 2, 1, 1, 1, 1, 1, 1]


def test_counts_of_whole_rounds_by_prompt(records, call):
    class Plain:
        prompts = load_prompts(call.folder / "prompts.jsonl")

    reporting = [Plain.prompts[i].id for i in halves(Plain.prompts)[1]]
    assert [record["point"] for record in records] == POINTS and reporting == ["y-1", "y-2"]
    for record in records:
        result = record["result"]
        judged, accepted = np.array(result["judged"]), np.array(result["accepted"])
        assert result["prompts"] == reporting and judged.shape == (2, 8)
        assert (judged[:, 0] == result["rounds"]).all() and (accepted <= judged).all()
        assert (
            accepted[:, :-1] >= judged[:, 1:]
        ).all()  # a place is judged where all before were kept
        # each round emits what it kept and one token more; the last one starts in the window
        assert (accepted.sum(1) + result["rounds"] >= result["emitted"]).all()
        assert all(WINDOW <= n <= WINDOW + shared_run.GAMMA for n in result["emitted"])


def test_sharing_changes_what_is_held_and_not_what_is_read(records):
    own, both = records[0]["result"], records[1]["result"]
    for name in ("target", "draft", "cache_read"):
        assert own["bytes"][name] == both["bytes"][name]
    one = byte_model().cache_bytes(1)
    assert own["bytes"]["cache_kept"] == (own["mean_context"] + 8) * one
    assert both["bytes"]["cache_kept"] == 8 * one
    assert own["accepted"] != both["accepted"] or own["rounds"] != both["rounds"]


def synthetic(cache: str, judged, accepted) -> dict:
    """Two prompts, a draft of half the target's bytes, two places."""
    passes = [2 * row[0] for row in judged]
    return {
        "point": {"draft": "rtn3", "cache": cache, "temperature": 1.0},
        "result": {
            "prompts": ["a", "b"], "kinds": ["copy", "free"], "gamma": 2, "mean_context": 100,
            "rounds": [row[0] for row in judged],
            "emitted": [row[0] + sum(kept) for row, kept in zip(judged, accepted)],
            "draft_bytes": [50 * n for n in passes],
            "judged": judged, "accepted": accepted,
            "bytes": {"target": 100, "draft": 50, "cache_read": 100,
                      "cache_kept": {"own": 102, "shared": 2}[cache]},
        },
    }  # fmt: skip


OWN = synthetic("own", [[10, 5], [10, 5]], [[5, 5], [5, 0]])
SHARED = synthetic("shared", [[10, 8], [10, 8]], [[8, 8], [8, 4]])


def test_rates_by_hand():
    """Own: 15 of 30 accepted; at place 1 10 of 20, at place 2 5 of 10; 35 tokens in 20 rounds, with passes of half a target's."""
    found = {name: values[0] for name, values in rates(OWN).items()}
    assert found["alpha"] == 0.5 and found["places"].tolist() == [0.5, 0.5]
    assert found["tokens_per_pass"] == 35 / 20 and found["speed_up"] == 35 / (20 + 20)
    one = row(OWN)
    assert (one.c, one.c_with_cache, one.cache_kept) == (0.5, 0.75, 102)
    # prompt a alone accepts all at place 2, b none: the interval spans both
    assert (one.places[1].low, one.places[1].high) == (0.0, 1.0)


def test_changes_are_paired_by_prompt():
    """At place 1 every resample of prompts gives .8 less .5."""
    (both,) = pairs([SHARED, OWN])
    found = change(*both)
    assert found.places[0].low == pytest.approx(0.3) == found.places[0].high
    assert found.alpha.value == pytest.approx(28 / 36 - 0.5) and found.saved == 100


def test_a_place_that_was_never_reached_has_no_interval(records):
    bare = copy.deepcopy(OWN)
    bare["result"]["judged"] = [[10, 0], [10, 0]]
    bare["result"]["accepted"] = [[0, 0], [0, 0]]
    assert row(bare).places[1] is None
    json.dumps(as_json([bare, SHARED]), allow_nan=False)
    drawn = copy.deepcopy(records)
    for record in drawn:
        for kind in ("judged", "accepted"):
            record["result"][kind] = [[*counts[:7], 0] for counts in record["result"][kind]]
    assert all(line.endswith(" -") for line in lines(drawn)[2:6])
    shared(drawn)  # a figure that leaves it out


def test_what_is_on_record_is_not_measured_again_and_json_is_strict(call, records, capsys):
    assert call("--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert len(found["rows"]) == 4 and len(found["changes"]) == 2
    assert "Measured 0 points, 4 were on record" in err
    assert (call.folder / "out" / "shared.png").exists()


def test_the_lines_tell_both_caches_the_change_and_the_bytes(records):
    text = "\n".join(lines(records))
    for words in ("rtn2     0 own", "rtn2     1 shared", "Shared less own", "% less in all"):
        assert words in text


def test_no_records_make_a_figure_that_says_so():
    assert "selfdraft run shared" in shared([]).axes[0].texts[0].get_text()
