"""A matrix that is trained while it is low-bit: every pass computes with what would be stored, gradients flow past the rounding.

Held in float32: `weight`, the matrix in steps of each group's own starting scale, and `factor` on that scale (and `minimum`,
in steps, where the format keeps one). In a pass

    d = stored(scale x factor)    x = clamp(steps x weight / d, lowest level, highest level)    W' = d x level(x)

and backward both roundings count as the identity (Bengio et al. 2013, arXiv 1308.3432, section 2). That is learned-step-size
quantization (Esser et al. 2020, LSQ, arXiv 1902.08153, equations 1 to 3): a weight inside the range gets W's gradient and one
outside none; a scale gets the gradient times level - x inside and times the level outside. Training a copy so towards its
own full-precision model is LLM-QAT's plan (Liu et al. 2023, arXiv 2305.17888). Worked, rtn at 2 bits, d = 1: W = (.6, 1.4) has levels
1, 1 (the highest); with gradient 1 on both, W gets (1, 0), d gets (1 - .6) + 1 = 1.4.

Measured in steps, weights of any size and width move alike at one learning rate. `packed` is exactly what a pass computes with.

Shapes: matrix (O, I), scales, factors and minima (O, ceil(I / g)).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from quant.formats import SCHEMES, Format
from quant.hadamard import rotate
from quant.scales import SCALES
from quant.tensor import QuantizedTensor, pack_matrix, per_weight, quantize


def rounded_through(value: Tensor, rounded: Tensor) -> Tensor:
    """`rounded` to the bit, with the gradient of `value`."""
    return rounded.detach() + (value - value.detach())


class StraightThrough(nn.Module):
    """`weight` (O, I) in `format`, its scales first multiplied by `shrink`. The matrix given stays as it was.

    Raises ValueError on a format whose codes depend on more than their own weight, or as `quantize`.
    """

    def __init__(self, weight: Tensor, format: Format, shrink: float, name: str = "weight") -> None:
        super().__init__()
        if format.needs_inputs:
            raise ValueError(
                f"format {format.name} looks at inputs once; training rounds anew at every step: tune it "
                f"without +act and +gptq"
            )
        start = quantize(weight, format, name)
        self.format, self.shape = format, start.shape
        self.low, self.high = level_range(format)
        weight = weight.detach().float().cpu()
        if format.rotated:
            weight = rotate(weight.double(), format.group).float()
        scale = start.scale_values()
        distance = (self.high - self.low) / ((1 << format.bits) - 1)  # of neighbouring levels
        self.register_buffer("scale", scale)
        # a group whose scale is zero decodes to zeros and stays there: any step will do
        self.register_buffer("step", torch.where(scale == 0, 1.0, scale.abs() * distance))
        self.weight = nn.Parameter(weight / self._spread(self.step))
        self.factor = nn.Parameter(torch.full_like(scale, shrink))
        self.minimum = None
        if start.minima is not None:  # the range shrinks around its middle
            middle = (1 - shrink) * (self.high - self.low) / 2
            self.minimum = nn.Parameter((start.minima.float() + middle * scale) / self.step)

    def forward(self) -> Tensor:
        """(O, I) float32: the decoded matrix, differentiable in everything that is trained."""
        _, _, d, minimum = self._beside()
        x, codes = self._codes(d, minimum)
        one, zero = torch.ones(()), torch.zeros(())
        level = SCHEMES[self.format.scheme].decode(codes, one, zero, self.format.bits)
        values = rounded_through(x, level) * self._spread(d)
        if minimum is not None:
            values = values + self._spread(minimum)
        return rotate(values, self.format.group) if self.format.rotated else values

    @torch.no_grad()
    def packed(self) -> QuantizedTensor:
        """What is stored: it decodes to forward's matrix, bit for bit."""
        stored, unit, d, minimum = self._beside()
        _, codes = self._codes(d, minimum)
        minima = None if minimum is None else minimum.to(torch.float16)
        codes = pack_matrix(codes, self.format)
        return QuantizedTensor(self.format, self.shape, codes, stored, minima, unit)

    def _beside(self) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Scales as they are stored, with their unit; scales and minima as decoding uses them, with a gradient."""
        kind, exact = SCALES[self.format.scale], self.scale * self.factor
        unit = kind.unit(exact.detach())
        stored = kind.store(exact.detach(), unit)
        minimum = None
        if self.minimum is not None:
            minimum = self.minimum * self.step
            minimum = rounded_through(minimum, minimum.to(torch.float16).float())
        return stored, unit, rounded_through(exact, kind.load(stored, unit)), minimum

    def _codes(self, d: Tensor, minimum: Tensor | None) -> tuple[Tensor, Tensor]:
        """Weights in levels, clamped, with a gradient; and the codes (O, I) they round to."""
        weight, scale = self.weight * self._spread(self.step), self._spread(d)
        offset = None if minimum is None else self._spread(minimum)
        with torch.no_grad():
            codes = SCHEMES[self.format.scheme].code(weight, scale, offset, self.format.bits)
        x = (weight if offset is None else weight - offset) / torch.where(scale == 0, 1.0, scale)
        return x.clamp(self.low, self.high), codes

    def _spread(self, per_group: Tensor) -> Tensor:
        return per_weight(per_group, self.format.group, self.shape[1])


def level_range(format: Format) -> tuple[float, float]:
    """The lowest and the highest level that a code means at scale 1 and minimum 0."""
    codes = torch.arange(1 << format.bits).to(torch.uint8)
    one, zero = torch.ones(()), torch.zeros(())
    levels = SCHEMES[format.scheme].decode(codes, one, zero, format.bits)
    return float(levels.min()), float(levels.max())
