"""Skipped layers and early exits: the target's own tensors, bytes by hand, refusals, exact text; an exit's norm learns."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from micro.chance import SeededChance
from micro.files import write_json
from micro.generate import generate as plain
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from micro.text import as_tokens
from micro.train import train
from specdec.decode import generate
from specdec.distilling import DistilConfig, Distiller, write_own_text
from specdec.drafts import make_draft
from specdec.drafts.exits import ExitNorm, save_exit
from specdec.drafts.layers import of_layers
from specdec.drafts.shipped import fingerprint
from specdec.tuning_losses import Schedule

# D 32, inner 32, 3 layers: a layer has 4 x 32^2 + 3 x 32 x 32 + 2 x 32 numbers
SIZES = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
         "num_key_value_heads": 2, "max_position_embeddings": 48}  # fmt: skip
LAYER = 4 * 32 * 32 + 3 * 32 * 32 + 2 * 32
TEXT = as_tokens(bytes(i * i % 29 for i in range(200)))
PROMPTS = [TEXT[i : i + 4].tolist() for i in range(0, 60, 10)]
GREEDY = Sampling(0.0)


def target_of(tied: bool = True, seed: int = 5) -> Transformer:
    """Sharp enough that its text varies."""
    model = Transformer(ModelConfig(**SIZES, tie_word_embeddings=tied), seed=seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(12 if parameter.dim() == 2 else 1)
    return model.requires_grad_(False)


TARGET = target_of()


def exit_folder(folder, target=TARGET, layers: int = 1, norm=None):
    save_exit(folder, target.model.norm.weight if norm is None else norm)
    write_json(folder / "training.json", {"exit": layers, "target": fingerprint(target)})
    return folder


def layer_by_layer(model: Transformer, numbers, tokens) -> torch.Tensor:
    """Logits of embedding, these layers, norm and head, without any Transformer around them."""
    pass_ = model.whole_pass(*tokens.shape, None)
    x = model.model.embed_tokens(tokens.flatten())
    for number in numbers:
        x = model.model.layers[number](x, pass_, number)
    return model.lm_head(model.model.norm(x)).view(*tokens.shape, -1)


# --- skipping


def test_every_subset_drafts_with_the_target_s_own_tensors():
    tokens = TEXT[:24].reshape(2, 12)
    for kept in (kept for k in (1, 2) for kept in combinations(range(3), k)):
        draft = make_draft(TARGET, "layers:" + ",".join(map(str, kept)))
        assert torch.equal(draft.model(tokens)[0], layer_by_layer(TARGET, kept, tokens))
        own = {p.data_ptr() for p in TARGET.parameters()}
        assert {p.data_ptr() for p in draft.model.parameters()} <= own
        assert draft.bytes_per_pass == 2 * (32 * 32 + len(kept) * LAYER + 32)
        assert draft.extra_bytes == draft.extra_parameters == 0


def test_an_untied_embedding_counts_the_row_that_is_looked_up():
    draft = make_draft(target_of(tied=False), "layers:1")
    assert draft.bytes_per_pass == 2 * (32 + LAYER + 32 + 32 * 32)  # a row, layer, norm, head


def test_a_rounded_part_is_a_copy_of_its_own():
    draft = make_draft(TARGET, "layers:0,2+rtn4")
    # rtn4: 18 bytes for 32 weights; norms in 16 bits, two a layer and the last
    matrices, norms = 32 * 32 + 2 * 7 * 32 * 32, 5 * 32
    assert draft.bytes_per_pass == draft.extra_bytes == matrices * 18 // 32 + 2 * norms
    assert draft.extra_parameters == matrices + norms
    own = {p.data_ptr() for p in TARGET.parameters()}
    assert not own & {p.data_ptr() for p in draft.model.parameters()}


@pytest.mark.parametrize(
    "spec, what",
    [("layers:9", "some of the layers 0 to 2"), ("layers:", "some of the layers 0 to 2"), ("layers", "some of the layers"),
     ("layers:1,0", "ascending order"), ("layers:0,0", "ascending order"), ("layers:-1", "0 to 2"), ("layers:0,x", "0 to 2"),
     ("layers:0,1,2", "is the target itself: leave a layer out"), ("layers:0+rtn9", "unknown format 'rtn9'"),
     ("exit:3", "exits behind 1 to 2 of its 3 layers"), ("exit:0", "whole number, 1 or above"), ("exit:", "whole number"),
     ("exit:x", "whole number")],
)  # fmt: skip
def test_what_is_no_part_of_the_target_is_refused(spec, what):
    with pytest.raises(ValueError, match=what) as caught:
        make_draft(TARGET, spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["layers:0,2", "layers:1", "layers:0,2+rtn4", "exit"])
def test_greedy_text_is_plain_text_in_lanes_and_the_target_stays(spec, tmp_path):
    before = fingerprint(TARGET)
    if spec == "exit":
        spec = f"exit:{exit_folder(tmp_path / 'exit', layers=2)}"
    draft = make_draft(TARGET, spec)
    kept = 0
    for prompt in PROMPTS:
        done = generate(TARGET, draft, prompt, max_new_tokens=24, gamma=4, sampling=GREEDY,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        assert list(done.tokens) == plain(TARGET, prompt, 24, GREEDY, SeededChance(1), lanes=8)
        kept += done.totals.accepted
    assert kept and fingerprint(TARGET) == before


# --- early exit


def test_an_exit_is_the_first_layers_with_a_norm_of_its_own(tmp_path):
    norm = torch.linspace(0.5, 2, 32).to(torch.bfloat16).float()
    draft = make_draft(TARGET, f"exit:{exit_folder(tmp_path / 'exit', norm=norm)}")
    part = of_layers(TARGET, [0])
    hidden = torch.nn.functional.rms_norm(
        part(TEXT[None, :9])[1] / TARGET.model.norm.weight, (32,), norm, 0.0
    )
    # the target's norm taken off and another put on: divided and normed again, in float32
    assert torch.allclose(draft.model(TEXT[None, :9])[0], TARGET.lm_head(hidden), atol=1e-3)
    assert draft.bytes_per_pass == 2 * (32 * 32 + LAYER + 32)
    assert (draft.extra_bytes, draft.extra_parameters) == (2 * 32, 32)


def test_another_target_s_exit_and_what_is_none_are_refused(tmp_path):
    folder = exit_folder(tmp_path / "exit")
    with pytest.raises(
        ValueError,
        match="trained for the target .* make a draft of its own by `selfdraft distil --exit",
    ):
        make_draft(target_of(seed=6), f"exit:{folder}")  # fmt: skip
    with pytest.raises(ValueError, match="holds no early exit of 3 layers"):
        make_draft(TARGET, f"exit:{exit_folder(tmp_path / 'deep', layers=3)}")
    with pytest.raises(ValueError, match="cannot be read"):
        make_draft(TARGET, f"exit:{tmp_path / 'nothing'}")
    save_exit(folder, torch.ones(16))
    with pytest.raises(ValueError, match="shape"):
        make_draft(TARGET, f"exit:{folder}")
    save_exit(folder, torch.full((32,), torch.nan))
    with pytest.raises(ValueError, match="finite numbers in bfloat16"):
        make_draft(TARGET, f"exit:{folder}")


def test_an_exit_s_norm_learns_and_the_target_does_not():
    own, check = (write_own_text(TARGET, PROMPTS, 24, 1, name) for name in ("own", "validation"))
    config = DistilConfig(steps=60, batch=4, block=24, warmup=2, lr=0.05, eval_every=20, optimizer="adamw",
                          schedule=Schedule((("tv", 1.0),)), remember=True)  # fmt: skip
    before = {n: t.clone() for n, t in TARGET.state_dict().items()}
    run = Distiller(TARGET, ExitNorm(TARGET, 2), TEXT, own, [check], config)
    assert [n for n, _ in run.model.named_parameters()] == ["factor"]
    start = run.validation_loss()
    train(run)
    assert run.best_loss < 0.97 * start  # 32 numbers in an untrained model
    assert all(torch.equal(t, before[n]) for n, t in TARGET.state_dict().items())
