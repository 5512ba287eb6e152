"""`selfdraft run slices`: bytes and c by hand, and a target that is the 8-bit model."""

from __future__ import annotations

import json

import pytest

from experiments.__main__ import main
from experiments.store import Store
from micro.checkpoint import load_model, save_model
from quant.bytes import pass_bytes
from quant.formats import parse_format
from quant.model import quantize_model
from tests.byte_model import byte_model


def test_slices_beside_separate_copies(tmp_path, capsys):
    save_model(tmp_path / "model", byte_model())
    rows = [{"id": f"{plate}-1", "kind": "lesson", "text": f"{plate} two"} for plate in "abcd"]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["run", "slices", "--model", str(tmp_path / "model"), "--prompts", str(tmp_path / "prompts.jsonl"), "--out", str(tmp_path / "out")]  # fmt: skip
    assert main(words) == 0
    printed = capsys.readouterr().out
    found = {(r["point"]["target"], r["point"]["draft"]): r["result"] for r in Store(tmp_path / "out").of("slices")}  # fmt: skip
    model = load_model(tmp_path / "model")
    eight, four = (quantize_model(model, parse_format(n)) for n in ("rtn8", "rtn4"))
    whole = pass_bytes(model, {})
    # resident: the target, and a copy only where one is separate
    assert found["bfloat16", "rtn4"]["resident_bytes"] == 2 * sum(p.numel() for p in model.parameters()) + four.stored_bytes  # fmt: skip
    assert found["rtn8", "rtn4"]["resident_bytes"] == eight.stored_bytes + four.stored_bytes
    assert found["rtn8", "slice4"]["resident_bytes"] == eight.stored_bytes
    assert found["rtn8", "slice3"]["resident_bytes"] == eight.stored_bytes
    # a pass: four bits of eight are a little more than half, since scales and norms are read whole
    assert found["bfloat16", "rtn4"]["c"]["weights"] == pytest.approx(four.bytes_per_pass / whole)
    assert found["rtn8", "slice4"]["c"]["weights"] == pytest.approx(four.bytes_per_pass / eight.bytes_per_pass)  # fmt: skip
    # text has the 8-bit model's law, which is near the 16-bit one's and is not it
    assert found["bfloat16", "rtn4"]["overlap_with_16_bit"] == pytest.approx(1, abs=1e-6)
    assert 0.9 < found["rtn8", "slice4"]["overlap_with_16_bit"] < 0.99999
    assert len(printed.splitlines()) == 5 and "slice3" in printed
