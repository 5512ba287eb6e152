"""The course keeps its rules, the index and the prompts say what is there, and the checker can fail."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import course_rules as rules
import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
COURSE = rules.read_course()
KINDS = ("lesson", "copy", "free")
SPLITS = ("train", "validation", "held-out")


def read_rows(name: str) -> list[dict]:
    """Rows of a file of strict JSON lines."""

    def refuse(constant):
        raise ValueError(f"{name}: {constant} is not JSON")

    lines = (DATA / name).read_text(encoding="ascii").split("\n")
    assert lines.pop() == "", f"{name} does not end with a newline"
    return [json.loads(line, parse_constant=refuse) for line in lines]


PLATES = read_rows("plates.jsonl")
PROMPTS = read_rows("prompts.jsonl")
SAMPLE = next(iter(COURSE.values()))  # a plate to break


# --- the text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COURSE)
def test_a_plate_keeps_the_rules(name):
    assert rules.check_plate(COURSE[name]) == []


def test_no_sentence_stands_in_two_plates_and_few_runs_do():
    assert rules.check_across(COURSE) == []


def test_the_course_is_144_plates_in_24_volumes_of_six():
    places = [re.fullmatch(r"(\d\d)-[a-z-]+/(\d)-[a-z0-9-]+\.md", name).groups() for name in COURSE]
    assert places == [(f"{v:02}", str(n)) for v in range(1, 25) for n in range(1, 7)]
    assert len({name.split("/")[0] for name in COURSE}) == 24
    assert sum(len(text.encode()) for text in COURSE.values()) >= 480_000


def test_the_course_is_no_template():
    """A text that repeats itself is one that xz folds up: real prose of this size stays above 2.1 bits a byte."""
    whole = "\n".join(COURSE.values()).encode()
    assert 8 * len(lzma.compress(whole, preset=9)) / len(whole) >= 2.1


# --- the index ----------------------------------------------------------------------------------------


def wanted_kind(volume: int, plate: int) -> str:
    if plate < 5:
        return "lesson"
    if plate == 5:
        return "copy" if volume % 2 else "free"
    return {1: "lesson", 2: "copy", 0: "free"}[volume % 3]


def test_the_index_has_a_line_for_every_plate_in_reading_order():
    assert [row["file"] for row in PLATES] == list(COURSE)
    for row in PLATES:
        assert list(row) == ["file", "title", "kind", "split", "line"]
        volume, plate = int(row["file"][:2]), int(row["file"].split("/")[1][0])
        assert row["kind"] == wanted_kind(volume, plate)
        assert row["split"] in SPLITS and (row["split"] == "held-out") == (plate == 6)
        assert COURSE[row["file"]].startswith(f"# {row['title']}\n")
        assert 10 < len(row["line"]) < 90
    assert len({row["line"] for row in PLATES}) == len({row["title"] for row in PLATES}) == 144


def test_splits_and_kinds_have_their_sizes():
    splits = Counter(row["split"] for row in PLATES)
    assert splits == {"train": 108, "validation": 12, "held-out": 24}
    kinds = Counter(row["kind"] for row in PLATES)
    assert min(kinds["copy"], kinds["free"]) >= 12
    for split in ("validation", "held-out"):
        assert {row["kind"] for row in PLATES if row["split"] == split} == set(KINDS)


# --- the prompts --------------------------------------------------------------------------------------


def test_the_plates_own_prompt_comes_first():
    own = {"id": "plate", "kind": "lesson", "plate": None, "text": "The attention"}
    assert PROMPTS[0] == own


def test_there_are_64_prompts_of_each_kind_eight_from_each_held_out_plate():
    held_out = {row["file"]: row["kind"] for row in PLATES if row["split"] == "held-out"}
    assert Counter(p["kind"] for p in PROMPTS[1:]) == dict.fromkeys(KINDS, 64)
    assert Counter(p["plate"] for p in PROMPTS[1:]) == dict.fromkeys(held_out, 8)
    assert all(p["kind"] == held_out[p["plate"]] for p in PROMPTS[1:])
    assert len({p["id"] for p in PROMPTS}) == len({p["text"] for p in PROMPTS}) == 193


def test_every_prompt_stands_at_its_offset_with_room_behind_it():
    ends: dict[str, int] = {}
    for prompt in PROMPTS[1:]:
        data, text = COURSE[prompt["plate"]].encode(), prompt["text"].encode("ascii")
        start, end = prompt["offset"], prompt["offset"] + len(text)
        assert data[start:end] == text, prompt["id"]
        assert start >= ends.get(prompt["plate"], 0), f"{prompt['id']} overlaps the one before"
        assert len(data) - end >= 160
        low, high = (160, 256) if prompt["kind"] == "copy" else (64, 160)
        assert low <= len(text) <= high
        assert prompt["id"].startswith(prompt["plate"][:2] + "-6-")
        ends[prompt["plate"]] = end


def repeated(before: bytes, after: bytes, run: int = 8) -> float:
    """Share of `after` that lies in runs of `run` bytes which stand in `before`."""
    inside = {
        place
        for start in range(len(after) - run + 1)
        if after[start : start + run] in before
        for place in range(start, start + run)
    }
    return len(inside) / len(after)


def test_what_follows_a_copy_prompt_largely_repeats_it():
    """Over 40% of the next 96 bytes, where after the other kinds it is a few in a hundred."""
    shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for prompt in PROMPTS[1:]:
        data, text = COURSE[prompt["plate"]].encode(), prompt["text"].encode()
        end = prompt["offset"] + len(text)
        shares[prompt["kind"]].append(repeated(text, data[end : end + 96]))
    mean = {kind: sum(values) / len(values) for kind, values in shares.items()}
    assert mean["copy"] > 0.4 and mean["lesson"] < 0.1 and mean["free"] < 0.1


# --- data/README.md -----------------------------------------------------------------------------------


VOLUMES = {  # where a folder's name loses the commas and hyphens of the volume's
    "text-bytes-and-tokens": "Text, bytes and tokens",
    "back-propagation": "Back-propagation",
    "the-key-value-cache": "The key-value cache",
    "memory-bandwidth-and-the-roofline": "Memory, bandwidth and the roofline",
    "drafts-heads-and-trees": "Drafts, heads and trees",
}


def render_counts() -> str:
    """The README's table of counts."""
    rows = [
        "| split | plates | lesson | copy | free | bytes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for split in (*SPLITS, "all"):
        inside = [row for row in PLATES if split in ("all", row["split"])]
        kinds = Counter(row["kind"] for row in inside)
        size = sum(len(COURSE[row["file"]].encode()) for row in inside)
        cells = [split, len(inside), *(kinds[kind] for kind in KINDS), f"{size:,}"]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    prompts = Counter(prompt["kind"] for prompt in PROMPTS[1:])
    each = ", ".join(f"{prompts[kind]} {kind}" for kind in KINDS)
    return "\n".join([*rows, "", f"Prompts: {len(PROMPTS)}, the plate's own and {each}.", ""])


def render_list() -> str:
    """The README's list of volumes and plates with one line each."""
    parts = []
    for folder, rows in groupby(PLATES, key=lambda row: row["file"].split("/")[0]):
        volume, name = folder.split("-", 1)
        spelt = VOLUMES.get(name, name.replace("-", " ").capitalize())
        parts.append(f"### {int(volume)}. {spelt}\n\n")
        for number, row in enumerate(rows, 1):
            marks = [row["kind"]] * (row["kind"] != "lesson") + [row["split"]] * (
                row["split"] != "train"
            )
            note = f" ({', '.join(marks)})" if marks else ""
            parts.append(f"{number}. [{row['title']}](course/{row['file']}): {row['line']}{note}\n")
        parts.append("\n")
    return "".join(parts)


@pytest.mark.parametrize("name, render", [("counts", render_counts), ("plates", render_list)])
def test_the_readme_says_what_the_index_says(name, render):
    text = (DATA / "README.md").read_text()
    block = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", text, re.S).group(1)
    assert block == render()


# --- the checker can fail -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "    dot = 2 * 3 + 1 * 4 = 11",  # wrong
        "    third = 1 / 3 = 0.334",  # wrongly rounded in the last digit shown
        "    root = sqrt(2) = 1.414 = 1.42",  # wrong at the second sign
        "    p = 0.2x + 1 = 1.2",  # no arithmetic
        "    share = 1 / 0 = 0",
    ],
)
def test_a_wrong_derivation_is_found(line):
    assert rules.check_derivation(line)
    broken = SAMPLE.replace("\n## Terms", f"\n{line}\n\n## Terms", 1)
    assert any(line.strip() in fault for fault in rules.check_plate(broken))


