"""Text is bytes: what is on disk is what is trained on, split by whole document, and every byte is met or scored."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from micro.files import FileFault
from micro.text import (
    SEPARATOR,
    Corpus,
    Document,
    as_tokens,
    draw_batch,
    read_course,
    read_texts,
    scoring_windows,
    tile,
)

DATA = Path(__file__).resolve().parents[1] / "data"
BLOCK = 32
# every way to end a line, a byte order mark, NUL, no final newline; then what no decoder takes
LINES = "\ufeffa\r\nb\rc\u2028d\u2029e\x85f\x0cg\x00h".encode()
AWKWARD = {
    "line ends": LINES,
    "cp1252": b"it\x92s \x80 5 " * 20,
    "utf-16": "déjà vu ".encode("utf-16") * 10,
    "every byte": bytes(range(256)),
}


def written(folder: Path, **files: bytes) -> list[Path]:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.mark.parametrize("name", AWKWARD)
def test_every_byte_of_a_file_is_a_token_and_nothing_else_is(tmp_path, name):
    data = AWKWARD[name] * (1 + 400 // len(AWKWARD[name]))
    corpus = read_texts(written(tmp_path, text=data), BLOCK)
    parts = [document.data for document in corpus.documents]
    assert b"".join(parts) == data
    tokens = torch.cat([as_tokens(part) for part in parts])
    assert len(tokens) == (tmp_path / "text").stat().st_size
    assert hashlib.sha256(bytes(tokens.tolist())).digest() == hashlib.sha256(data).digest()
    inputs, targets = draw_batch(as_tokens(parts[0]), 4, BLOCK, seed=1, step=0)
    assert inputs.shape == targets.shape == (4, BLOCK) and torch.equal(
        inputs[:, 1:], targets[:, :-1]
    )


@given(st.binary(max_size=300))
def test_tokens_are_the_bytes_one_for_one(data):
    assert bytes(as_tokens(data).tolist()) == data


def test_files_are_joined_in_the_order_given_with_one_separator(tmp_path):
    a, b = written(tmp_path, a=b"a" * 90 + b"\r\n", b=b"b" * 90)
    corpus = read_texts([b, a], 8)
    held_out = corpus.joined("held-out")
    assert corpus.joined("train") + held_out == b"b" * 90 + SEPARATOR + b"a" * 90 + b"\r\n"
    assert len(held_out) == 183 // 10


def test_a_folder_is_read_in_sorted_order_without_hidden_files(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("sub/b", "z", "a", ".hidden", ".git/config"):
        (tmp_path / name).write_bytes(name.encode() * 20)
    text = b"".join(d.data for d in read_texts([tmp_path], 8).documents)
    assert text == SEPARATOR.join(name * 20 for name in (b"a", b"sub/b", b"z"))


def test_from_ten_documents_on_whole_ones_are_held_out(tmp_path):
    files = {f"{n:02}": bytes([65 + n]) * 50 for n in range(23)}
    corpus = read_texts(written(tmp_path, **files), BLOCK)
    assert [d.split for d in corpus.documents].count("held-out") == 2
    assert [d.data[:1] for d in corpus.split("held-out")] == [b"J", b"T"]  # numbers 9 and 19
    assert all(d.data == files[Path(d.name).name] for d in corpus.documents)
    shared = set(corpus.joined("train")) & set(corpus.joined("held-out"))
    assert shared == set(SEPARATOR)


@pytest.mark.parametrize("size", [0, 1, BLOCK])
def test_too_little_text_is_one_message_with_file_found_and_needed(tmp_path, size):
    (path,) = written(tmp_path, short=b"x" * size)
    with pytest.raises(FileFault) as caught:
        read_texts([path], BLOCK)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert f"{size} bytes to train on, at least {BLOCK + 1} needed" in message


@pytest.mark.parametrize("size", [BLOCK + 1, BLOCK + 2, 10 * BLOCK])
def test_text_that_just_suffices_trains_whole_and_zeros_never_pad_it(tmp_path, size):
    (path,) = written(tmp_path, enough=b"x" * size)
    corpus = read_texts([path], BLOCK)
    train = corpus.joined("train")
    assert len(train) >= BLOCK + 1
    assert train + corpus.joined("held-out") == b"x" * size
    inputs, targets = draw_batch(as_tokens(train), 8, BLOCK, seed=0, step=0)
    assert set(inputs.unique().tolist()) | set(targets.unique().tolist()) == {ord("x")}


def test_a_tail_shorter_than_a_block_is_held_out_and_scored(tmp_path):
    corpus = read_texts(written(tmp_path, text=bytes(range(200))), BLOCK)
    assert len(corpus.joined("held-out")) == 20 < BLOCK
    _, targets, counts = tile(corpus.split("held-out"), BLOCK, 16)
    assert targets[counts].tolist() == list(range(181, 200))


def test_a_missing_path_an_empty_folder_and_a_broken_index_are_named(tmp_path):
    with pytest.raises(FileFault, match="nowhere cannot be read: no such file"):
        read_texts([tmp_path / "nowhere"], BLOCK)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFault, match="empty is a folder without files"):
        read_texts([tmp_path / "empty"], BLOCK)
    index = tmp_path / "plates.jsonl"
    for line in ('{"file": "a"}', "[]", "{", '{"file": "a", "split": "test"}'):
        index.write_text(line)
        with pytest.raises(FileFault, match="plates.jsonl line 1"):
            read_course(tmp_path)


# --- batches ------------------------------------------------------------------------------------------


def test_a_batch_is_a_function_of_seed_and_step_and_reaches_both_ends():
    tokens = torch.arange(BLOCK + 4)  # four windows
    seen = Counter()
    for step in range(40):
        inputs, targets = draw_batch(tokens, 4, BLOCK, seed=3, step=step)
        again = draw_batch(tokens, 4, BLOCK, seed=3, step=step)
        assert torch.equal(inputs, again[0]) and torch.equal(targets, inputs + 1)
        seen.update(inputs[:, 0].tolist())
    # 160 draws of 4: a window that can be drawn is missed with a chance of 1e-20
    assert set(seen) == {0, 1, 2, 3}


def test_a_text_of_one_window_is_drawn_and_a_shorter_one_refused():
    inputs, targets = draw_batch(torch.arange(BLOCK + 1), 2, BLOCK, seed=0, step=0)
    assert inputs[0].tolist() == list(range(BLOCK)) and targets[0, -1] == BLOCK
    with pytest.raises(ValueError, match=f"{BLOCK} bytes of text, {BLOCK + 1} needed"):
        draw_batch(torch.arange(BLOCK), 2, BLOCK, seed=0, step=0)


# --- scoring ------------------------------------------------------------------------------------------


@given(st.integers(0, 400), st.integers(2, 64), st.data())
def test_every_byte_but_the_first_is_scored_once_behind_enough_context(length, context, data):
    stride = data.draw(st.integers(1, context - 1))
    scored = []
    for number, (start, end, first) in enumerate(scoring_windows(length, context, stride)):
        assert 0 <= start < first <= end <= length and end - start <= context
        assert number == 0 or first - start >= context - stride
        scored += range(first, end)
    assert scored == list(range(1, length))


@pytest.mark.parametrize("stride", [0, -1, 16, 17])
def test_a_stride_that_would_pass_bytes_over_is_refused(stride):
    with pytest.raises(ValueError, match="stride must lie between 0 and the context of 16"):
        scoring_windows(100, 16, stride)


def test_tiles_score_each_document_apart():
    documents = [
        Document("a", bytes(range(100))),
        Document("b", b"\xff"),
        Document("c", b"\xc8\xc9"),
    ]
    inputs, targets, counts = tile(documents, context=16, stride=8)
    assert inputs.shape == targets.shape == counts.shape and inputs.shape[1] == 15
    assert sorted(targets[counts].tolist()) == [*range(1, 100), 0xC9]
    assert torch.equal(targets[counts] - inputs[counts], torch.ones(100))  # none across documents


# --- the course ---------------------------------------------------------------------------------------


def test_the_course_is_split_by_whole_plates_as_its_index_says():
    corpus = read_course(DATA)
    rows = [json.loads(line) for line in (DATA / "plates.jsonl").read_text().splitlines()]
    assert [(d.name, d.split) for d in corpus.documents] == [(r["file"], r["split"]) for r in rows]
    for document in corpus.documents:
        assert document.data == (DATA / "course" / document.name).read_bytes()
    held_out = {d.data for d in corpus.split("held-out")}
    assert held_out and not held_out & {d.data for d in corpus.split("train")}


def test_the_hash_changes_with_a_name_a_split_or_a_byte():
    base = Document("a", b"xy", "train")
    variants = [
        (base,),
        (Document("b", b"xy", "train"),),
        (Document("a", b"xz", "train"),),
        (Document("a", b"xy", "held-out"),),
        (Document("a", b"x", "train"), Document("", b"y", "train")),
    ]
    assert len({Corpus(documents).sha256() for documents in variants}) == len(variants)
    assert Corpus((base,), "here").sha256() == Corpus((base,), "there").sha256()


def test_a_share_takes_training_documents_evenly_and_leaves_the_rest():
    names = [f"t{i}" for i in range(10)]
    documents = [Document(name, b"x", "train") for name in names]
    documents.insert(3, Document("h", b"y", "held-out"))
    corpus = Corpus(tuple(documents), "here")
    for share, wanted in ((0.25, ["t3", "t7"]), (0.5, names[1::2]), (1.0, names)):
        thin = corpus.thinned(share)
        assert [d.name for d in thin.split("train")] == wanted and thin.where == "here"
        assert [d.name for d in thin.split("held-out")] == ["h"]
    assert corpus.thinned(1.0).sha256() == corpus.sha256() != corpus.thinned(0.5).sha256()
    with pytest.raises(ValueError, match="none of 10"):
        corpus.thinned(0.05)
