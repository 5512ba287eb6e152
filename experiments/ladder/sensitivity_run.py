"""What rounding one matrix, or some, costs: alpha at T = 1 and gamma 4 on the choosing prompts, all else in 16 bits.

A point maps matrices to formats; those it does not name stay as they are. The same measurement serves the sensitivity of a single
matrix, of a kind, of a layer, and every step of the search for the best mix.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from specdec.replay import acceptance_given_output, replay

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import nn

    from experiments.setting import Setting
    from experiments.store import Store
    from quant.tensor import QuantizedTensor

NAME = "sensitivity"
VERSION = 1
TEMPERATURE, GAMMA = 1.0, 4
BITS = (2, 3)
ALONE = "mse{bits}"  # the format a matrix is rounded to alone: no inputs in view
DIGITS = 5


def parts_of(model: nn.Module) -> dict[str, list[str]]:
    """What is rounded together -> its matrices: each matrix, each layer, each kind of matrix in all layers, and everything.

    A matrix's layer is the number in its name, its kind the name of its module: model.layers.2.mlp.up_proj.weight is of layer
    2 and kind up_proj. One outside the layers (the embedding) stands by itself.
    """
    from quant.bytes import unique_parameters

    matrices = [n for n, p in unique_parameters(model).items() if p.dim() == 2]
    parts = {name: [name] for name in matrices}
    for name in matrices:
        steps = name.split(".")
        numbers = [s for s in steps if s.isdigit()]
        if numbers:
            parts.setdefault(f"layer {numbers[0]}", []).append(name)
            parts.setdefault(f"kind {steps[-2]}", []).append(name)
    return parts | {"all": matrices}


def points_of(model: nn.Module) -> list[dict]:
    return [
        {"part": part, "bits": bits, "formats": {n: ALONE.format(bits=bits) for n in names}}
        for part, names in parts_of(model).items()
        for bits in BITS
    ]


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    from experiments.draft_formats import calibration_hash
    from quant.formats import parse_format

    looks = any(parse_format(name).needs_inputs for name in point["formats"].values())
    return setting.identity(
        version=VERSION,
        window=setting.window,
        seeds=list(setting.seeds),
        gamma=GAMMA,
        temperature=TEMPERATURE,
        rule="token",
        calibration=calibration_hash(setting.model.context) if looks else None,
        formats=point["formats"],
    )


def choosing(setting: Setting) -> Setting:
    """The setting with the choosing prompts alone."""
    from experiments.halves import halves
    from experiments.setting import Setting

    prompts = [setting.prompts[i] for i in halves(setting.prompts)[0]]
    return Setting(setting.model_dir, prompts, setting.window, seeds=(1,), most_gamma=GAMMA)


class Workbench:
    """A copy of the model whose matrices are swapped for rounded ones and back; each is rounded once to each format."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model = copy.deepcopy(setting.model)
        self._packed: dict[tuple[str, str], QuantizedTensor] = {}

    def packed(self, name: str, format: str) -> QuantizedTensor:
        from quant.formats import parse_format
        from quant.model import with_look_ups
        from quant.tensor import quantize

        if (name, format) not in self._packed:
            parsed, moment = parse_format(format), None
            if parsed.needs_inputs:
                moment = with_look_ups(self.setting.model, self.setting.moments)[name]
            weight = self.setting.model.get_parameter(name)
            self._packed[name, format] = quantize(weight, parsed, name, moment)
        return self._packed[name, format]

    def run(self, point: dict, setting: Setting) -> dict:
        """Accepted and checked tokens of each prompt, and mean beta."""
        import torch

        setting.progress(f"scoring with {len(point['formats'])} matrices rounded")
        formats: Mapping[str, str] = point["formats"]
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                chosen = formats.get(name)
                original = setting.model.get_parameter(name)
                parameter.copy_(self.packed(name, chosen).dequantize() if chosen else original)
        texts = setting.texts(TEMPERATURE)
        q = setting.score(self.model, texts, TEMPERATURE)
        p_x, q_x = (
            law.gather(-1, texts.tokens[..., None])[..., 0].double().numpy()
            for law in (texts.laws, q)
        )
        expected = replay(acceptance_given_output(p_x, q_x), GAMMA, setting.window)
        overlap = texts.laws.minimum(q).sum(-1)[:, : setting.window]
        return {
            "accepted": _short(expected.accepted),
            "checked": _short(expected.checked),
            "overlap": float(f"{float(overlap.double().mean()):.6g}"),
            "bytes": sum(self.packed(n, f).bytes for n, f in formats.items()),
        }

    def measured(self, point: dict, store: Store) -> dict:
        """The point's record: from the store, or measured now and put there."""
        from experiments.store import key_of

        inputs = identity(point, self.setting)
        found = store.done(NAME, key_of(NAME, inputs))
        return found or store.append(NAME, inputs, point, "ok", self.run(point, self.setting))


def alpha(record: dict) -> float:
    return sum(record["result"]["accepted"]) / sum(record["result"]["checked"])


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{x:.{DIGITS}g}") for x in values]
