"""Many texts behind one prompt are the texts that plain decoding draws one by one, and their laws are the model's."""

import pytest
import torch

from experiments.exact.small_model import small_micro
from micro import many
from micro.chance import SeededChance
from micro.generate import generate
from micro.many import draw_many, laws_of_many
from micro.sampling import Sampling

MODEL = small_micro(vocab=64, context=96)
PROMPT, LENGTH = [3, 1, 4, 1, 5], 20
SAMPLINGS = [Sampling(1.0), Sampling(0.0), Sampling(0.7, top_k=5, top_p=0.9)]


def chances(count: int) -> list[SeededChance]:
    return [SeededChance(seed, "many") for seed in range(count)]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("prompt", [PROMPT, [7]])
def test_texts_are_those_of_plain_decoding(sampling, prompt):
    tokens, laws = draw_many(MODEL, prompt, LENGTH, sampling, chances(5))
    assert tokens.shape == (5, LENGTH) and laws.shape == (5, LENGTH, 64)
    for row, chance in zip(tokens.tolist(), chances(5)):
        assert row == generate(MODEL, prompt, LENGTH, sampling, chance)
    assert len({tuple(row) for row in tokens.tolist()}) == (5 if sampling.temperature else 1)


def test_laws_are_those_of_a_pass_over_each_whole_text():
    """To 1e-5: sums of some hundred float32 terms in another order."""
    tokens, laws = draw_many(MODEL, PROMPT, LENGTH, Sampling(), chances(3))
    other = small_micro(vocab=64, context=96, seed=4)
    for model, found in (
        (MODEL, laws),
        (MODEL, laws_of_many(MODEL, PROMPT, tokens, Sampling())),
        (other, laws_of_many(other, PROMPT, tokens, Sampling())),
    ):
        for row, own in zip(tokens, found):
            with torch.inference_mode():
                logits = model(torch.cat((torch.tensor(PROMPT), row[:-1]))[None])[0][0]
            want = Sampling().probs(logits[len(PROMPT) - 1 :])
            assert (own - want).abs().max() < 1e-5


def test_more_texts_than_a_pass_holds(monkeypatch):
    whole = draw_many(MODEL, PROMPT, LENGTH, Sampling(), chances(7))
    scored = laws_of_many(MODEL, PROMPT, whole[0], Sampling())
    monkeypatch.setattr(many, "ROWS", 3)
    parts = draw_many(MODEL, PROMPT, LENGTH, Sampling(), chances(7))
    assert torch.equal(parts[0], whole[0]) and torch.allclose(parts[1], whole[1], atol=1e-5)
    again = laws_of_many(MODEL, PROMPT, whole[0], Sampling())
    assert again.shape == scored.shape and torch.allclose(again, scored, atol=1e-5)


@pytest.mark.parametrize("prompt, count, fault", [([], 5, "empty"), (PROMPT, 92, "context of 96"), ([64], 5, "outside")])  # fmt: skip
def test_what_does_not_fit_is_refused(prompt, count, fault):
    with pytest.raises(ValueError, match=fault):
        draw_many(MODEL, prompt, count, Sampling(), chances(2))
