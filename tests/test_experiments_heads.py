"""`selfdraft heads`: heads that draft beside their model, resumable to the bit, at the places they look ahead to; an untouched model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from experiments.__main__ import main
from micro.checkpoint import load_model, save_model
from micro.tensors import load_tensors
from micro.text import as_tokens
from micro.train import train
from specdec.distilling import OwnText, write_own_text
from specdec.drafts import make_draft
from specdec.drafts.shipped import TRAINED, fingerprint
from specdec.head_training import STUDENTS, HeadConfig, HeadTrainer
from specdec.tuning_losses import LOSSES, overlap
from tests.byte_model import byte_model

SMALL = ["--steps", "4", "--batch", "4", "--block", "24", "--opening", "8", "--own-texts", "5", "--validation-texts", "3",
         "--eval-every", "2", "--warmup", "1", "--depth", "2"]  # fmt: skip
TEXT = b"one and two are three, two and two are four; " * 12
KINDS = sorted(STUDENTS)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    save_model(folder / "model", byte_model())
    (folder / "text.txt").write_bytes(TEXT)
    return folder


def command(place, kind: str, out, *more: str) -> list[str]:
    where = ["--model", str(place / "model"), "--text", str(place / "text.txt"), "--out", str(out)]
    return ["heads", "--kind", kind, *where, *SMALL, *more]


@pytest.fixture(scope="module", params=KINDS)
def straight(request, place):
    """(kind, folder) of an undisturbed run."""
    out = place / request.param
    assert main(command(place, request.param, out)) == 0
    return request.param, out


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bits(folder) -> dict[str, bytes]:
    found = load_tensors(folder / "model.safetensors")
    return {name: t.view(torch.uint8).numpy().tobytes() for name, t in found.items()}


# --- the command


def test_a_run_leaves_heads_that_draft_a_record_a_curve_and_its_texts(place, straight, capsys):
    kind, out = straight
    before = digest(place / "model" / "model.safetensors")
    assert main(command(place, kind, out, "--fresh")) == 0
    printed = capsys.readouterr()
    assert digest(place / "model" / "model.safetensors") == before
    target, record = load_model(place / "model"), json.loads((out / "training.json").read_text())
    draft = make_draft(target, f"{kind}:{out}")
    assert draft.extra_bytes == record["stored_bytes"] == 2 * record["parameters"]
    assert record["heads"] == kind and record["depth"] == 2 and record["steps"] == 4
    assert record["target"] == fingerprint(target) and record["selected_on"] == "held-out"
    assert len(record["overlap"]) == 2 and all(0 < value < 1 for value in record["overlap"])
    assert [step for step, _ in record["curve"]] == [2, 4]
    assert record["command"].startswith(f"selfdraft heads --model {place / 'model'}")
    assert f"--kind {kind}" in record["command"] and "--depth 2 --steps 4" in record["command"]
    assert (out / "run" / "overlap.png").read_bytes().startswith(b"\x89PNG")
    assert "ok: the target is as it was" in printed.out and "FAILED" not in printed.out
    for path in (out / "run").glob("*.pt"):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_resumed_equals_straight(place, straight, tmp_path, stop):
    """1 between evaluations and where the loss changes, 2 behind one, 4 at the last step."""
    kind, out = straight
    assert main(command(place, kind, tmp_path / "out", "--stop-at", str(stop))) == 0
    assert main(command(place, kind, tmp_path / "out", "--resume")) == 0
    assert bits(tmp_path / "out") == bits(out)


def test_an_earlier_run_is_neither_written_over_nor_resumed_as_another(place, straight, capsys):
    kind, out = straight
    before = bits(out)
    other = KINDS[1 - KINDS.index(kind)]
    for of, more, what in (
        (kind, [], "--resume goes on with it"),
        (kind, ["--resume", "--depth", "3"], "depth was 2 and is now 3"),
        (other, ["--resume"], f"heads was '{kind}' and is now '{other}'"),
    ):
        assert main(command(place, of, out, *more)) == 2
        assert what in capsys.readouterr().err
    assert bits(out) == before


@pytest.mark.parametrize(
    "more, what",
    [(["--loss", "kl,xy"], "'xy' is unknown"), (["--opening", "24"], "--opening 24 must be below --block 24"), (["--block", "97"], "the model's context, 96"),
     (["--depth", "23"], "depth must be 1 or above and below block - 1, 23"), (["--parts", "9"], "parts must be 1 to batch")],
    ids=str,
)  # fmt: skip
def test_wrong_input_is_told_in_one_line(place, tmp_path, more, what, capsys):
    assert main(command(place, "medusa", tmp_path / "out", *more)) == 2
    errors = capsys.readouterr().err.splitlines()
    assert what in errors[-1] and errors[-1].startswith("selfdraft heads: ")
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_model_s_own_folder_is_no_place_for_heads(place, capsys):
    assert main(command(place, "medusa", place / "model")) == 2
    assert "name another" in capsys.readouterr().err


# --- what is learned

TARGET = byte_model()
OPENINGS = [list(TEXT[i : i + 8]) for i in range(0, 60, 10)]
OWN = write_own_text(TARGET, OPENINGS, 24, 1, "own")
CONFIG = HeadConfig(depth=3, steps=6, batch=4, block=24, warmup=2, eval_every=3)


def trainer(kind: str, **changes) -> HeadTrainer:
    config = replace(CONFIG, kind=kind, **changes)
    return HeadTrainer(TARGET, as_tokens(TEXT), OWN, [OWN], config)


@torch.no_grad()
def guess_by_hand(run: HeadTrainer, tokens: torch.Tensor, end: int, ahead: int) -> torch.Tensor:
    """Log-law (V,) behind tokens[:end], of which the target's states are known up to `ahead` places before the last one."""
    head, hidden = run.model.head, TARGET(tokens[None])[1]
    if run.config.kind == "medusa":
        state = hidden[0, end - 1 - ahead]
        read = state + F.silu(head.layers[ahead - 1].weight @ state)
        return (TARGET.lm_head.weight @ read).log_softmax(-1)
    features = hidden[:, : end - 1]
    for place in range(1, ahead + 1):  # every feature of the next reading is the last one's guess
        pass_ = TARGET.whole_pass(1, features.shape[1], None)
        features = head(features, TARGET.model.embed_tokens(tokens[None, place:end]), pass_)
        last, features = features[0, -1], features[:, :-1]
    return (TARGET.lm_head.weight @ last).log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_validation_is_what_is_refused_place_by_place(kind):
    """Guess and target behind the same text, spelled out token by token: an offset of one would show in every number."""
    run = trainer(kind)
    run.advance()
    text, own = OwnText(OWN.tokens[:2], 20), []
    run._laws, run.validation = [run._target_laws(text)], [text]
    for ahead in (1, 2, 3):
        found = []
        for row in text.tokens:
            laws = TARGET(row[None])[0][0].log_softmax(-1)
            for end in range(20, 24):  # the laws of tokens 20 ... 23
                found.append(float(overlap(laws[end - 1], guess_by_hand(run, row, end, ahead))))
        own.append(sum(found) / len(found))
    assert run.overlaps(run.model) == pytest.approx(own, abs=1e-5)  # float32 sums in another order
    assert run.validation_loss() == pytest.approx(1 - sum(own) / 3, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_training_raises_the_overlap_and_leaves_the_target_as_it_was(kind):
    before = {n: t.clone() for n, t in TARGET.state_dict().items()}
    run = trainer(kind, steps=30, eval_every=10, batch=6, lr=2e-2)
    start, seen = run.validation_loss(), []
    assert train(run, lambda event: seen.append(event.validation))
    assert run.best_loss < start - 0.02
    assert run.best_loss == min(v for v in seen if v is not None)
    assert all(torch.equal(t, before[n]) for n, t in TARGET.state_dict().items())
    names = {name.split(".")[0] for name in run.parameters}
    assert names == {"head"}  # nothing of the target's is trained


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_two_parts_gives_the_same_loss_and_step(kind):
    runs = [trainer(kind, parts=parts) for parts in (1, 2)]
    whole, split = (run.backward(0) for run in runs)
    assert split == pytest.approx(whole, rel=1e-5)  # float32 sums in another order
    for a, b in zip(*(run.model.parameters() for run in runs)):
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-5)


