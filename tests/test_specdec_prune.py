"""Pruned drafts: masks and bytes by hand, what is removed whole against a reference, refusals, exact text, an untouched target."""

from __future__ import annotations

import pytest
import torch

from micro.chance import SeededChance
from micro.generate import generate as plain
from micro.model import ModelConfig, Transformer
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.pruning import lightest, scores, two_of_four
from quant.sparse import place_bytes, sparsify
from specdec.calibration import calibrated, read_windows
from specdec.decode import generate
from specdec.drafts import make_draft
from specdec.drafts.shipped import fingerprint
from specdec.structure import head_worth, layer_worth, neuron_worth, without_heads, without_neurons

# D 32, M 64, 4 heads of 8, 3 layers, all bytes: embedding 256 x 32; of a layer 4 matrices 32 x 32 and 3 of 2,048 numbers
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
         "max_position_embeddings": 48}  # fmt: skip
EMBEDDING, MATRICES, NORMS = 256 * 32, 3 * (4 * 1024 + 3 * 2048), 7 * 32


def target_of(**more) -> Transformer:
    """Sharp enough that its text varies; norms of their own, so that none is taken for another."""
    model = Transformer(ModelConfig(**{**SIZES, **more}), seed=5).eval().requires_grad_(False)
    for number, parameter in enumerate(model.parameters()):
        parameter.mul_(12 if parameter.dim() == 2 else 1 + number / 64)
        parameter.copy_(parameter.to(torch.bfloat16))
    return model


TARGET = target_of()
SPECS = ["prune:0.5", "prune:0.5,wanda", "prune:2:4", "prune:2:4,wanda", "prune:heads=2", "prune:neurons=0.5", "prune:layers=1"]  # fmt: skip


# --- which weights stay

W = torch.tensor([[0.1, -4.0, 2.0, 0.3], [1.0, 0.2, -0.3, 0.5]])
MOMENT = torch.diag(torch.tensor([100.0, 0.01, 1.0, 1.0]))


def test_masks_by_hand():
    assert lightest(scores(W), 0.5, by_row=False).int().tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]
    # |w| x root mean square of the input: (1, .4, 2, .3) and (10, .02, .3, .5)
    assert torch.allclose(scores(W, MOMENT), torch.tensor([[1.0, 0.4, 2.0, 0.3], [10, 0.02, 0.3, 0.5]]))  # fmt: skip
    assert lightest(scores(W, MOMENT), 0.5, by_row=True).int().tolist() == [[1, 0, 1, 0], [1, 0, 0, 1]]  # fmt: skip
    assert lightest(scores(W, MOMENT), 0.75, by_row=True).int().tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]  # fmt: skip
    assert lightest(scores(W), 0.75, by_row=False).int().tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert two_of_four(scores(torch.cat((W, W), 1)))[0].int().tolist() == [0, 1, 1, 0] * 2
    assert lightest(torch.ones(1, 4), 0.5, by_row=True).int().tolist() == [[1, 1, 0, 0]]  # ties
    with pytest.raises(ValueError, match="rows of fours, not of 6"):
        two_of_four(torch.ones(2, 6))


# --- what it takes to store them


def test_bytes_of_sparse_matrices_by_hand():
    mask = torch.zeros(4, 8, dtype=torch.bool)
    mask[:, ::2] = True
    weight = torch.arange(32.0).reshape(4, 8)
    # 16 values of 2 bytes; a bitmap of 32 bits; 2 bits a value; in rtn4 16 half bytes and one scale
    assert sparsify(weight, mask, "free").bytes == 32 + 4
    assert sparsify(weight, mask, "2:4").bytes == 32 + 4
    assert sparsify(weight, mask, "free", parse_format("rtn4")).bytes == 8 + 2 + 4
    # few values in a wide matrix: 10 columns of 2 bytes and 5 row starts of 4, not 500 bytes of bitmap
    assert place_bytes((4, 1000), 10, "free") == 20 + 20
    assert place_bytes((4, 256), 10, "free") == 10 + 20
    assert place_bytes((4, 1000), 300, "free") == 500
    with pytest.raises(ValueError, match="proj: no weight of it stays"):
        sparsify(weight, torch.zeros_like(mask), "free", name="proj")


def test_what_stays_is_decoded_where_it_stood():
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(8, 64, generator=generator).to(torch.bfloat16).float()
    mask = lightest(scores(weight), 0.5, by_row=False)
    assert torch.equal(sparsify(weight, mask, "free").dequantize(), weight * mask)
    rounded = sparsify(weight, mask, "free", parse_format("rtn8")).dequantize()
    assert not rounded[~mask].any()
    # half a step of 8 bits, and the scale's own rounding
    assert float((rounded - weight)[mask].abs().max()) <= float(weight.abs().max()) / 127


# --- drafts


