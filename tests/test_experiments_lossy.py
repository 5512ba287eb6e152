"""`selfdraft run lossy`: whatever used a lossy rule says so, in records and rows; counts by hand; an exact rule's text is the target's."""

from __future__ import annotations

import json
import math

import pytest
import torch

from experiments.__main__ import main
from experiments.store import Store
from experiments.zoo import lossy
from micro.checkpoint import load_model, save_model
from micro.sampling import Sampling
from specdec.accept import RULES
from specdec.typical import LOSSY
from tests.byte_model import byte_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    save_model(folder / "model", byte_model())
    rows = [{"id": f"{plate}-1", "kind": "lesson", "text": f"{plate} two"} for plate in "abcd"]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def printed(place, monkeypatch, capsys):
    points = [{"draft": "rtn3", "rule": rule} for rule in lossy.RULES]
    monkeypatch.setattr(lossy.Lossy, "POINTS", points)
    words = ["run", "lossy", "--model", str(place / "model"), "--prompts", str(place / "prompts.jsonl"), "--out", str(place / "out"),
             "--window", "32"]  # fmt: skip
    assert main(words) == 0
    return capsys.readouterr().out.splitlines()


def test_every_rule_that_is_not_exact_says_lossy_in_record_and_row(place, printed):
    assert set(lossy.RULES) <= RULES.keys() | LOSSY.keys() and set(lossy.RULES) & LOSSY.keys()
    records = Store(place / "out").of("lossy")
    assert len(records) == len(printed) - 2 == 2
    for record, row in zip(records, printed[2:]):
        inexact = record["point"]["rule"] not in RULES
        assert ("lossy" in row) == ("lossy" in record["point"]["rule"]) == inexact


def test_the_counts_are_the_text_s_own(place, printed):
    """Nats and likeliest bytes of a text spelled out from the record's own seed."""
    from experiments.exact.check import texts
    from micro.chance import SeededChance
    from specdec.drafts import make_draft

    model = load_model(place / "model")
    for record in Store(place / "out").of("lossy"):
        prompt = list(b"b two")
        done = texts(model, make_draft(model, "rtn3"), prompt, 32, lossy.BUDGET, Sampling(lossy.TEMPERATURE),
                     SeededChance(lossy.SEED, "b-1"), rule=record["point"]["rule"])  # fmt: skip
        found = {name: values[1] for name, values in record["result"]["counts"].items()}
        nats = likeliest = 0
        for place_, token in enumerate(done.tokens):
            text = torch.tensor([[*prompt, *done.tokens[:place_]]])
            law = model(text)[0][0, -1].softmax(-1)
            nats -= math.log(float(law[token]))
            likeliest += int(law.argmax()) == token
        assert found["nats"] == pytest.approx(nats, rel=1e-4)  # float32 passes of other widths
        assert found["likeliest"] == likeliest and found["emitted"] == 32
        assert found["rounds"] == len(done.rounds)


def test_typical_text_is_duller_than_the_target_s(place, printed):
    exact, typical = (r["result"]["counts"] for r in Store(place / "out").of("lossy"))
    assert sum(typical["nats"]) < sum(exact["nats"])
    assert sum(typical["likeliest"]) > 2 * sum(exact["likeliest"])
