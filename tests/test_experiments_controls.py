"""Liveness: an engine that is broken alike on both sides is no evidence, in the comparison and in the command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from experiments.__main__ import main
from experiments.identity import command as identity
from experiments.identity import comparison, controls
from experiments.identity.comparison import GREEDY, compare, margin, plain_text, unequal
from experiments.identity.controls import PLANTS, Engine, Plant, noticed
from experiments.identity.counts import Counts, controls_line
from micro.chance import SeededChance
from micro.checkpoint import save_model
from specdec.decode import rounds
from specdec.drafts import make_draft
from tests.byte_model import byte_model

PROMPT = list(b"The attention")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


def twice(engine, new_tokens=12, spoil=lambda cache: None):
    """The comparison of an engine with itself, in lanes; `spoil` changes both caches at the end."""
    plain = plain_text(engine, PROMPT, new_tokens, 8)
    spoil(plain.cache)
    decoding = rounds(
        engine, make_draft(byte_model(), "rtn4"), PROMPT, max_new_tokens=new_tokens, gamma=3, sampling=GREEDY,
        chance=SeededChance(0), lanes=8,
    )  # fmt: skip

    def ending():
        for done, state in decoding:
            if state.ended:
                spoil(state.cache)
            yield done, state

    return compare(plain, ending()).counts


def test_a_number_that_is_not_finite_equals_nothing():
    nan, inf = float("nan"), float("inf")
    a = torch.tensor([0.0, 1.0, nan, inf, -inf])
    assert unequal(a, a.clone()) == 3
    assert unequal(a[:2], a[:2].clone()) == 0
    assert unequal(a, torch.tensor([-0.0, 1.0, 2.0, inf, -inf])) == 4
    assert margin(torch.tensor([nan, 1.0, 2.0])) is None and margin(torch.tensor([3.0, 1.0])) == 2


def test_a_living_engine_is_alive():
    counts = twice(byte_model())
    assert counts.identical is True and counts.dead == {}


def test_the_same_nan_in_both_caches_differs():
    def spoil(cache):
        with torch.inference_mode():
            cache.values[1, 0, 1, 3, 5] = float("nan")

    counts = twice(byte_model(), spoil=spoil)
    assert counts.entries_differing == 1 and counts.rows_differing == 0
    assert counts.identical is False


def test_logits_of_zeros_are_dead_rows_and_a_dead_text():
    counts = twice(Engine(byte_model(), torch.zeros_like))
    assert counts.rows_differing == counts.entries_differing == counts.texts_differing == 0
    assert counts.rows_dead == 12 and counts.texts_dead == 1 and counts.vectors_dead == 0
    assert counts.identical is None and counts.dead == {"texts": 1, "rows": 12}


def test_rows_that_never_change_are_a_dead_text():
    counts = twice(Engine(byte_model(), controls._one_row))
    assert counts.rows_dead == 0 and counts.texts_dead == 1 and counts.identical is None


def test_zeroed_vectors_of_both_caches_are_counted():
    def spoil(cache):
        with torch.inference_mode():
            cache.keys[1, 0, :, 3] = 0
            cache.values[0, 0, :, 4:6] = 0
            cache.values[0, 0, 0, 7] = 0  # one head of two: no whole vector

    counts = twice(byte_model(), spoil=spoil)
    assert counts.vectors_dead == 3 and counts.identical is None


def test_a_difference_outweighs_what_is_dead():
    counts = Counts(texts=2, rows=4, rows_dead=1, texts_dead=1)
    assert counts.identical is None
    assert replace(counts, rows_differing=1).identical is False
    assert (counts + Counts(vectors_dead=2)).dead == {"texts": 1, "rows": 1, "cache vectors": 2}


def test_every_plant_is_noticed_and_the_engine_as_it_is_is_not(monkeypatch):
    model = byte_model()
    found = noticed(model, make_draft(model, "rtn4"), PROMPT)
    assert list(found) == list(PLANTS) and all(found.values())
    line = controls_line(found)
    assert "noticed" in line and "NOT" not in line and all(name in line for name in PLANTS)
    monkeypatch.setattr(controls, "PLANTS", {"nothing at all": Plant()})
    found = noticed(model, make_draft(model, "rtn4"), PROMPT)
    assert found == {"nothing at all": False} and "NOT noticed" in controls_line(found)


def command(folder, *more):
    options = [
        "--drafts",
        "rtn4",
        "--gammas",
        "3",
        "--tokens",
        "9",
        "--prompts",
        "1",
        "--workers",
        "1",
    ]
    return main(["identity", "--model", str(folder), *options, *more])


def test_the_command_shows_that_its_controls_ran(folder, capsys):
    assert command(folder) == 0
    out = capsys.readouterr().out
    assert "controls: planted on both sides and noticed: " in out and "identical: yes" in out
    assert command(folder, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["controls"] == dict.fromkeys(PLANTS, True) and report["dead"] == {}


@pytest.mark.parametrize("name", ["logits of zeros", "the same row of logits for every token", "weights of zeros"])  # fmt: skip
def test_a_broken_engine_planted_in_the_command_makes_no_claim(folder, capsys, monkeypatch, name):
    good = byte_model()
    broken = PLANTS[name].engine(good)
    monkeypatch.setattr(identity, "open_model", lambda folder: broken)
    monkeypatch.setattr("specdec.drafts.make_draft", lambda *args: make_draft(good, "rtn4"))
    monkeypatch.setattr("micro.lanes.probe", lambda model, lanes: ())
    monkeypatch.setattr(controls, "noticed", lambda *args: {"stands aside": True})
    assert command(folder) == 1
    out = capsys.readouterr().out
    assert "no claim" in out and "dead: " in out and "identical" not in out.splitlines()[-1]
    assert command(folder, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["identical"] is None and report["dead"]["rows" if "row" not in name else "texts"]


def test_a_nan_planted_in_the_command_exits_1_and_is_named(folder, capsys, monkeypatch):
    good = byte_model()
    broken = PLANTS["a NaN in every row of logits"].engine(good)
    monkeypatch.setattr(identity, "open_model", lambda folder: broken)
    monkeypatch.setattr("specdec.drafts.make_draft", lambda *args: make_draft(good, "rtn4"))
    monkeypatch.setattr("micro.lanes.probe", lambda model, lanes: ())
    monkeypatch.setattr(controls, "noticed", lambda *args: {"stands aside": True})
    assert command(folder) == 1
    out = capsys.readouterr().out
    assert "no claim" in out and "NaN" in out and out.count("\n") == 1
    assert command(folder, "--json") == 1
    assert json.loads(capsys.readouterr().out)["identical"] is None


def test_a_comparison_that_takes_nan_for_equal_fails_the_command(folder, capsys, monkeypatch):
    monkeypatch.setattr(comparison, "unequal", comparison.differing)
    assert command(folder) == 1
    out = capsys.readouterr().out
    assert "NOT noticed when planted on both sides: a NaN in the cache" in out and "no claim" in out
