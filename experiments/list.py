"""List experiments, formats, drafts and rules: what the tables in the code hold, so a new entry appears by itself."""

from __future__ import annotations

import argparse
import inspect
import json

from experiments.run import EXPERIMENTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write one JSON object")


def run(args: argparse.Namespace) -> int:
    found = tables()
    if args.json:
        print(json.dumps(found))
        return 0
    for title, rows in found.items():
        width = max(map(len, rows))
        print(f"{title}:")
        print("\n".join(f"  {name:{width}}  {what}" for name, what in rows.items()) + "\n")
    return 0


def tables() -> dict[str, dict[str, str]]:
    """title -> name -> what it is."""
    from quant.formats import FORMATS, GRAMMAR
    from specdec.accept import RULES
    from specdec.drafts import DRAFTS

    formats = {
        f.name: f"{f.bits_per_weight:g} bits a weight: {'turned, ' if f.rotated else ''}{f.scheme}, {f.bits} bits, "
        f"groups of {f.group}, scales {f.scale}"
        for f in FORMATS.values()
    }
    return {
        "experiments (selfdraft run NAME)": {name: what for name, (_, what) in EXPERIMENTS.items()},
        f"formats (--draft NAME, --format NAME; also {GRAMMAR}, as in mse3-g64-fp8+gptq)": formats,
        "draft families": _described(DRAFTS),
        "acceptance rules (--rule NAME)": _described(RULES),
    }


def _described(table: dict) -> dict[str, str]:
    """name -> first sentence of the docstring of what stands in the table."""
    texts = {name: " ".join((inspect.getdoc(entry) or "").split()) for name, entry in table.items()}
    return {name: text.partition(". ")[0].rstrip(".") for name, text in texts.items()}
