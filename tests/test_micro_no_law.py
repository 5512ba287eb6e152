"""Logits that state no law are told as what they are, at every temperature, alone or among sound rows."""

import math

import pytest
import torch

from micro.sampling import Sampling

SAMPLINGS = [Sampling(0), Sampling(1), Sampling(0.7, top_k=2), Sampling(1, top_p=0.5)]
NO_LAW = {
    "a NaN": [0.0, math.nan, 1.0],
    "all NaN": [math.nan] * 3,
    "plus infinity": [0.0, math.inf, 1.0],
    "two of them": [math.inf, -math.inf, math.inf],
    "nothing possible": [-math.inf] * 3,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("what", NO_LAW)
def test_no_law_is_refused_by_name(what, sampling, dtype):
    row = torch.tensor(NO_LAW[what], dtype=dtype)
    sound = torch.tensor([0.0, 1.0, 2.0], dtype=dtype)
    for logits in (row, torch.stack([sound, row, sound]), row[None, None]):
        with pytest.raises(ValueError, match="the model's logits hold NaN or infinity"):
            sampling.probs(logits)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_impossible_token_is_no_fault(sampling):
    law = sampling.probs(torch.tensor([[-math.inf, 0.0, 1.0], [-math.inf, -math.inf, -9e30]]))
    assert torch.allclose(law.sum(-1), torch.ones(2)) and law[1].tolist() == [0, 0, 1]
    assert (law[:, 0] == 0).all()
    assert sampling.probs(torch.empty(0, 3)).shape == (0, 3)  # no rows, no fault
