"""Whatever stands in config.json, in an index or in a safetensors file: a model, or one line that names the file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from examples import SCALES, TEXTS, VALUES, WHOLE, count, one_line
from hypothesis import strategies as st
from safetensors.torch import save

from experiments.paths import ROOT
from micro.checkpoint import FIXED, INERT, config_to_json, load_model, save_model
from micro.files import FileFault
from micro.model import ModelConfig, Transformer
from micro.tensors import INDEX, MAX_HEADER, SINGLE, load_tensors

CONFIG = ModelConfig(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, max_position_embeddings=32,
)  # fmt: skip
BASE = config_to_json(CONFIG)
NAMES = sorted({*BASE, *FIXED, *INERT, "rope_scaling", "rope_parameters", "quantization"})
ROPE = st.fixed_dictionaries(
    {}, optional={"rope_type": TEXTS, "type": TEXTS, "rope_theta": VALUES, "factor": VALUES}
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, Transformer(CONFIG, seed=1))
    return path


def outcome(folder) -> str:
    try:
        model = load_model(folder)
    except FileFault as error:
        assert str(folder) in one_line(error)
        return "refused"
    assert model(torch.tensor([[1, 2, 3][: model.context]]))[0].isfinite().all()
    return "loaded"


# config.json


@SCALES
def test_any_values_in_a_config(folder, scale):
    """Up to three fields of a good config replaced, or added, by anything that JSON can say."""

    def check(changes: dict) -> str:
        (folder / "config.json").write_text(json.dumps(BASE | changes))
        return outcome(folder)

    fields = st.one_of(
        st.dictionaries(st.sampled_from(NAMES), st.one_of(VALUES, WHOLE, ROPE), max_size=3),
        st.dictionaries(st.one_of(TEXTS, st.sampled_from(NAMES)), VALUES, min_size=1, max_size=2),
    )
    met = count(check, fields, 300 * scale)
    assert met["loaded"] > 0 and met["refused"] > 100 * scale


@SCALES
def test_any_bytes_as_a_config(folder, scale):
    good = json.dumps(BASE).encode()

    def check(data: bytes) -> str:
        (folder / "config.json").write_bytes(data)
        return outcome(folder)

    met = count(check, damaged(good), 200 * scale)
    assert met["refused"] > 100 * scale


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Any bytes, or `good` cut off, with a stretch replaced, or nested deep."""

    def replaced(change: tuple[int, int, bytes]) -> bytes:
        start, length, new = change
        return good[:start] + new + good[start + length :]

    places = st.integers(0, len(good))
    return st.one_of(
        st.binary(max_size=100),
        places.map(lambda n: good[:n]),
        st.tuples(places, st.integers(0, 30), st.binary(max_size=30)).map(replaced),
        st.integers(1, 200_000).map(lambda n: b"[" * n),
        st.integers(1, 50_000).map(lambda n: b'{"a":' * n),
        st.just(b"1" * 100_000),
    )


@SCALES
def test_any_index_of_shards(tmp_path, scale):
    save_model(tmp_path, Transformer(CONFIG, seed=1))
    (tmp_path / SINGLE).rename(tmp_path / "a.safetensors")
    names = st.one_of(st.just("a.safetensors"), VALUES)

    def check(index: object) -> str:
        (tmp_path / INDEX).write_text(json.dumps(index))
        return outcome(tmp_path)

    maps = st.dictionaries(TEXTS, names, max_size=3).map(lambda m: {"weight_map": m})
    met = count(check, st.one_of(maps, VALUES), 200 * scale)
    assert met["loaded"] > 0 and met["refused"] > 100 * scale


# the safetensors file

TENSORS = {"a": torch.ones(3, 2), "b": torch.arange(4)}


def parts(blob: bytes) -> tuple[dict, bytes]:
    end = 8 + int.from_bytes(blob[:8], "little")
    return json.loads(blob[8:end]), blob[end:]


def written(header: bytes, numbers: bytes, claimed: int | None = None) -> bytes:
    length = len(header) if claimed is None else claimed
    return (length & (1 << 64) - 1).to_bytes(8, "little") + header + numbers


