"""One matrix rounded at a time, and the search that spends a byte budget."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from experiments.__main__ import main
from experiments.draft_formats import read_format
from experiments.ladder import sensitivity_run
from experiments.ladder.mix_search import State, search, within
from experiments.ladder.sensitivity_figure import as_rows, short
from experiments.prompts import load_prompts
from experiments.setting import Setting
from experiments.store import Store
from micro.checkpoint import save_model
from micro.files import FileFault
from micro.model import ModelConfig, Transformer
from tests.byte_model import byte_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensitivity")
    save_model(folder / "model", byte_model())
    rows = []
    for plate, kind in (("01-6", "lesson"), ("02-6", "free"), ("03-6", "lesson"), ("04-6", "free")):
        rows += [{"id": f"{plate}-{n}", "kind": kind, "text": f"{plate} says {n}"} for n in (1, 2)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "prompts.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def bench(folder) -> sensitivity_run.Workbench:
    prompts = load_prompts(folder / "prompts.jsonl")
    whole = Setting(folder / "model", prompts, window=16)
    return sensitivity_run.Workbench(sensitivity_run.choosing(whole))


def test_parts_are_matrices_layers_kinds_and_everything():
    parts = sensitivity_run.parts_of(Transformer(ModelConfig()))
    assert (
        len(parts["all"]) == 29 and len(parts["layer 2"]) == 7 and len(parts["kind up_proj"]) == 4
    )
    assert parts["model.embed_tokens.weight"] == ["model.embed_tokens.weight"]
    assert len(parts) == 29 + 4 + 7 + 1
    assert short("model.layers.2.mlp.up_proj.weight") == "2 up_proj"
    assert (short("model.embed_tokens.weight"), short("layer 2"), short("all")) == ("embed_tokens", "layer 2", "all")  # fmt: skip


def test_nothing_rounded_accepts_everything(bench):
    """float32 passes over a text differ by rounding from the passes that drew it: 1e-4 is far above that."""
    result = bench.run({"formats": {}}, bench.setting)
    assert sum(result["accepted"]) / sum(result["checked"]) > 1 - 1e-4
    assert result["overlap"] == pytest.approx(1, abs=1e-4) and result["bytes"] == 0


def test_rounded_parts_come_and_go_and_everything_is_the_draft_itself(bench):
    parts = sensitivity_run.parts_of(bench.setting.model)
    whole = {"formats": dict.fromkeys(parts["all"], "mse2")}
    first = bench.run(whole, bench.setting)
    draft = bench.setting.draft("mse2")
    mine = bench.model.state_dict()
    assert all(torch.equal(mine[n], p) for n, p in draft.module.state_dict().items())
    one = {"formats": {parts["all"][1]: "mse2"}}
    less = bench.run(one, bench.setting)
    changed = [n for n, p in bench.setting.model.named_parameters() if not torch.equal(p, bench.model.get_parameter(n))]  # fmt: skip
    assert changed == [parts["all"][1]]
    assert sum(less["accepted"]) / sum(less["checked"]) > sum(first["accepted"]) / sum(first["checked"])  # fmt: skip
    assert bench.run(whole, bench.setting) == first
    assert first["bytes"] == sum(q.bytes for q in draft.packed.values())


def test_only_choosing_prompts_are_used(bench, folder):
    everything = [p.id for p in load_prompts(folder / "prompts.jsonl")]
    used = [p.id for p in bench.setting.prompts]
    assert used == ["01-6-1", "01-6-2", "02-6-1", "02-6-2"] and set(used) < set(everything)


def test_what_is_on_record_is_not_measured_again(bench, tmp_path):
    store = Store(tmp_path)
    point = {"formats": {"lm_head.weight": "mse3"}}
    record = bench.measured(point, store)
    bench_run, bench.run = bench.run, None
    try:
        assert bench.measured(point, Store(tmp_path)) == record
        with pytest.raises(TypeError):
            bench.measured({"formats": {"lm_head.weight": "mse2"}}, store)
    finally:
        bench.run = bench_run


# --- the search ---------------------------------------------------------------------------------------

SIZE = {"a": 100, "b": 100, "c": 400}
# what each matrix costs at 2, 3, 4 bits; gains shrink from bit to bit
COST = {"a": (0.20, 0.05, 0.02), "b": (0.10, 0.04, 0.02), "c": (0.30, 0.10, 0.04)}


class Additive:
    """alpha = 1 - sum of costs; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, bits: dict[str, int]) -> State:
        self.asked += 1
        lost = sum(COST[n][b - 2] for n, b in bits.items())
        return State(dict(bits), sum(SIZE[n] * b for n, b in bits.items()), 1 - lost)


def test_bits_go_where_they_buy_most_by_hand():
    """Gains per byte x 1e4: a 15, then 3; b 6, then 2; c 5, then 1.5."""
    measure = Additive()
    path = search(["a", "b", "c"], measure, 10_000)
    steps = [next(n for n in SIZE if s.bits[n] != t.bits[n]) for s, t in itertools.pairwise(path)]
    assert steps == ["a", "b", "c", "a", "b", "c"]
    assert path[-1].bits == {"a": 4, "b": 4, "c": 4}
    assert measure.asked < 1 + 3 * 6  # lazily: fewer than measuring all three moves at every step


def test_no_state_exceeds_its_budget_and_smaller_moves_fill_it():
    start = 2 * sum(SIZE.values())
    path = search(["a", "b", "c"], Additive(), start + 350)
    assert path[-1].bytes <= start + 350
    assert path[-1].bits == {"a": 4, "b": 3, "c": 2} or path[-1].bits == {"a": 3, "b": 4, "c": 2}
    assert within(path, start + 100).bits == {"a": 3, "b": 2, "c": 2}
    assert within(path, start).bits == {"a": 2, "b": 2, "c": 2}
    with pytest.raises(ValueError, match="below the least mix"):
        within(path, start - 1)


def test_a_move_that_harms_is_not_made():
    def measure(bits):
        return State(dict(bits), sum(bits.values()), 0.9 - 0.1 * (bits["a"] - 2))

    assert len(search(["a"], measure, 100)) == 1


# --- the command, and mixes from a file ---------------------------------------------------------------


def test_the_command_writes_mixes_that_make_drafts_within_their_budget(folder, tmp_path, capsys):
    base = ["--model", str(folder / "model"), "--prompts", str(folder / "prompts.jsonl")]
    assert main(["run", "sensitivity", *base, "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    model = byte_model()
    assert len(found["parts"]) == 2 * len(sensitivity_run.parts_of(model))
    assert (tmp_path / "sensitivity.png").stat().st_size > 1000
    setting = Setting(folder / "model", load_prompts(folder / "prompts.jsonl"), window=16)
    sizes = []
    for name in ("mix-2.75", "mix-3.25"):
        draft = setting.draft(f"mix:{tmp_path}/{name}.json")
        assert draft.bits_per_weight <= float(name.removeprefix("mix-"))
        sizes.append(draft.bits_per_weight)
    assert sizes[0] < sizes[1] and found["mixes"]["mix-2.75"]["alpha"] < found["mixes"]["mix-3.25"]["alpha"]  # fmt: skip
    rows = as_rows(Store(tmp_path).of("sensitivity"))
    assert len(rows) == len(found["parts"])  # steps of the search are no parts


def test_a_mix_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileFault, match="missing.json"):
        read_format(f"mix:{tmp_path}/missing.json")
    (tmp_path / "odd.json").write_text('{"a": "x9"}')
    with pytest.raises(ValueError, match="unknown format 'x9'"):
        read_format(f"mix:{tmp_path}/odd.json")
