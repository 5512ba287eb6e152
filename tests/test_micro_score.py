"""A document's loss: closed forms, and every byte counted once with enough before it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from micro.model import ModelConfig, Transformer
from micro.score import byte_laws, byte_losses, score
from micro.text import Document, as_tokens, scoring_windows

TINY = ModelConfig(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, max_position_embeddings=32,
)  # fmt: skip


def document(length: int, seed: int = 0) -> Document:
    generator = torch.Generator().manual_seed(seed)
    return Document("d", bytes(torch.randint(256, (length,), generator=generator).tolist()))


def test_a_model_that_knows_nothing_needs_eight_bits():
    model = Transformer(TINY)
    with torch.no_grad():
        model.model.embed_tokens.weight.zero_()  # tied: every logit is 0, every law uniform
    found = score(model, [document(100), document(7)])
    assert found.bytes == 99 + 6
    # float32 logsumexp of 256 zeros is ln 256 to its last place, about 5e-7
    assert found.bits_per_byte == pytest.approx(8, abs=1e-6)


def test_a_short_document_is_one_plain_pass():
    model, text = Transformer(TINY, seed=3), document(20)
    tokens = as_tokens(text.data)[None]
    expected = F.cross_entropy(model(tokens[:, :-1])[0][0], tokens[0, 1:], reduction="none")
    # the window is padded behind the text, which causality hides: only the order of sums may differ
    assert torch.allclose(byte_losses(model, [text])[0], expected, atol=1e-5)


@pytest.mark.parametrize("length", [0, 1, 2, 31, 32, 33, 47, 48, 49, 100])
def test_every_byte_but_the_first_counts_once(length):
    windows = scoring_windows(length, 32, 16)
    scored = [byte for start, end, first in windows for byte in range(first, end)]
    assert scored == list(range(1, length))
    assert all(end - start <= 32 and start < first for start, end, first in windows)
    assert all(first - start >= 16 for start, end, first in windows[1:])
    assert len(byte_losses(Transformer(TINY), [document(length)])[0]) == max(0, length - 1)


def test_documents_do_not_see_each_other():
    model = Transformer(TINY, seed=3)
    a, b = document(50, 1), document(40, 2)
    both = byte_losses(model, [a, b])
    assert torch.allclose(both[1], byte_losses(model, [b])[0], atol=1e-5)  # only the rows differ


def test_dropout_is_off_and_the_mode_is_put_back():
    model, text = Transformer(TINY, dropout=0.5, seed=3).train(), document(60)
    assert torch.equal(byte_losses(model, [text])[0], byte_losses(model, [text])[0])
    assert model.training


def test_nothing_to_score_is_refused():
    with pytest.raises(ValueError, match="nothing to score"):
        score(Transformer(TINY), [Document("d", b"x"), Document("e", b"")])


def test_bits_are_nats_over_ln_2():
    found = score(Transformer(TINY, seed=1), [document(40)])
    assert found.bits_per_byte * math.log(2) == pytest.approx(found.nats, rel=1e-12)


def test_the_laws_are_those_the_losses_come_from():
    model, texts = Transformer(TINY, seed=1).train(), [document(70), document(1), document(9)]
    for text, laws, losses in zip(texts, byte_laws(model, texts), byte_losses(model, texts)):
        assert laws.shape == (len(losses), 256) and model.training
        assert torch.allclose(laws.sum(1), torch.ones(len(laws)), atol=1e-5)
        own = laws.gather(1, as_tokens(text.data)[1:, None])[:, 0]
        assert torch.allclose(-own.log(), losses, atol=1e-5)
