"""Run one experiment by name, with the options of its own command.

`selfdraft run NAME --help` tells an experiment's options. A new experiment is one file and one line here; those that are
commands of their own (`selfdraft plate`) are the same program under both names.
"""

from __future__ import annotations

import argparse

from experiments.__main__ import COMMANDS, run_command

# experiment -> (module, what it does)
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "plate": COMMANDS["plate"],
    "identity": COMMANDS["identity"],
    "exact": COMMANDS["exact"],
    "rounds": ("watch.rounds", "the runs that the page's viewer steps through, token by token"),
    "lanes": (
        "lanes.command",
        "are texts the same to the bit in lanes; why they fork without; what lanes cost",
    ),
    "rules": (
        "rules.command",
        "every acceptance rule on the same texts: alpha, closed form, speed-up, the loop beside",
    ),
    "loop": (
        "loop.command",
        "does replay agree with the real loop? formats x temperatures x gamma 1 to 16",
    ),
    "losses": (
        "course.losses",
        "where micro is good: loss by volume, kind and place within a word",
    ),
    "amount": (
        "course.text_amount",
        "how much text is enough: a quarter, a half and all of the course",
    ),
    "ladder": (
        "ladder.command",
        "some fifty low-bit formats as drafts: acceptance, size, speed-up; the frontier figure",
    ),
    "sensitivity": (
        "ladder.sensitivity",
        "which matrices cost acceptance; the best formats matrix by matrix for a byte budget",
    ),
    "tuned": ("ladder.tuned", "drafts tuned for acceptance beside untuned ones of the same bytes"),
    "slices": (
        "ladder.slices",
        "a draft at no extra memory: the top bits of a target stored at 8 bits",
    ),
    "zoo": (
        "zoo.command",
        "every way to draft on one scale: acceptance, bytes, rows, speed-up by kind of prompt",
    ),
    "shared": (
        "shared.command",
        "a copy over the target's key-value cache beside its own: alpha by place, bytes held",
    ),
    "lossy": (
        "zoo.lossy",
        "LOSSY: typical acceptance beside the exact rule, and how far its text is off",
    ),
    "trees": (
        "trees.command",
        "token trees beside chains, by row budget; the best tree by dynamic programming",
    ),
    "lengths": (
        "lengths.command",
        "adaptive draft lengths between the best fixed one and the oracle",
    ),
    "recipe": ("course.recipe", "trainings beside each other: held-out loss against time"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=EXPERIMENTS,
                        help=f"one of {', '.join(EXPERIMENTS)}")  # fmt: skip
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="its own options")


def run(args: argparse.Namespace) -> int:
    return run_command(f"run {args.name}", EXPERIMENTS[args.name][0], args.options)
