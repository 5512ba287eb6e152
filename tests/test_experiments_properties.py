"""Whatever stands in records, in a file of prompts, in a prompt or behind an option: a result, or one line and exit 2."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os

import pytest
from byte_model import byte_model
from examples import SCALES, TEXTS, VALUES, count, one_line
from hypothesis import strategies as st
from made_records import fill

from experiments import estimate
from experiments.__main__ import COMMANDS, Parser, main
from experiments.drawing.shown import shown
from experiments.prompts import load_prompts
from experiments.run import EXPERIMENTS
from experiments.store import Store
from experiments.training.train import plan
from experiments.watch.request import open_request
from micro.checkpoint import save_model
from micro.files import FileFault

# records


@pytest.fixture(scope="module")
def good_lines(tmp_path_factory) -> list[bytes]:
    """Three records as they stand in a file."""
    folder = tmp_path_factory.mktemp("good")
    fill(folder, points=estimate.POINTS[:3])
    (path,) = folder.glob("*.jsonl")
    return path.read_bytes().splitlines()


def any_line(good: list[bytes]) -> st.SearchStrategy[bytes]:
    """A record with fields replaced or taken away, any JSON, any bytes, a record cut off."""
    records = st.sampled_from([json.loads(line) for line in good])
    fields = st.sampled_from([*json.loads(good[0]), "more"])
    changed = st.tuples(records, st.dictionaries(fields, VALUES, min_size=1, max_size=3))
    results = st.sampled_from(list(json.loads(good[0])["result"]))
    other_result = st.tuples(records, st.dictionaries(results, VALUES, min_size=1, max_size=2))
    cuts = st.tuples(st.sampled_from(good), st.integers(1, 2000))
    return st.one_of(
        changed.map(lambda pair: json.dumps(pair[0] | pair[1]).encode()),
        other_result.map(
            lambda pair: json.dumps(pair[0] | {"result": pair[0]["result"] | pair[1]}).encode()
        ),
        st.tuples(records, fields).map(
            lambda pair: json.dumps({k: v for k, v in pair[0].items() if k != pair[1]}).encode()
        ),
        VALUES.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
        cuts.map(lambda pair: pair[0][: pair[1]]),
        st.integers(1, 100_000).map(lambda n: b"[" * n),
    )


@SCALES
def test_any_lines_among_records(tmp_path, good_lines, scale):
    """Good records in any company are read, the rest is passed over in one line each, and a record can be added."""
    path = tmp_path / "records-0.jsonl"
    keys = [(record["experiment"], record["key"]) for record in map(json.loads, good_lines)]

    def check(example: tuple[list[bytes], bytes]) -> str:
        others, torn = example
        path.write_bytes(b"".join(line + b"\n" for line in [*others, *good_lines]) + torn)
        store = Store(tmp_path)
        for note in store.notes:
            assert str(path) in note and len(note.splitlines()) == 1
        assert all(store.records[place]["result"]["window"] for place in keys)  # the good came last
        assert len(store.records) + len(store.notes) <= len(others) + len(keys) + 1
        own = store.append("added", {"x": 1}, {"x": 1}, "ok", {})
        again = Store(tmp_path)
        assert again.done("added", own["key"]) == own and again.notes == store.notes
        store._file.unlink()
        return "with lines passed over" if store.notes else "all read"

    lines = st.lists(any_line(good_lines), max_size=4)
    met = count(check, st.tuples(lines, st.just(b"") | any_line(good_lines)), 100 * scale)
    assert min(met.values()) > 0 and len(met) == 2


@SCALES
def test_any_result_in_a_record_is_shown_or_told(tmp_path, good_lines, scale):
    """What figures and page draw: a record whose result makes no sense becomes a note, and the others are shown."""
    good = [json.loads(line) for line in good_lines]
    fields = st.sampled_from(list(good[0]["result"]))

    def check(changes: dict) -> str:
        found = shown([good[0] | {"result": good[0]["result"] | changes}, *good[1:]])
        assert len(found.records) >= 2 and found.notes  # the points that are not there, at least
        for one in found.curves:
            one.best(one.c["weights"])
        return "shown" if len(found.records) == 3 else "told"

    met = count(check, st.dictionaries(fields, VALUES, min_size=1, max_size=2), 100 * scale)
    assert met["told"] > 50 * scale


# prompts


@SCALES
def test_any_file_of_prompts(tmp_path, scale):
    path = tmp_path / "prompts.jsonl"
    row = {"id": "a", "kind": "copy", "text": "some text"}
    rows = st.dictionaries(st.sampled_from([*row, "more"]), VALUES, max_size=3).map(
        lambda changes: json.dumps(row | changes).encode()
    )
    texts = st.text().map(lambda text: json.dumps(row | {"id": text, "text": text}).encode())
    line = st.one_of(rows, texts, st.binary(max_size=40), VALUES.map(lambda v: json.dumps(v).encode()))  # fmt: skip

    def check(lines: list[bytes]) -> str:
        path.write_bytes(b"\n".join(lines))
        try:
            prompts = load_prompts(path)
        except FileFault as error:
            assert str(path) in one_line(error)
            return "refused"
        assert all(prompt.tokens == list(prompt.text) != [] for prompt in prompts)
        return "loaded"

    met = count(check, st.lists(line, max_size=3), 300 * scale)
    assert met["loaded"] > 15 * scale and met["refused"] > 100 * scale  # seen: 6% of 3,000 load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, byte_model(context=48))
    return path


@SCALES
def test_any_prompt_on_the_command_line_and_in_a_file(tmp_path, folder, scale):
    """Bytes are tokens, on either way in; what does not fit the context is refused."""
    file = tmp_path / "prompt"

    def check(data: bytes) -> str:
        file.write_bytes(data)
        model = ["--model", str(folder), "--max-new-tokens", "2", "--draft", "none", "--json"]
        codes = []
        for given in ([f"--prompt-file={file}"], ["--", os.fsdecode(data)]):
            code, out, err = called("generate", *model, *given)
            codes.append(code)
            if code == 0:
                assert json.loads(out)["prompt_ids"] == list(data) and err == ""
        assert codes[0] == codes[1] == (0 if 1 <= len(data) < 48 else 2)
        return "continued" if codes[0] == 0 else "refused"

    # no process can be given a NUL as an argument
    data = st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\xf0"))
    met = count(check, st.one_of(st.just(b""), data), 30 * scale)
    assert met["continued"] > 10 * scale and met["refused"] > 0


def called(*words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command; an exit with 2 says one line on stderr and nothing else."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="")
        for _ in range(2)
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as left:
            code = left.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    if code == 2:
        assert texts[0] == "" and len(texts[1].splitlines()) == 1, texts
    return code, *texts


# options

ODD = st.one_of(
    TEXTS.map(lambda text: text.replace("\0", "").replace("\ud800", "\udc80")),
    st.integers(-3, 300).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["0", "1", "1e999", "-1", "--", "-", "\n-1\n", "١٢", "1_0", "9" * 30, "9" * 5000, "off", "rtn3", "rtn3-g64",
         "rtn9", "none", "token", "block", "coupled", "1-3", "3-1", "1,2", "prob:0.4", "prob:x", "entropy:-1", "./x", "/"]
    ),
)  # fmt: skip
# every command and every experiment -> its module
MODULES = COMMANDS | {f"run {name}": entry for name, entry in EXPERIMENTS.items()}


def parser_of(command: str) -> Parser:
    parser = Parser(f"selfdraft {command}")
    importlib.import_module(f"experiments.{MODULES[command][0]}").add_arguments(parser)
    return parser


def any_words(parser: Parser, without: tuple[str, ...] = ()) -> st.SearchStrategy[list[str]]:
    """Up to four of the parser's options, each with a value that is meant for it or an odd one, and a stray word at times."""
    actions = [
        action
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
        and not {action.dest, *action.option_strings} & {*without}
    ]

    def words(action: argparse.Action) -> st.SearchStrategy[list[str]]:
        option = list(action.option_strings[-1:])
        if action.nargs == 0:
            return st.just(option)
        meant = st.sampled_from([str(c) for c in action.choices or (action.default, 1, 2)])
        return st.one_of(meant, meant, meant, ODD).map(lambda value: [*option, value])

    one = st.one_of([words(action) for action in actions])
    stray = ODD.map(lambda word: [word])
    parts = st.lists(st.integers(0, 11).flatmap(lambda i: one if i else stray), max_size=4)
    return parts.map(lambda found: sum(found, []))