def test_the_loss_by_hand():
    """EAGLE at one depth: kl behind every token but the first, and half the smooth distance of the features."""
    run = trainer("eagle", depth=1, own_share=0.0)
    rows = run.rows(0)
    logits, hidden = TARGET(rows)
    (guess,) = run.model(rows, hidden)
    kl = LOSSES["kl"](logits[:, 1:].log_softmax(-1), guess.logits.log_softmax(-1))
    off = F.smooth_l1_loss(guess.features, hidden[:, 1:])
    assert run.backward(0) == pytest.approx(float((kl + 0.5 * off).detach()), rel=1e-5)


@pytest.mark.parametrize("wrong", [{"kind": "hydra"}, {"depth": 0}, {"feature_share": -1.0}, {"own_share": 2.0}], ids=str)  # fmt: skip
def test_a_wrong_value_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be "):
        replace(CONFIG, **wrong)


# --- the heads that ship


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_heads_are_the_shipped_micro_s(kind):
    from experiments.paths import WEIGHTS

    draft = make_draft(load_model(WEIGHTS), kind)
    record = json.loads((TRAINED / kind / "training.json").read_text())
    assert draft.extra_bytes == record["stored_bytes"] and record["minutes"] > 0
    assert (TRAINED / kind / "model.safetensors").stat().st_size < 1.05 * 2**20
