"""A Format says how a matrix becomes codes and scales. Names parse:

    [had+] scheme bits [-g32] [-fp16 | -fp8 | -e8m0] [+act] [+gptq]        rtn3, mse3-g64-fp8, had+mse2+gptq

    had+   weights are turned in blocks of a group before rounding (quant/hadamard.py)
    +act   the scale is searched with errors weighed by the inputs (quant/mse.py)
    +gptq  errors are passed on to columns not yet rounded (quant/gptq.py)

The last two need the matrix's inputs (quant/moments.py). Groups run along the input: a row of I weights is ceil(I / g) groups, the
last one possibly short. Bits per weight: b + (bits of a scale, and 16 for a minimum) / g.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quant import codebook, minmax, mse, rtn, slices
from quant.packing import packed_size
from quant.scales import SCALES
from quant.scheme import Scheme

SCHEMES: dict[str, Scheme] = {
    "rtn": rtn.RTN,
    "absmax": rtn.ABSMAX,
    "minmax": minmax.MINMAX,
    "mse": mse.MSE,
    "nf": codebook.NF,
    "fp": codebook.FP,
    "slice": slices.SLICE,
}
# other projects' names for a scheme with a group and a scale of its own: (scheme, group, scale)
ALIASES = {"mxfp": ("fp", 32, "e8m0"), "nvfp": ("fp", 16, "fp8")}


@dataclass(frozen=True)
class Format:
    """bits a code, weights a group (even), scheme, type of the stored scale, and what is done around the rounding.

    Raises ValueError naming the field.
    """

    name: str
    bits: int
    group: int = 32
    scheme: str = "rtn"
    scale: str = "fp16"
    rotated: bool = False
    weighed: bool = False
    compensated: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.bits, int) or not 2 <= self.bits <= 8:
            raise self._fault(f"bits must be 2 to 8, not {self.bits!r}")
        if not isinstance(self.group, int) or self.group < 2 or self.group % 2:
            raise self._fault(f"group must be even, 2 or above, not {self.group!r}")
        if self.scheme not in SCHEMES:
            raise self._fault(f"scheme {self.scheme!r} is none of {', '.join(SCHEMES)}")
        if self.scale not in SCALES:
            raise self._fault(f"scale {self.scale!r} is none of {', '.join(SCALES)}")
        self._check_together()

    def _check_together(self) -> None:
        scheme, scale = SCHEMES[self.scheme], SCALES[self.scale]
        if self.bits not in scheme.widths:
            widths = ", ".join(map(str, scheme.widths))
            raise self._fault(f"bits of {self.scheme} must be {widths}, not {self.bits}")
        if scheme.signed and not scale.signed:
            raise self._fault(f"scale {self.scale} holds no sign, which {self.scheme}'s needs")
        if scheme.minimum and self.scale != "fp16":
            raise self._fault(f"scale and minimum of {self.scheme} are fp16, not {self.scale}")
        if self.rotated and self.group & (self.group - 1):
            raise self._fault(f"group must be a power of two under had+, not {self.group}")
        if self.weighed and not scheme.searched:
            searched = ", ".join(name for name, s in SCHEMES.items() if s.searched)
            raise self._fault(f"+act weighs a search of the scale, as {searched} makes")

    def _fault(self, what: str) -> ValueError:
        return ValueError(f"format {self.name!r}: {what}")

    @property
    def needs_inputs(self) -> bool:
        """Whether quantizing takes the second moments of the matrix's inputs."""
        return self.weighed or self.compensated

    @property
    def bits_per_weight(self) -> float:
        """Of a matrix whose width the group divides: rtn4 has 4 + 16/32 = 4.5. A matrix under fp8 stores 32 bits more in all."""
        minimum = 16 if SCHEMES[self.scheme].minimum else 0
        return self.bits + (SCALES[self.scale].bits + minimum) / self.group

    def stored_shapes(self, shape: tuple[int, int]) -> dict[str, tuple[int, ...]]:
        """Of each tensor that a matrix (O, I) is stored as."""
        rows, width = shape
        groups = (rows, -(-width // self.group))
        shapes: dict[str, tuple[int, ...]] = {"codes": (packed_size(rows * width, self.bits),)}
        shapes["scales"] = groups
        if SCHEMES[self.scheme].minimum:
            shapes["minima"] = groups
        if SCALES[self.scale].has_unit:
            shapes["unit"] = (1,)
        return shapes

    def stored_bytes(self, shape: tuple[int, int]) -> int:
        """Bytes of everything that is stored of a matrix (O, I)."""
        rows, width = shape
        groups = rows * -(-width // self.group)
        per_group = SCALES[self.scale].bits // 8 + (2 if SCHEMES[self.scheme].minimum else 0)
        unit = 4 if SCALES[self.scale].has_unit else 0
        return packed_size(rows * width, self.bits) + groups * per_group + unit

    def of(self, name: str) -> Format:
        """The format of the matrix `name`: the same for all. A Mix tells them apart."""
        return self


PATTERN = re.compile(
    r"(?P<had>had\+)?(?P<scheme>[a-z]+)(?P<bits>[2-8])(-g(?P<group>[1-9]\d{0,3}))?"
    r"(-(?P<scale>(?!g\d)[a-z][a-z0-9]+))?(?P<act>\+act)?(?P<gptq>\+gptq)?"
)
GRAMMAR = "[had+]scheme bits[-gN][-scale][+act][+gptq]"


def parse_format(name: str) -> Format:
    """A Format by its name: one of FORMATS, or put together as the module says. Raises ValueError listing what exists."""
    if name in FORMATS:
        return FORMATS[name]
    return _parsed(name)


def _parsed(name: str) -> Format:
    match = PATTERN.fullmatch(name)
    if not match or match["scheme"] not in {**SCHEMES, **ALIASES}:
        raise ValueError(
            f"unknown format {name!r}; there are {', '.join(FORMATS)}, and {GRAMMAR} with schemes "
            f"{', '.join(SCHEMES)}, {', '.join(ALIASES)}, scales {', '.join(SCALES)}, as in had+mse3-g64-fp8+gptq"
        )
    scheme, group, scale = ALIASES.get(match["scheme"], (match["scheme"], 32, "fp16"))
    return Format(
        name,
        int(match["bits"]),
        int(match["group"] or group),
        scheme,
        match["scale"] or scale,
        rotated=bool(match["had"]),
        weighed=bool(match["act"]),
        compensated=bool(match["gptq"]),
    )


# what `selfdraft list` shows; every other combination parses too
NAMES = (
    "rtn8", "rtn6", "rtn5", "rtn4", "rtn3", "rtn2",
    "absmax8", "absmax4", "absmax3",
    "minmax4", "minmax3", "minmax2",
    "mse6", "mse5", "mse4", "mse3", "mse2",
    "nf4", "nf3", "mxfp4", "nvfp4",
    "rtn3-g64", "mse3-g16", "mse3-g128", "mse3-fp8", "mse2-g16-fp8", "absmax4-e8m0",
    "had+mse3", "had+mse2",
    "slice4", "slice3",
)  # fmt: skip
FORMATS: dict[str, Format] = {name: _parsed(name) for name in NAMES}