def parsed(parser: Parser, words: list[str]) -> argparse.Namespace | None:
    """None where the words were refused, in one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parser.parse_args(words)
    except SystemExit as left:
        assert left.code == 2
        assert len(said.getvalue().splitlines()) == 1, said.getvalue()
        return None


@SCALES
@pytest.mark.parametrize("command", MODULES)
def test_any_options_of_any_command_are_parsed_or_refused(command, scale):
    parser = parser_of(command)

    def check(words: list[str]) -> str:
        return "parsed" if parsed(parser, words) else "refused"

    met = count(check, any_words(parser), 60 * scale)
    assert met["refused"] > 0


@SCALES
@pytest.mark.parametrize("command", ["generate", "trace"])
def test_any_request_is_opened_or_refused(folder, command, scale):
    """Everything that is checked before the first token, on a small model."""
    parser = parser_of(command)
    prompt = ["a"] if command == "generate" else ["--prompt", "a"]

    def check(words: list[str]) -> str:
        args = parsed(parser, [*prompt, *words, "--model", str(folder)])
        if args is None:
            return "refused as typed"
        try:
            open_request(args)
        except ValueError as error:
            one_line(error)
            return "refused"
        return "opened"

    met = count(
        check, any_words(parser, without=("prompt", "prompt_file", "model", "threads")), 80 * scale
    )
    assert min(met.values()) > 0 and len(met) == 3


@SCALES
def test_any_training_is_planned_or_refused(tmp_path, scale):
    """Everything that is checked before a folder is made."""
    parser, text = parser_of("train"), tmp_path / "text"
    text.write_bytes(bytes(range(256)) * 8)

    def check(words: list[str]) -> str:
        args = parsed(parser, [*words, "--text", str(text)])
        if args is None:
            return "refused as typed"
        try:
            plan(args)
        except ValueError as error:
            one_line(error)
            return "refused"
        return "planned"

    met = count(check, any_words(parser, without=("text", "threads")), 200 * scale)
    assert min(met.values()) > 0 and len(met) == 3


@SCALES
@pytest.mark.parametrize("command", ["plot", "report", "list", "quantize", "plate", "identity"])
def test_any_options_run_to_a_line_or_a_result(tmp_path, folder, monkeypatch, command, scale):
    """Whole commands; those that would work long have no prompts to work on, and are refused for that at the latest."""
    monkeypatch.chdir(tmp_path)
    fixed = {
        "quantize": [str(folder), "--out", "draft", "--mean-context", "8"],
        "plate": ["--prompts", "none.jsonl", "--out", "plate"],
        "identity": ["--prompt-set", "none.jsonl"],
    }.get(command, [])
    given = ("model", "mean_context") if command == "quantize" else ()
    without = ("threads", "prompts", "prompt_set", "reference", "workers", "out", "csv", *given)
    words = any_words(parser_of(command), without)

    def check(words: list[str]) -> str:
        code, _, err = called(command, *words, *fixed)
        assert "Traceback" not in err and code in (0, 1, 2)
        return f"exit {code}"

    met = count(check, words, 20 * scale)
    assert met["exit 2"] > 0


def test_what_the_properties_forbid_is_noticed():
    """An error of two lines, one without a word, and one that is no refusal."""
    with pytest.raises(AssertionError):
        one_line(ValueError("a\nb"))
    with pytest.raises(AssertionError):
        one_line(ValueError(""))
    with pytest.raises(ZeroDivisionError):
        count(lambda example: 1 // example and "ok", st.just(0), 1)