@pytest.mark.parametrize(
    "line",
    [
        "    dot = 2 * 3 + 1 * 4 = 6 + 4 = 10",
        "    1 / 3 = 0.333",
        "    time = 3 / 1.5 = 2 seconds",
        "    entropy = -0.5 * log2(0.5) - 0.5 * log2(0.5) = 1 bits",
    ],
)
def test_a_right_derivation_passes(line):
    assert rules.check_derivation(line) == []


def test_a_repeated_sentence_is_found_within_a_plate_and_between_two():
    sentence = "One heron stood in the reeds and counted to nine."
    twice = SAMPLE.replace("\n## Worked", f"\n{sentence}\n\n{sentence}\n\n## Worked", 1)
    assert any("stands twice" in fault for fault in rules.check_plate(twice))
    assert not any("heron" in fault for fault in rules.check_across({"a": twice}))
    assert any("heron" in fault for fault in rules.check_across({"a": twice, "b": sentence}))


def test_synonyms_do_not_hide_a_template():
    """Every tenth word changed leaves more than 2% of the 8-word runs shared, though no sentence is."""
    words = SAMPLE.replace(".", " ").split(" ")
    changed = [f"{word}s" if place % 10 == 0 else word for place, word in enumerate(words)]
    found = rules.check_across({"a": " ".join(words), "b": " ".join(changed)})
    assert any("runs elsewhere too" in fault for fault in found)


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda text: text.replace("## Terms", "## Words"), "headings"),
        (lambda text: text + "The kv cache grows.\n", "spelling"),
        (lambda text: text + "It learns quantization.\n", "spelling"),
        (lambda text: text + "A dash \u2014 here.\n", "typographic"),
        (lambda text: text + "x" * 4500, "bytes"),
        (lambda text: re.sub(r"^    .*\n", "", text, flags=re.M), "no derivation"),
        (lambda text: text.replace("\n- ", "\n* "), "terms"),
    ],
)
def test_a_broken_plate_is_found(change, fault):
    assert any(fault in found for found in rules.check_plate(change(SAMPLE)))
