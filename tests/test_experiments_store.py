"""Records: appended whole, read back, torn lines fenced at every byte, failed points not done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from made_records import fill

from experiments.runner import measure
from experiments.store import SCHEMA, Store, key_of
from micro.files import FileFault

POINTS = [{"x": 1}, {"x": 2}, {"x": 3}]


class Squares:
    """An experiment that needs no model; `calls` are the points it measured, `broken` those that raise."""

    NAME, VERSION, POINTS = "squares", 1, POINTS

    def __init__(self, broken: tuple[int, ...] = (), power: int = 2) -> None:
        self.calls, self.broken, self.power = [], broken, power

    def identity(self, point, setting):
        return {"version": self.VERSION, "power": self.power, **point}

    def run(self, point, setting):
        self.calls.append(point["x"])
        if point["x"] in self.broken:
            raise RuntimeError("out of luck")
        return {"value": point["x"] ** self.power}


class NoSetting:
    progress = staticmethod(lambda what: None)


def run(folder: Path, experiment: Squares, **more) -> tuple[list[dict], int]:
    return measure(experiment, NoSetting(), Store(folder), **more)


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


def refuse(name: str):
    raise AssertionError(f"{name} in strict JSON")


def test_what_is_appended_is_read_back(tmp_path):
    records, measured = run(tmp_path, Squares())
    assert measured == 3
    assert [r["result"]["value"] for r in records] == [1, 4, 9]
    again = Store(tmp_path)
    assert again.of("squares") == records
    assert again.notes == []
    for line in only_file(tmp_path).read_bytes().splitlines():
        record = json.loads(line, parse_constant=refuse)
        assert record["schema"] == SCHEMA
        assert record["key"] == key_of("squares", record["inputs"])
        assert {"torch", "machine", "time", "commit"} <= set(record["environment"])


def test_a_second_run_measures_nothing_anew_and_fresh_measures_all(tmp_path):
    first, _ = run(tmp_path, Squares())
    second = Squares()
    assert run(tmp_path, second) == (first, 0)
    assert second.calls == []
    third = Squares()
    assert run(tmp_path, third, fresh=True)[1] == 3
    assert third.calls == [1, 2, 3]


def test_a_changed_setting_is_a_new_point(tmp_path):
    run(tmp_path, Squares())
    records, measured = run(tmp_path, Squares(power=3))
    assert measured == 3
    assert [r["result"]["value"] for r in records] == [1, 8, 27]
    assert len(Store(tmp_path).of("squares")) == 6


def test_keys_tell_every_input_and_the_experiment_apart():
    inputs = {"a": 1, "b": [1, 2]}
    keys = {
        key_of("one", inputs), key_of("two", inputs), key_of("one", {"a": 2, "b": [1, 2]}),
        key_of("one", {"a": 1, "b": [2, 1]}), key_of("one", {"a": 1}), key_of("one", {"a": 1.5, "b": [1, 2]}),
    }  # fmt: skip
    assert len(keys) == 6
    assert key_of("one", {"b": [1, 2], "a": 1}) == key_of("one", inputs)


def test_a_line_torn_at_any_byte_is_fenced_reported_and_measured_once(tmp_path):
    """A kill leaves the last record cut anywhere: the first records survive, that point is measured again, and only once."""
    run(tmp_path / "whole", Squares())
    content = only_file(tmp_path / "whole").read_bytes()
    start = content.rstrip(b"\n").rindex(b"\n") + 1
    torn = tmp_path / "torn"
    torn.mkdir()
    for cut in range(start, len(content)):  # without the final newline it is torn too
        for path in torn.glob("*.jsonl"):
            path.unlink()
        (torn / "records-0.jsonl").write_bytes(content[:cut])
        store = Store(torn)
        assert len(store.of("squares")) == 2
        assert [("torn" in note and "records-0.jsonl" in note) for note in store.notes] == [
            True
        ] * (cut > start)
        if cut % 40 == 0 or cut in (start, len(content) - 1):
            first, second = Squares(), Squares()
            assert [r["result"]["value"] for r in run(torn, first)[0]] == [1, 4, 9]
            run(torn, second)
            assert (first.calls, second.calls) == ([3], [])


def test_a_torn_line_is_never_continued(tmp_path):
    """A disk that was full for a moment, or the same process number again within the second: the file's end is torn."""
    run(tmp_path, Squares())
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    store = Store(tmp_path)
    store._file = path
    store.append("squares", {"version": 1, "power": 2, "x": 3}, {"x": 3}, "ok", {"value": 9})
    again = Store(tmp_path)
    assert [r["result"]["value"] for r in again.of("squares")] == [1, 4, 9]
    assert len(again.notes) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_refused_and_nothing_is_written(tmp_path, value):
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="[Oo]ut of range float"):
        store.append("squares", {"x": 1}, {"x": 1}, "ok", {"value": value})
    assert list(tmp_path.glob("*.jsonl")) == []
    assert store.records == {}