def matrices_of(target, draft) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    return {
        n: (p, draft.model.get_parameter(n))
        for n, p in target.named_parameters()
        if p.dim() == 2 and ".layers." in n
    }


@pytest.mark.parametrize("spec, places", [("prune:0.5", 1 / 8), ("prune:0.5,wanda", 1 / 8), ("prune:2:4", 1 / 8), ("prune:2:4,wanda", 1 / 8)])  # fmt: skip
def test_half_of_every_matrix_goes_and_nothing_else(spec, places):
    draft = make_draft(TARGET, spec)
    for was, now in matrices_of(TARGET, draft).values():
        assert int((now != 0).sum()) == was.numel() // 2 and torch.equal(now, was * (now != 0))
        if "2:4" in spec:
            assert ((now != 0).reshape(-1, 4).sum(1) == 2).all()
    assert torch.equal(draft.model.lm_head.weight, TARGET.lm_head.weight)
    assert draft.model.lm_head.weight is draft.model.model.embed_tokens.weight
    # 2 bytes of each number that stays, and 1 bit a weight of where, or 2 bits a value, which is as much
    assert draft.bytes_per_pass == 2 * (EMBEDDING + NORMS) + MATRICES + int(MATRICES * places)
    assert draft.extra_bytes == draft.bytes_per_pass
    assert draft.extra_parameters == EMBEDDING + NORMS + MATRICES // 2


def test_wanda_weighs_by_inputs_in_every_row():
    draft, plain_one = make_draft(TARGET, "prune:0.5,wanda"), make_draft(TARGET, "prune:0.5")
    moments = calibrated(TARGET)
    differing = 0
    for name, (was, now) in matrices_of(TARGET, draft).items():
        score = was.abs() * moments[name].diagonal().sqrt().float()
        for row, kept in zip(score, now != 0):
            assert row[kept].min() >= row[~kept].max()
        differing += int(((now != 0) != (plain_one.model.get_parameter(name) != 0)).sum())
    assert differing > MATRICES // 100


