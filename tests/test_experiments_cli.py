"""The command line as a person or a script meets it: help, wrong input, closed pipes, poor consoles."""

import io
import json
import os
import subprocess
import sys

import pytest

from experiments.__main__ import COMMANDS, main
from experiments.paths import ROOT
from experiments.run import EXPERIMENTS
from micro.checkpoint import save_model
from quant.formats import FORMATS
from specdec.accept import RULES
from specdec.drafts import DRAFTS
from tests.byte_model import byte_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model())
    return path


def run_tool(*line, environment=None, **options):
    """`python -m experiments LINE` as a process of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    env.pop("PYTHONUNBUFFERED", None)  # argparse swallows errors of an unbuffered write
    command = [sys.executable, "-m", "experiments", *map(str, line)]
    return subprocess.run(
        command, cwd=ROOT, env=env, stderr=subprocess.PIPE, timeout=120, **options
    )


def refused(capsys, *line) -> str:
    """The one line a command refuses with; it must exit 2 and write nothing else."""
    try:
        code = main([str(part) for part in line])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and err.startswith("selfdraft"), err
    return err


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_that_any_console_can_show(command, monkeypatch):
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", screen)
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert screen.buffer.getvalue().startswith(f"usage: selfdraft {command}".encode())


@pytest.mark.parametrize("command", ["generate", "trace"])
@pytest.mark.parametrize(
    "options, named",
    [
        (("--draft", "rtn9"), "rtn9"),
        (("--draft", "foo"), "rtn4"),  # says what there is
        (("--draft", "./nowhere"), "nowhere"),
        (("--rule", "foo"), "token"),
        (("--gamma", "0"), "--gamma"),
        (("--gamma", "x"), "whole number"),
        (("--gamma", "96", "--lanes", "off"), "context of 96"),
        (("--gamma", "16"), "17 lanes"),
        (("-T", "-1"), "temperature"),
        (("-T", "nan"), "temperature"),
        (("-T", "inf"), "temperature"),
        (("--top-p", "0"), "--top-p"),
        (("--top-p", "1.5"), "--top-p"),
        (("--top-p", "nan"), "--top-p"),
        (("--top-k", "-1"), "--top-k"),
        (("--max-new-tokens", "0"), "--max-new-tokens"),
        (("--seed", "x"), "--seed"),
        (("--stop", ""), "--stop"),
        (("--lanes", "1"), "--lanes"),
        (("--model", "/nowhere"), "/nowhere"),
        (("--unheard-of",), "--unheard-of"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(folder, capsys, command, options, named):
    prompt = ["a"] if command == "generate" else ["--prompt", "a"]
    assert named in refused(capsys, command, *prompt, "--model", folder, *options)


@pytest.mark.parametrize("command", ["generate", "trace"])
def test_prompts_that_cannot_be_continued(folder, tmp_path, capsys, command):
    flag = [] if command == "generate" else ["--prompt"]
    model = ("--model", folder)
    empty, full = tmp_path / "empty.txt", tmp_path / "full.txt"
    empty.write_bytes(b"")
    full.write_bytes(b"x" * 96)
    assert "empty" in refused(capsys, command, *flag, "", *model)
    assert "context 96" in refused(capsys, command, *flag, "x" * 96, *model)
    assert "context 96" in refused(capsys, command, "--prompt-file", full, *model)
    assert "empty.txt is empty" in refused(capsys, command, "--prompt-file", empty, *model)
    assert "no.txt" in refused(capsys, command, "--prompt-file", tmp_path / "no.txt", *model)
    assert "directory" in refused(capsys, command, "--prompt-file", tmp_path, *model)
    assert "one prompt" in refused(capsys, command, *model)
    assert "one prompt" in refused(capsys, command, *flag, "a", "--prompt-file", full, *model)


@pytest.mark.parametrize(
    "options, named",
    [
        (("--drafts", "rtn4,foo"), "foo"),
        (("--gammas", "0"), "'0'"),
        (("--gammas", "5-1"), "'5-1'"),
        (("--gammas", "1-16"), "17 lanes"),
        (("--gammas", "96", "--lanes", "off"), "context of 96"),
        (("--tokens", "96"), "--tokens 96"),
        (("--prompts", "0"), "--prompts"),
        (("--prompt-set", "/nowhere.jsonl"), "/nowhere.jsonl"),
        (("--threads", "0"), "--threads"),
        (("--model", "/nowhere"), "/nowhere"),
    ],
)
def test_identity_refuses_what_it_cannot_check(folder, tmp_path, capsys, options, named):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"id": "plate", "kind": "lesson", "text": "The attention"}\n')
    line = (
        "identity",
        "--model",
        folder,
        "--prompt-set",
        prompts,
        "--tokens",
        "4",
        "--workers",
        "1",
    )
    assert named in refused(capsys, *line, *options)


def spoil_pointer(path):
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    path.write_text(text)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_pointer,
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes((1 << 60).to_bytes(8, "little")),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("<!DOCTYPE html><html></html>"),
        lambda path: path.unlink(),
    ],
    ids=["pointer", "half", "huge header", "empty", "page", "missing"],
)
def test_spoiled_weights_are_refused_by_name(tmp_path, capsys, spoil):
    save_model(tmp_path, byte_model())
    spoil(tmp_path / "model.safetensors")
    assert str(tmp_path) in refused(capsys, "generate", "a", "--model", tmp_path)


def test_a_model_with_a_tokenizer_of_its_own_is_refused(tmp_path, capsys):
    from micro.model import ModelConfig, Transformer

    config = ModelConfig(vocab_size=300, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
    save_model(tmp_path, Transformer(config))
    assert "300 tokens" in refused(capsys, "generate", "a", "--model", tmp_path)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_poor_console_shows_any_byte(folder, tmp_path, encoding):
    prompt = tmp_path / "p.txt"
    prompt.write_bytes(b"caf\xc3\xa9 \x92 \xff")
    environment = {"PYTHONIOENCODING": encoding}
    for command in ("generate", "trace"):
        line = (command, "--prompt-file", prompt, "--model", folder)
        done = run_tool(*line, environment=environment, stdout=subprocess.PIPE)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
        done.stdout.decode(encoding)


@pytest.mark.parametrize(
    "line",
    [
        ("generate", "a", "--max-new-tokens", "50"),
        ("trace", "--prompt", "a"),
        ("list",),
        ("--help",),
        ("generate", "--help"),
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_a_closed_pipe_ends_with_141_and_no_traceback(folder, line):
    reading, writing = os.pipe()
    os.close(reading)
    model = ("--model", folder) if line[0] in ("generate", "trace") else ()
    try:
        done = run_tool(*line, *model, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def test_data_on_stdout_stays_clean_in_a_pipe(folder):
    done = run_tool("trace", "--prompt", "a", "--json", "--model", folder, stdout=subprocess.PIPE)
    assert done.returncode == 0 and done.stderr == b""
    assert json.loads(done.stdout)["prompt_ids"] == [97]


def test_run_is_the_command_itself(folder, tmp_path, capsys):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"id": "plate", "kind": "lesson", "text": "The attention"}\n')
    line = ["identity", "--model", str(folder), "--prompt-set", str(prompts), "--tokens", "4",
            "--workers", "1", "--drafts", "rtn4", "--gammas", "2"]  # fmt: skip
    assert main(line) == 0
    direct = capsys.readouterr().out
    assert main(["run", *line]) == 0
    assert capsys.readouterr().out == direct
    assert "plate" in refused(capsys, "run", "nothing")
    assert "--gammas" in refused(capsys, "run", "identity", "--gammas", "0")


def test_list_shows_every_entry_of_the_tables(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in (*FORMATS, *RULES, *DRAFTS, *EXPERIMENTS):
        assert f"  {name} " in out
    assert "4.5 bits a weight" in out
    assert main(["list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4


def test_every_experiment_tells_what_it_does_and_refuses_a_wrong_option(capsys):
    for name, (module, what) in EXPERIMENTS.items():
        assert what and (COMMANDS.get(name) in (None, (module, what)))
        assert f"selfdraft run {name}" in refused(capsys, "run", name, "--no-such-option")