def test_nan_in_a_file_is_no_record(tmp_path):
    run(tmp_path, Squares())
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"value":4', b'"value":NaN'))
    store = Store(tmp_path)
    assert [r["result"]["value"] for r in store.of("squares")] == [1, 9]
    assert len(store.notes) == 1
    assert "line 2" in store.notes[0] and "NaN" in store.notes[0]


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"[1]", b"null", b"{}", b'{"schema": 1}', b"\xff\xfe", b"[" * 100_000, b""],
)
def test_a_line_that_is_no_record_is_passed_over_and_reported(tmp_path, line):
    run(tmp_path, Squares())
    path = only_file(tmp_path)
    path.write_bytes(line + b"\n" + path.read_bytes())
    store = Store(tmp_path)
    assert len(store.of("squares")) == 3
    assert len(store.notes) == 1
    assert f"{path} line 1" in store.notes[0] and "\n" not in store.notes[0]


def test_another_schema_is_passed_over_by_name(tmp_path):
    run(tmp_path, Squares())
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":99', 1))
    store = Store(tmp_path)
    assert len(store.of("squares")) == 2
    assert "99" in store.notes[0]


def test_a_failed_point_is_recorded_raised_and_not_done(tmp_path):
    with pytest.raises(RuntimeError, match="out of luck"):
        run(tmp_path, Squares(broken=(2,)))
    store = Store(tmp_path)
    assert [r["point"]["x"] for r in store.of("squares")] == [1]
    assert store.done("squares", key_of("squares", {"version": 1, "power": 2, "x": 2})) is None
    assert [r["result"]["error"] for r in store.records.values() if r["status"] == "failed"] == [
        "out of luck"
    ]
    repaired = Squares()
    records, measured = run(tmp_path, repaired)
    assert (repaired.calls, measured) == ([2, 3], 2)
    assert all(r["status"] == "ok" for r in records)


def test_a_later_failure_does_not_undo_a_finished_point(tmp_path):
    run(tmp_path, Squares())
    with pytest.raises(RuntimeError, match="out of luck"):
        run(tmp_path, Squares(broken=(1,)), fresh=True)
    assert [r["result"]["value"] for r in Store(tmp_path).of("squares")] == [1, 4, 9]


def test_two_runs_share_a_folder(tmp_path):
    """Each writes a file of its own; neither sees the other's until it reads, both are read afterwards."""
    one, other = Store(tmp_path), Store(tmp_path)
    other._file = tmp_path / "records-other.jsonl"
    for i in range(20):
        for store, name in ((one, "a"), (other, "b")):
            store.append(name, {"i": i}, {"i": i}, "ok", {"i": i})
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    both = Store(tmp_path)
    assert both.notes == []
    assert (
        [r["result"]["i"] for r in both.of("a")]
        == [r["result"]["i"] for r in both.of("b")]
        == list(range(20))
    )


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\n", "\x1e"])
def test_only_a_newline_byte_ends_a_record(tmp_path, sign):
    store = Store(tmp_path)
    store.append("texts", {"x": 1}, {"x": 1}, "ok", {"text": f"one{sign}two"})
    # written by another program, unescaped where JSON allows it
    if sign in "\u2028\u2029\x85":
        path = only_file(tmp_path)
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False) + "\n")
    again = Store(tmp_path)
    assert again.notes == []
    assert again.of("texts")[0]["result"]["text"] == f"one{sign}two"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileFault) as fault:
            Store(tmp_path).append("a", {}, {}, "ok", {})
    finally:
        tmp_path.chmod(0o700)
    assert str(tmp_path) in str(fault.value) and "\n" not in str(fault.value)


def test_a_place_where_no_folder_can_be_is_one_line(tmp_path):
    """A file in the way stops root as well."""
    (tmp_path / "file").write_text("")
    for place in (
        tmp_path / "file",
        tmp_path / "file" / "below" / "it",
    ):  # before anything is measured
        with pytest.raises(FileFault, match="file is a file; a folder for records is wanted"):
            Store(place)


def test_a_full_disk_is_one_line_and_keeps_what_was_recorded(tmp_path):
    store = Store(tmp_path)
    store.append("a", {"i": 0}, {"i": 0}, "ok", {})
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    store._file = Path("/dev/full")
    with pytest.raises(FileFault, match="/dev/full cannot be written: no space left"):
        store.append("a", {"i": 1}, {"i": 1}, "ok", {})
    assert len(Store(tmp_path).of("a")) == 1


def test_a_missing_folder_is_an_empty_store(tmp_path):
    assert Store(tmp_path / "none").of("estimate") == []
    assert not (tmp_path / "none").exists()


def test_the_maker_fills_every_point(tmp_path):
    assert len(fill(tmp_path).of("estimate")) == 9
