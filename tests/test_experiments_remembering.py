"""The remembering draft says what an ordinary one says, once."""

import torch

from experiments.identity.remembering import RememberingDraft
from micro.chance import SeededChance
from micro.sampling import Sampling
from quant.formats import parse_format
from quant.model import quantize_model
from specdec.decode import generate
from specdec.drafts.model import ModelDraft
from tests.byte_model import byte_model


def texts(model, draft, gamma):
    """Rounds of three texts, of which two begin alike."""
    made = [
        generate(model, draft, prompt, max_new_tokens=20, gamma=gamma, sampling=Sampling(0), chance=SeededChance(0))
        for prompt in (list(b"The attention"), list(b"The at"), list(b"1, 2"))
    ]  # fmt: skip
    return [
        (one.tokens, [(r.drafted, r.kept, r.emitted) for r in one.rounds]) for one in made
    ], made


def test_it_drafts_what_a_model_draft_does_and_asks_nothing_twice():
    model = byte_model()
    copy = quantize_model(model, parse_format("rtn3"))
    draft = RememberingDraft(copy.module, copy.bytes_per_pass)
    for gamma in (1, 5, 3):
        expected, _ = texts(model, ModelDraft(copy.module, copy.bytes_per_pass), gamma)
        assert texts(model, draft, gamma)[0] == expected
        assert any(
            len(r.kept) < len(r.drafted)
            for one in texts(model, draft, gamma)[1]
            for r in one.rounds
        )
        again = texts(model, draft, gamma)[1]
        assert sum(r.draft_passes for one in again for r in one.rounds) == 0
    fresh = RememberingDraft(copy.module, copy.bytes_per_pass)
    assert all(r.draft_passes for r in texts(model, fresh, 4)[1][0].rounds)


def test_it_reads_only_what_it_has_not_read():
    class Counting(type(byte_model())):
        def forward(self, tokens, cache, *rest):
            fed.append(tokens.shape[1])
            return super().forward(tokens, cache, *rest)

    fed, model = [], byte_model()
    model.__class__ = Counting
    draft = RememberingDraft(model, 1)
    draft.start([1, 2, 3, 4], None)
    with torch.inference_mode():
        draft.propose(3, Sampling(0), SeededChance(0))
        assert fed == [4, 1, 1]
        draft.start([1, 2, 9], None)
        draft.propose(1, Sampling(0), SeededChance(0))
        assert fed == [4, 1, 1, 1]
        draft.start([1, 2], None)
        draft.propose(1, Sampling(0), SeededChance(0))
        assert fed == [4, 1, 1, 1, 1]
