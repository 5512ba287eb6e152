"""Smaller siblings: sizes by hand, a folder of one's own, refusals, exact text beside a target that stays as it is."""

from __future__ import annotations

import shutil

import pytest

from experiments.paths import WEIGHTS
from micro.chance import SeededChance
from micro.checkpoint import load_model, save_model
from micro.files import read_json, write_json
from micro.generate import generate as plain
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from micro.sizes import SIZES
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.shipped import TRAINED, fingerprint
from tests.byte_model import byte_model

TARGET = byte_model()


@pytest.fixture(scope="module")
def pico(tmp_path_factory):
    """An untrained pico's folder, in whose path a + stands for nothing."""
    folder = tmp_path_factory.mktemp("pico") / "own"
    save_model(folder, Transformer(SIZES["pico"]))
    return folder


@pytest.mark.parametrize("name, count, share", [("pico", 18_528, 100), ("nano", 86_336, 20), ("mini", 459_392, 4), ("micro", 1_820_352, 1)])  # fmt: skip
def test_sizes_are_the_asked_shares_of_micro(name, count, share):
    """V D + L (4 D^2 + 3 D M + 2 D) + D, worked out; within a tenth of the share that its name means."""
    config = SIZES[name]
    D, L, M = config.hidden_size, config.num_hidden_layers, config.intermediate_size
    assert 256 * D + L * (4 * D * D + 3 * D * M + 2 * D) + D == count
    assert sum(p.numel() for p in Transformer(config).parameters()) == count
    assert 1_820_352 / count == pytest.approx(share, rel=0.1)
    assert D % 32 == M % 32 == 0 and config.head_dim == 32 and config.tie_word_embeddings
    assert config.max_position_embeddings == ModelConfig().max_position_embeddings


def test_a_folder_drafts_at_its_bytes(pico):
    draft = make_draft(TARGET, f"pico:{pico}")
    assert draft.bytes_per_pass == draft.extra_bytes == 2 * 18_528
    assert draft.extra_parameters == 18_528
    # rtn4: 18 bytes for 32 weights of a matrix; 3 norms of 32 in 16 bits
    rounded = make_draft(TARGET, f"pico:{pico}+rtn4")
    assert rounded.bytes_per_pass == (18_528 - 96) * 18 // 32 + 2 * 96
    assert rounded.extra_parameters == 18_528


def test_wrong_arguments_are_told_in_one_line(pico, tmp_path):
    for spec, what in (
        ("pico:x", "'x' is neither `distilled` nor a folder with a / in it, as in pico:./DIR"),
        (f"nano:{pico}", "other sizes than nano's"),
        (f"pico:{tmp_path}/none", "is no folder"),
        (f"pico:{pico}+rtn9", "unknown format 'rtn9'"),
    ):
        with pytest.raises(ValueError) as caught:
            make_draft(TARGET, spec)
        assert what in str(caught.value) and "\n" not in str(caught.value)


def test_one_distilled_from_another_target_is_refused(pico, tmp_path):
    folder = tmp_path / "distilled"
    shutil.copytree(pico, folder)
    write_json(folder / "training.json", {"target": fingerprint(TARGET)})
    make_draft(TARGET, f"pico:{folder}")
    with pytest.raises(ValueError, match="trained for the target .* by `selfdraft distil --size pico --model DIR`"):  # fmt: skip
        make_draft(byte_model(seed=4), f"pico:{folder}")


@pytest.mark.parametrize("format", ["", "+rtn4"])
def test_greedy_text_is_plain_text_in_lanes_and_the_target_stays(pico, format):
    draft, greedy, before = make_draft(TARGET, f"pico:{pico}{format}"), Sampling(0.0), fingerprint(TARGET)  # fmt: skip
    for text in (b"one", b"two and", b"x"):
        done = generate(TARGET, draft, list(text), max_new_tokens=24, gamma=4, sampling=greedy,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        assert list(done.tokens) == plain(TARGET, list(text), 24, greedy, SeededChance(1), lanes=8)
    assert fingerprint(TARGET) == before


@pytest.mark.parametrize("spec", ["pico", "nano", "mini", "pico:distilled", "nano:distilled", "mini:distilled", "exit:1", "exit:2", "exit:3"])  # fmt: skip
def test_what_ships_was_trained_for_the_micro_that_ships(spec):
    """Made anew for new weights; a held-out loss that was read and a curve stand in each record."""
    draft, name = make_draft(load_model(WEIGHTS), spec), spec.replace(":", "-")
    record = read_json(TRAINED / name / "training.json")
    assert draft.extra_parameters == (192 if "exit" in name else sum(p.numel() for p in draft.model.parameters()))  # fmt: skip
    assert record["text_sha256"] == read_json(WEIGHTS / "training.json")["text_sha256"]
    assert record["selected_on"] == "validation" and record["curve"][-1][0] == record["steps"]
    assert 1 < record["held-out"]["bits_per_byte"] < 8 and record["minutes"] > 0
    if "size" in record or "exit" in record:
        assert record["overlap"]["after"] > record["overlap"]["before"]
