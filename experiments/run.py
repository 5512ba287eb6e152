"""Run one experiment by name, with the options of its own command.

`selfdraft run identity --prompts 5` is `selfdraft identity --prompts 5`; `selfdraft run NAME --help` tells an experiment's
options. A new experiment is one file, one line in COMMANDS and one here.
"""

from __future__ import annotations

import argparse

# experiment -> its command
EXPERIMENTS: dict[str, str] = {"plate": "plate", "identity": "identity"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=EXPERIMENTS,
                        help=f"one of {', '.join(EXPERIMENTS)}")  # fmt: skip
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="its own options")


def run(args: argparse.Namespace) -> int:
    from experiments.__main__ import run_command

    return run_command(EXPERIMENTS[args.name], args.options)
