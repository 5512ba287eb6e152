"""`selfdraft generate`: what is streamed is the text, and the closing line tells the truth about it."""

import io
import json
import sys

import pytest

from experiments.__main__ import main
from micro.chance import SeededChance
from micro.checkpoint import load_model, save_model
from micro.generate import generate as plain
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.accept import RULES
from specdec.drafts.stored import save_quantized
from tests.byte_model import byte_model, twin_model

PROMPT = "The attention"
TOKENS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


@pytest.fixture
def call(folder, capsys):
    """generate(options) -> (stdout, stderr); the exit code must be 0."""

    def run(*options, prompt=(PROMPT,)):
        line = ["generate", *prompt, "--model", str(folder), "--max-new-tokens", str(TOKENS)]
        assert main([*line, *options]) == 0
        return capsys.readouterr()

    return run


def test_prompt_and_text_go_to_stdout_and_one_line_to_stderr(call, folder):
    out, err = call("-T", "0")
    expected = plain(
        load_model(folder), list(PROMPT.encode()), TOKENS, Sampling(0), SeededChance(1), 16
    )
    assert out == PROMPT + bytes(expected).decode("utf-8", "replace") + "\n"
    assert err.count("\n") == 1 and err.endswith("identical to plain decoding: yes\n")


@pytest.mark.parametrize("draft", ["rtn4", "rtn3", "absmax3", "rtn2-g64", "none"])
def test_greedy_text_is_the_same_with_any_draft_and_none(call, draft):
    assert call("-T", "0", "--draft", draft)[0] == call("-T", "0", "--draft", "rtn4")[0]


@pytest.mark.parametrize("rule", list(RULES))
def test_greedy_text_is_the_same_under_every_rule(call, rule):
    assert "identical to plain decoding: yes" in call("-T", "0", "--rule", rule)[1]


def test_above_temperature_0_the_distribution_is_what_is_promised(call):
    out, err = call("-T", "1", "--gamma", "3")
    assert "gamma 3, T 1:" in err and err.endswith("exactly the target's distribution\n")
    assert out == call("-T", "1", "--gamma", "3")[0]
    assert out != call("-T", "1", "--gamma", "3", "--seed", "2")[0]


def test_json_holds_ids_and_counts_and_nothing_else_is_written(call):
    out, err = call("-T", "0", "--json")
    result = json.loads(out)
    assert err == "" and out.count("\n") == 1
    assert bytes(result["prompt_ids"]).decode() == PROMPT
    assert len(result["tokens"]) == TOKENS
    assert result["text"] == bytes(result["tokens"]).decode("utf-8", "replace")
    assert result["tokens_per_pass"] == TOKENS / result["rounds"]
    assert 0 <= result["alpha"] <= 1 and result["identical"] is True and result["fork"] is None
    assert json.loads(call("-T", "1", "--json")[0])["identical"] is None
    assert "rounds" not in json.loads(call("--draft", "none", "--json")[0])


def test_what_is_streamed_at_temperature_1_is_what_json_tells(call):
    result = json.loads(call("-T", "1", "--json")[0])
    assert call("-T", "1")[0] == PROMPT + result["text"] + "\n"


def test_the_text_arrives_round_by_round(call, monkeypatch):
    rounds = json.loads(call("-T", "0", "--json")[0])["rounds"]
    pieces = []

    class Recorder(io.StringIO):
        def write(self, text):
            pieces.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Recorder())
    call("-T", "0")
    assert pieces[0] == PROMPT
    assert len(pieces) == rounds + 2  # the prompt, every round, the end


@pytest.mark.parametrize("draft", ["rtn4", "none"])
def test_a_stop_string_ends_the_text_and_is_its_last_part(call, draft):
    whole = json.loads(call("-T", "0", "--json")[0])["tokens"]
    place = next(i for i in range(5, TOKENS) if 32 < whole[i] < 127 and whole[i] not in whole[:i])
    stop = chr(whole[place])
    result = json.loads(call("-T", "0", "--json", "--stop", stop, "--draft", draft)[0])
    assert result["tokens"] == whole[: place + 1]
    assert result.get("identical", True) is True


def test_a_prompt_file_is_read_byte_for_byte(call, tmp_path):
    data = b"caf\x92 \xff\r\n\x00\xef\xbb\xbfend\n"
    file = tmp_path / "prompt.txt"
    file.write_bytes(data)
    result = json.loads(call("--json", "--prompt-file", str(file), prompt=())[0])
    assert bytes(result["prompt_ids"]) == data
    assert call("--prompt-file", str(file), prompt=())[0].startswith("caf\ufffd \ufffd\r\n\x00")


def test_bytes_on_the_command_line_that_are_no_utf8_pass_through(call):
    argument = b"a\x92b".decode("utf-8", "surrogateescape")  # as the interpreter hands them over
    result = json.loads(call("--json", prompt=(argument,))[0])
    assert bytes(result["prompt_ids"]) == b"a\x92b"


def test_a_stored_draft_writes_what_the_format_it_holds_writes(call, folder, tmp_path):
    save_quantized(tmp_path / "d", quantize_model(load_model(folder), parse_format("rtn3")))
    stored = json.loads(call("--json", "--draft", str(tmp_path / "d"))[0])
    named = json.loads(call("--json", "--draft", "rtn3")[0])
    assert stored["tokens"] == named["tokens"] and stored["rounds"] == named["rounds"]


def test_the_context_ends_the_text(call, folder):
    result = json.loads(call("-T", "0", "--json", "--max-new-tokens", "999")[0])
    assert len(result["prompt_ids"]) + len(result["tokens"]) == load_model(folder).context
    assert result["identical"] is True


def test_a_forked_text_is_said_to_be_one(call, monkeypatch):
    monkeypatch.setattr("experiments.watch.request.open_model", lambda folder: twin_model())
    result = json.loads(call("-T", "0", "--lanes", "off", "--json")[0])
    assert result["identical"] is False
    out, err = call("-T", "0", "--lanes", "off")
    assert err.endswith(
        f"identical to plain decoding: no, from new token {result['fork'] + 1} on\n"
    )
    assert call("-T", "0")[1].endswith("identical to plain decoding: yes\n")