def any_file() -> st.SearchStrategy[bytes]:
    """A good file with an entry's fields replaced, another length claimed, or its bytes damaged."""
    good = save(TENSORS)
    header, numbers = parts(good)
    entry = st.fixed_dictionaries(
        {
            "dtype": st.one_of(st.sampled_from(["F32", "I64", "U8", "Q9"]), VALUES),
            "shape": st.one_of(st.lists(WHOLE, max_size=12), VALUES),
            "data_offsets": st.one_of(st.lists(WHOLE, min_size=2, max_size=2), VALUES),
        }
    )
    changed = st.dictionaries(
        st.sampled_from(["a", "b", "c", "__metadata__"]), st.one_of(entry, VALUES), max_size=2
    )
    text = json.dumps(header).encode()
    return st.one_of(
        st.just(good),
        changed.map(lambda more: written(json.dumps(header | more).encode(), numbers)),
        st.integers(0, (1 << 64) - 1).map(lambda n: written(text, numbers, n)),
        st.integers(-12, 12).map(lambda n: written(text, numbers, len(text) + n)),
        damaged(text).map(lambda broken: written(broken, numbers)),
        damaged(good),
    )


@SCALES
def test_any_bytes_as_a_safetensors_file(tmp_path, scale):
    path = tmp_path / "any.safetensors"

    def check(blob: bytes) -> str:
        path.write_bytes(blob)
        try:
            tensors = load_tensors(path)
        except FileFault as error:
            assert str(path) in one_line(error)
            return "refused"
        stored = sum(t.numel() * t.element_size() for t in tensors.values())
        assert stored <= len(blob)  # nothing that is not in the file
        return "loaded"

    met = count(check, any_file(), 400 * scale)
    assert met["loaded"] > 0 and met["refused"] > 200 * scale


# what costs most memory for its bytes of JSON
HOSTILE = {
    "nested lists": b"[" * 500 + b"]" * 500,
    "empty objects": b"{}",
    "nested objects": b'{"":' * 300 + b"0" + b"}" * 300,
    "lists of objects": b"[{}]",
    "numbers": b"9" * 300,
    "floats": b"1e1",
}
MEASURE = """
import resource, sys
from pathlib import Path
from micro.files import FileFault
from micro.tensors import load_tensors
def field(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) >> 10
room = (field("VmSize") + 500) << 20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
start = field("VmRSS")
for path in sys.argv[1:]:
    try:
        load_tensors(Path(path))
        print("loaded")
    except FileFault as error:
        assert "\\n" not in str(error)
# not ru_maxrss: a child starts with its parent's, and a test runner's is large
print(field("VmHWM") - start)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="limits and measures a process by Linux's means"
)
@pytest.mark.parametrize(
    "unit",
    [pytest.param(n, marks=pytest.mark.slow if n != "nested lists" else ()) for n in HOSTILE],
)
def test_no_header_takes_500_mb(tmp_path, unit):
    """Two headers of the largest size that is read, each full of one unit: as an entry, and as a shape, whose product would have
    millions of digits. In a process of its own, which may take 500 MB more than torch's start took."""
    paths = []
    for place in ('{"a":[', '{"a":{"dtype":"F32","data_offsets":[0,4],"shape":['):
        piece, end = HOSTILE[unit] + b",", b"]" + b"}" * place.count("{")
        room = MAX_HEADER - len(place) - len(end)
        header = place.encode() + (piece * (room // len(piece)))[:-1] + end
        assert len(header) > MAX_HEADER - 1100
        paths.append(tmp_path / f"{len(paths)}.safetensors")
        paths[-1].write_bytes(written(header, b"\0" * 4))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, paths)], cwd=ROOT, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    (megabytes,) = done.stdout.splitlines()  # none was loaded
    print(f"{len(paths)} headers of {MAX_HEADER >> 20} MB: {megabytes} MB at most")
    assert 4 <= int(megabytes) < 500  # the headers were really read
