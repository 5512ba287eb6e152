"""The bench's time to a standard error: its arithmetic, and that what it measures is what it says."""

import argparse
import json

import numpy as np
import pytest

from experiments.bench import precision as bench_precision
from experiments.bench.precision import (
    card,
    extrapolated,
    measure_precision,
    one_text_error,
    texts_wanted,
)
from micro.chance import generator_for
from micro.checkpoint import save_model
from tests.byte_model import byte_model


def test_texts_wanted():
    assert texts_wanted(0.5, 10) == pytest.approx(2500)
    assert texts_wanted(0.0, 193) == 193  # greedy: one of each prompt


def test_one_texts_share_of_the_error():
    """400 prompts x 2 texts of 10 rounds each that emit 30 with deviation 2: s = .2, estimated to 5% / sqrt(2)."""
    rng = generator_for(1, "precision")
    owner = np.repeat(np.arange(400), 2)
    prompt = rng.normal(30, 10, size=400)[owner]  # the prompts' own spread does not count
    rounds = np.full(800, 10.0)
    assert one_text_error(prompt + rng.normal(0, 2, size=800), rounds, owner) == pytest.approx(0.2, rel=0.15)  # fmt: skip


def test_the_sum_over_the_grid():
    """One draft, gamma 1 ... 3 measured at 1 and 3; 5 prompts. s .1, .2, .3 want 100, 400, 900 texts of 1, 2, 3 seconds."""
    loop = [{"draft": "a", "gamma": 1, "seconds": 1.0, "s": 0.1},
            {"draft": "a", "gamma": 3, "seconds": 3.0, "s": 0.3}]  # fmt: skip
    assisted = [{**point, "seconds": 10.0} for point in loop]
    one = {"replay": {"drawing": 0.5, "drafts": [{"s": 0.2, "seconds": 0.25}, {"s": 0.1, "seconds": 1.0}]},
           "loop": loop, "assisted": assisted}  # fmt: skip
    cold = {"replay": {"drawing": 0.5, "drafts": [{"s": 0.0, "seconds": 0.5}]},
            "loop": [{**point, "s": 0.0} for point in loop], "assisted": assisted}  # fmt: skip
    found = extrapolated([one, cold], prompts=5, most_gamma=3)
    seconds = 400 * 0.5 + 400 * 0.25 + 100 * 1.0 + 5 * (0.5 + 0.5)
    assert found["total"]["replay"] == pytest.approx({"texts": 405, "seconds": seconds})
    assert found["total"]["loop"] == pytest.approx({"texts": 1415, "seconds": 100 + 800 + 2700 + 5 * 6})  # fmt: skip
    assert found["total"]["assisted"]["seconds"] == pytest.approx(14150)
    assert found["times_faster"] == pytest.approx(
        {"loop": 3630 / seconds, "assisted": 14150 / seconds}
    )
    without = [{name: way[name] for name in ("replay", "loop")} for way in (one, cold)]
    assert "assisted" not in extrapolated(without, 5, 3)["total"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder, patch = tmp_path_factory.mktemp("precision"), pytest.MonkeyPatch()
    save_model(folder / "model", byte_model())
    rows = [(str(i), "copy", "text" * (i + 1)) for i in range(4)]
    text = "".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in rows)
    (folder / "prompts.jsonl").write_text(text)
    patch.setattr(bench_precision, "TEMPERATURES", (0.0, 1.0))
    patch.setattr(bench_precision, "DRAFTS", ("rtn3",))
    patch.setattr(bench_precision, "GAMMAS", (1, 4))
    patch.setattr(bench_precision, "missing", lambda: "no peer here")
    drawn = []
    real = bench_precision.Setting._draw
    patch.setattr(
        bench_precision.Setting, "_draw", lambda self, t: drawn.append(t) or real(self, t)
    )
    args = argparse.Namespace(model=folder / "model", prompts=folder / "prompts.jsonl")
    said = []
    found = measure_precision(args, said.append)
    patch.undo()
    assert drawn == [0.0, 1.0]  # each temperature's texts are drawn while the clock runs
    return found, said


def test_what_is_measured(result):
    found, said = result
    assert "no peer here" in said and "assisted" not in found["total"]
    cold, warm = found["measured"]
    assert [p["s"] for way in (cold["replay"]["drafts"], cold["loop"]) for p in way] == [0, 0, 0]
    assert cold["replay"]["texts"] == 4 and warm["replay"]["texts"] == 4 * bench_precision.TEXTS
    for point in warm["replay"]["drafts"] + warm["loop"]:
        assert point["s"] > 0 and point["seconds"] > 0
    assert warm["replay"]["drawing"] > 0
    assert found["times_faster"]["loop"] > 1 and json.loads(json.dumps(found, allow_nan=False)) == found  # fmt: skip


def test_the_card_says_what_is_not_measured(result):
    text = "\n".join(card(result[0]))
    assert "Extrapolated: all texts and times" in text
    assert "at all 20 points" in text and "given 4 prompts" in text
    assert ("met" in text) != ("MISSED" in text)
