"""The identity check: it finds nothing where there is nothing, and each of its three comparisons can fail."""

import argparse
import json

import pytest
import torch

from experiments.__main__ import main
from experiments.identity import command as identity
from experiments.identity.comparison import GREEDY, compare, plain_text
from experiments.identity.counts import Counts
from experiments.paths import DATA
from experiments.prompts import load_prompts
from micro.chance import SeededChance
from micro.checkpoint import save_model
from micro.files import FileFault
from micro.lanes import differing, probe
from specdec.decode import rounds
from specdec.drafts import make_draft
from tests.byte_model import byte_model, twin_model

PROMPT, TOKENS, LANES = list(b"The attention"), 40, 8


def decode(model, gamma=4, lanes=LANES, draft="rtn4", tokens=TOKENS):
    return rounds(
        model,
        make_draft(model, draft),
        PROMPT,
        max_new_tokens=tokens,
        gamma=gamma,
        sampling=GREEDY,
        chance=SeededChance(0),
        lanes=lanes,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


@pytest.fixture
def prompt_set(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [("plate", "lesson", "The attention"), ("b", "copy", "1, 2, 3\n"), ("c", "free", "é")]
    path.write_text("".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in rows))
    return path


def test_numbers_are_compared_by_their_bits():
    a = torch.tensor([0.0, 1.0, float("nan")])
    assert differing(a, a.clone()) == 0
    assert differing(a, torch.tensor([-0.0, 1.0, float("nan")])) == 1
    assert differing(a, torch.nextafter(a, torch.tensor(9.0))) == 2  # NaN stays NaN
    assert differing(a.bfloat16(), a.bfloat16()) == 0
    with pytest.raises(ValueError):
        differing(a, a[:2])
    with pytest.raises(ValueError):
        differing(a, a.double())


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_the_probe_finds_every_lane_alike(lanes):
    assert probe(byte_model(), lanes) == ()


def test_the_probe_names_the_lanes_that_differ():
    class Uneven(type(byte_model())):
        """Its third row of every pass is off by a rounding."""

        def forward(self, tokens, cache, *rest):
            logits, hidden = super().forward(tokens, cache, *rest)
            logits[:, 2:3] *= 1 + 2**-23
            return logits, hidden

    model = byte_model()
    model.__class__ = Uneven
    assert probe(model, 8) == (2,)
    with pytest.raises(ValueError, match="lanes"):
        probe(model, 0)


def test_the_probe_leaves_the_lanes_that_a_short_context_cannot_fill():
    assert probe(byte_model(context=5), 16) == ()


@pytest.mark.parametrize("draft", ["rtn4", "rtn3", "absmax3"])
@pytest.mark.parametrize("gamma", [1, 3, 7])
def test_in_lanes_text_logits_and_caches_are_identical(draft, gamma):
    model = byte_model()
    plain = plain_text(model, PROMPT, TOKENS, LANES)
    counts, fork, _ = compare(plain, decode(model, gamma, draft=draft))
    assert fork is None and counts.identical
    held = len(PROMPT) + TOKENS - 1  # all but the last token
    numbers = 2 * 2 * 2 * 16 * held  # keys and values x layers x heads x width
    assert counts == Counts(texts=1, tokens=TOKENS, rows=TOKENS, entries=numbers)


def test_without_lanes_rounding_forks_the_text_and_in_lanes_it_does_not():
    model = twin_model()
    counts, fork, _ = compare(plain_text(model, PROMPT, TOKENS, 0), decode(model, lanes=0))
    assert fork is not None and not counts.identical
    assert fork.plain ^ 1 == fork.speculative  # twins are 2n and 2n + 1
    assert 0 <= fork.margin < 1e-4  # logits of size about 10: a few roundings of 1e-6 each
    assert counts.tokens == fork.place and counts.rows == fork.place + 1
    assert counts.rows_differing >= 1 and counts.texts_differing == 1
    counts, fork, _ = compare(plain_text(model, PROMPT, TOKENS, LANES), decode(model))
    assert fork is None and counts.identical


def poked(decoding):
    """The decoding with one number of the target's cache changed in its last bit when the text has ended."""
    for done, state in decoding:
        if state.ended:
            with torch.inference_mode():
                entry = state.cache.values[1, 0, 1, 3, 5]
                entry.copy_(torch.nextafter(entry, torch.tensor(9.0)))
        yield done, state


def test_one_changed_bit_of_a_cache_entry_is_a_fault():
    model = byte_model()
    counts, fork, _ = compare(plain_text(model, PROMPT, TOKENS, LANES), poked(decode(model)))
    assert fork is None and counts.rows_differing == 0
    assert counts.entries_differing == 1 and not counts.identical


def test_a_cache_entry_changed_early_shows_in_later_logits():
    model = byte_model()

    def spoiled():
        for number, (done, state) in enumerate(decode(model)):
            yield done, state
            if number == 0:
                with torch.inference_mode():
                    state.cache.values[1, 0, 1, 3, 5] += 0.5

    counts, _, _ = compare(plain_text(model, PROMPT, TOKENS, LANES), spoiled())
    assert counts.rows_differing > 0 and not counts.identical


@pytest.mark.parametrize("plain_tokens, loop_tokens", [(40, 30), (30, 40)])
def test_a_text_that_ends_elsewhere_is_a_fork(plain_tokens, loop_tokens):
    model = byte_model()
    plain = plain_text(model, PROMPT, plain_tokens, LANES)
    counts, fork, _ = compare(plain, decode(model, tokens=loop_tokens))
    assert fork.place == 30 and counts.rows == 30 and counts.texts_differing == 1
    assert (fork.speculative is None) == (loop_tokens == 30)
    assert (fork.plain is None) == (plain_tokens == 30)


def small(folder, prompt_set, *more):
    return main(
        ["identity", "--model", str(folder), "--prompt-set", str(prompt_set), "--tokens", "9",
         "--workers", "1", *more]
    )  # fmt: skip


def test_the_command_counts_what_it_compared(folder, prompt_set, capsys):
    assert small(folder, prompt_set, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    texts = 3 * 3 * 10
    assert report["identical"] is True and report["forks"] == []
    assert report["total"]["texts"] == texts and report["total"]["tokens"] == texts * 9
    assert report["total"]["rows"] == texts * 9
    held = sum(len(p.text) + 8 for p in load_prompts(prompt_set))
    assert report["total"]["entries"] == 30 * 2 * 2 * 2 * 16 * held
    assert report["without_lanes"]["texts"] == 3
    assert small(folder, prompt_set, "--drafts", "rtn3", "--gammas", "1,4") == 0
    out, err = capsys.readouterr()
    assert "identical: yes. 54 tokens of 6 texts (3 prompts, gamma 1, 4, T 0, rule token)" in out
    assert "\r" not in out + err and "\x1b" not in out + err  # no bar outside a terminal


def test_the_command_shows_forks_without_lanes_and_exits_1(folder, prompt_set, capsys, monkeypatch):
    monkeypatch.setattr(identity, "open_model", lambda folder: twin_model())
    assert small(folder, prompt_set, "--lanes", "off", "--gammas", "4") == 1
    out = capsys.readouterr().out
    assert "fork: prompt " in out and "top-2 margin" in out and "identical: NO" in out
    assert small(folder, prompt_set, "--gammas", "4") == 0


def test_no_claim_where_the_probe_finds_other_bits(folder, prompt_set, capsys, monkeypatch):
    monkeypatch.setattr("micro.lanes.probe", lambda model, lanes: (3, 5))
    assert small(folder, prompt_set) == 1
    out = capsys.readouterr().out
    assert "no claim" in out and "[3, 5]" in out and "identical: yes" not in out
    assert small(folder, prompt_set, "--json") == 1
    assert json.loads(capsys.readouterr().out)["identical"] is None


def test_several_processes_give_what_one_gives(folder, prompt_set, capsys):
    reports = []
    for workers in ("1", "2"):
        options = ["--gammas", "2", "--drafts", "rtn4", "--json", "--workers", workers]
        assert small(folder, prompt_set, *options) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]


def test_by_default_at_least_50_000_tokens_are_compared():
    parser = argparse.ArgumentParser()
    identity.add_arguments(parser)
    args = parser.parse_args([])
    texts = len(load_prompts(DATA / "prompts.jsonl")) * len(args.drafts.split(","))
    assert texts * len(args.gammas) * args.tokens >= 50_000
    assert args.gammas == list(range(1, 11)) and args.drafts == "rtn4,rtn3,absmax3"


@pytest.mark.parametrize(
    "line, fault",
    [
        (b"{", "not JSON"),
        (b"[1]", "list"),
        (b'{"id": "x", "kind": "copy"}', "'text'"),
        (b'{"id": "x", "kind": "copy", "text": ""}', "'text'"),
        (b'{"id": 7, "kind": "copy", "text": "a"}', "'id'"),
        (b'{"id": "x", "kind": "poem", "text": "a"}', "lesson, copy, free"),
        (b'{"id": "plate", "kind": "copy", "text": "a"}', "used before"),
        (b'{"id": "x", "kind": "copy", "text": "\\ud800"}', "surrogate"),
        (b'{"id": "x", "kind": "copy", "text": "\xff"}', "not JSON"),
    ],
)
def test_a_prompt_file_is_refused_by_its_line(tmp_path, line, fault):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": "plate", "kind": "lesson", "text": "The attention"}\n\n' + line)
    with pytest.raises(FileFault, match="line 3") as refusal:
        load_prompts(path)
    assert fault in str(refusal.value) and "\n" not in str(refusal.value)


def test_only_a_newline_ends_a_line_of_prompts(tmp_path):
    path = tmp_path / "p.jsonl"
    text = "a\u2028b\u0085c\r\n"
    row = json.dumps({"id": "x", "kind": "free", "text": text}, ensure_ascii=False)
    path.write_bytes(row.encode() + b"\r\n")
    assert [p.text for p in load_prompts(path)] == [text.encode()]
    path.write_bytes(b"\n \n")
    with pytest.raises(FileFault, match="no prompt"):
        load_prompts(path)


def test_a_name_that_holds_a_comma_can_be_given():
    assert identity.names_in("rtn4,rtn3,rtn4") == ["rtn4", "rtn3"]
    assert identity.names_in("layers:0,3;") == ["layers:0,3"]
    assert identity.names_in("layers:0,3;lookahead:w=5,n=4") == ["layers:0,3", "lookahead:w=5,n=4"]
