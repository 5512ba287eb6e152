"""The ladder: every format that is measured, from 8 bits to 2. A new rung is one line.

Grammar of a name: quant/formats.py. `mix-...` are formats matrix by matrix that `selfdraft run sensitivity` found within a budget of
so many bits per weight; they lie in experiments/reference/. `...+tuned` are those that ship (specdec/drafts/tuned.py).
"""

from __future__ import annotations

from experiments.paths import REFERENCE

LADDER: tuple[str, ...] = (
    # round to nearest, width by width
    "rtn8", "rtn6", "rtn5", "rtn4", "rtn3", "rtn2",
    # another scale, or a scale and a minimum
    "absmax4", "absmax3",
    "minmax4", "minmax3", "minmax2",
    "mse5", "mse4", "mse3", "mse2",
    # tables of levels
    "nf4", "nf3", "mxfp4", "nvfp4",
    # larger and smaller groups
    "mse4-g128", "mse3-g128", "mse3-g64", "mse3-g16", "mse2-g16",
    # scales of a byte
    "absmax4-e8m0", "mse4-fp8", "mse3-fp8", "mse2-fp8", "mse2-g16-fp8",
    # turned before rounding
    "had+rtn3", "had+mse3", "had+mse2",
    # errors weighed by inputs
    "mse3+act", "mse2+act",
    # errors passed on
    "rtn4+gptq", "rtn3+gptq", "mse4+gptq", "mse3+gptq", "mse2+gptq",
    "mse4-g64-fp8+gptq", "mse3-fp8+gptq", "mse3-g64-fp8+gptq", "mse2-fp8+gptq", "mse2-g16-fp8+gptq",
    "had+mse3+gptq", "had+mse2+gptq",
    # a format for each matrix
    "mix-2.75", "mix-3.25",
    # trained to be accepted
    "rtn3+tuned", "rtn2+tuned", "mse2-fp8+tuned", "mse2-g64-fp8+tuned",
)  # fmt: skip

# bits per weight of budgets that a mix was searched for -> its file
MIXES = {name: REFERENCE / f"{name}.json" for name in LADDER if name.startswith("mix-")}


def spec_of(name: str) -> str:
    """What experiments.draft_formats reads: the name itself, or mix:FILE."""
    return f"mix:{MIXES[name]}" if name in MIXES else name