@pytest.mark.parametrize("spec", ["prune:0.5+rtn4", "prune:2:4,wanda+rtn4"])
def test_pruned_and_rounded_bytes(spec):
    """rtn4: 18 bytes of 32 values, embedding included; the places as before."""
    draft = make_draft(TARGET, spec)
    values = (EMBEDDING + MATRICES // 2) * 18 // 32
    assert draft.bytes_per_pass == draft.extra_bytes == values + MATRICES // 8 + 2 * NORMS
    for was, now in matrices_of(TARGET, draft).values():
        assert int((now != 0).sum()) <= was.numel() // 2


def test_heads_that_write_least_go_from_every_layer():
    """The copy computes what the target does with those heads' outputs cut off from what reads them."""
    draft, silent, moments = make_draft(TARGET, "prune:heads=1"), target_of(), calibrated(TARGET)
    for number, layer in enumerate(silent.model.layers):
        moment = moments[f"model.layers.{number}.self_attn.o_proj.weight"].float()
        worth = head_worth(layer.self_attn.o_proj.weight, moment, 4)
        # against the definition: the mean square of W_h y over inputs whose second moments these are
        root = torch.linalg.cholesky(moment.double() + 1e-9 * torch.eye(32)).float()
        outputs = [layer.self_attn.o_proj.weight[:, 8 * h : 8 * h + 8] @ root[8 * h : 8 * h + 8] for h in range(4)]  # fmt: skip
        assert torch.allclose(worth, torch.stack([o.square().sum() for o in outputs]), rtol=1e-3)
        least = int(worth.argmin())
        layer.self_attn.o_proj.weight[:, 8 * least : 8 * least + 8] = 0
    tokens = torch.arange(40).reshape(2, 20) * 5
    assert torch.allclose(draft.model(tokens)[0], silent(tokens)[0], rtol=1e-3, atol=1e-3)
    assert draft.model.new_cache(1).keys.shape[2] == 3
    # of q, k, v, o a quarter of each
    assert draft.bytes_per_pass == draft.extra_bytes == 2 * (EMBEDDING + NORMS + MATRICES - 3 * 1024)  # fmt: skip
    assert draft.extra_parameters == draft.bytes_per_pass // 2


def test_neurons_that_write_least_go_from_every_layer():
    draft, silent, moments = make_draft(TARGET, "prune:neurons=0.25"), target_of(), calibrated(TARGET)  # fmt: skip
    for number, layer in enumerate(silent.model.layers):
        moment = moments[f"model.layers.{number}.mlp.down_proj.weight"].float()
        worth = neuron_worth(layer.mlp.down_proj.weight, moment)
        # by hand, for three of them: |column|^2 x the mean square of what it is multiplied with
        for j in (0, 7, 63):
            column = layer.mlp.down_proj.weight[:, j].tolist()
            by_hand = sum(w * w for w in column) * float(moment[j, j])
            assert float(worth[j]) == pytest.approx(by_hand, rel=1e-4)
        layer.mlp.down_proj.weight[:, worth.argsort()[:16]] = 0
    tokens = torch.arange(40).reshape(2, 20) * 5
    assert torch.allclose(draft.model(tokens)[0], silent(tokens)[0], rtol=1e-3, atol=1e-3)
    assert draft.bytes_per_pass == 2 * (EMBEDDING + NORMS + MATRICES - 3 * 3 * 32 * 16)


def test_the_layer_that_turns_least_goes_and_the_rest_is_the_target_s():
    """Its influence against the definition, from states that were collected one by one."""
    states: dict[int, list[torch.Tensor]] = {}
    hooks = [
        layer.register_forward_hook(
            lambda _, inputs, output, n=n: states.setdefault(n, []).append(
                1 - (inputs[0] * output).sum(-1) / (inputs[0].norm(dim=-1) * output.norm(dim=-1))
            )
        )
        for n, layer in enumerate(TARGET.model.layers)
    ]
    read_windows(TARGET)
    for hook in hooks:
        hook.remove()
    worth = [float(torch.cat(states[n]).mean()) for n in range(3)]
    assert layer_worth(TARGET) == pytest.approx(worth, rel=1e-4)
    stays = [n for n in range(3) if n != worth.index(min(worth))]
    draft = make_draft(TARGET, "prune:layers=1")
    assert [layer is TARGET.model.layers[n] for layer, n in zip(draft.model.model.layers, stays)] == [True, True]  # fmt: skip
    assert draft.extra_bytes == 0


def test_a_removed_part_and_a_format():
    # 2 heads leave o_proj rows of 16: each a short group of its own, whose scale of 2 bytes 16 weights must bear
    for spec, short in (
        ("prune:heads=2+rtn4", 3 * 32),
        ("prune:neurons=0.5+rtn4", 0),
        ("prune:layers=1+rtn4", 0),
    ):
        whole, rounded = make_draft(TARGET, spec.removesuffix("+rtn4")), make_draft(TARGET, spec)
        matrices = sum(p.numel() for p in whole.model.parameters() if p.dim() == 2)
        norms = sum(p.numel() for p in whole.model.parameters() if p.dim() == 1)
        assert rounded.bytes_per_pass == matrices * 18 // 32 + short + 2 * norms
        assert rounded.extra_bytes == rounded.bytes_per_pass


@pytest.mark.parametrize(
    "spec, what",
    [("prune:1.5", "a share between 0 and 1, not '1.5'"), ("prune:0", "a share between 0 and 1"), ("prune:nan", "a share"),
     ("prune:2:5", "a share between 0 and 1, not '2:5'; write prune:0.5, prune:2:4"), ("prune", "write prune:0.5"),
     ("prune:0.5,magic", "'magic' is not `wanda`"), ("prune:heads=4", "at most 3 of the 4 heads can go"), ("prune:heads=x", "the number of heads"),
     ("prune:layers=3", "at most 2 of the 3 layers can go"), ("prune:neurons=2", "a share between 0 and 1"), ("prune:neurons=0.001", "0 of 64 neurons"),
     ("prune:0.99999", "no weight of it stays"), ("prune:0.5+rtn9", "unknown format 'rtn9'"), ("prune:0.5+mse3+act", "made with some text in view")],
)  # fmt: skip
def test_what_cannot_be_pruned_is_told_in_one_line(spec, what):
    with pytest.raises(ValueError, match=what) as caught:
        make_draft(TARGET, spec)
    assert "\n" not in str(caught.value)


def test_targets_that_inputs_or_heads_cannot_be_told_of_are_refused():
    with pytest.raises(ValueError, match="the model has 32 tokens"):
        make_draft(target_of(vocab_size=32), "prune:0.5,wanda")
    with pytest.raises(ValueError, match="share keys and values"):
        make_draft(target_of(num_key_value_heads=2), "prune:heads=1")


@pytest.mark.parametrize("spec", [*SPECS, "prune:0.5,wanda+rtn4", "prune:heads=2+rtn4"])
def test_greedy_text_is_plain_text_in_lanes_and_the_target_stays(spec):
    before, greedy = fingerprint(TARGET), Sampling(0.0)
    draft = make_draft(TARGET, spec)
    for text in (b"one", b"two and", b"x"):
        done = generate(TARGET, draft, list(text), max_new_tokens=24, gamma=4, sampling=greedy,
                        chance=SeededChance(1), lanes=8)  # fmt: skip
        assert list(done.tokens) == plain(TARGET, list(text), 24, greedy, SeededChance(1), lanes=8)
    assert fingerprint(TARGET) == before


def test_removal_copies_and_shares_nothing_with_the_target():
    own = {p.data_ptr() for p in TARGET.parameters()}
    for copy in (without_heads(TARGET, 1), without_neurons(TARGET, 8)):
        assert not own & {p.data_ptr() for p in copy.parameters()}
