"""Write a low-bit draft of a model, and report it tensor by tensor.

The folder DIR gets a config.json (the model's, and under "quantization" the format) and a
model.safetensors with packed codes and scales; `--draft DIR` uses it. The model itself is only read.

SQNR is 10 log10(sum of squares / sum of squared errors): 6 dB more is an error half the size. After writing, two checks: the
file's size is the accounting plus its header, and what is loaded back decodes bit for bit.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from experiments.options import whole
from experiments.paths import WEIGHTS

CACHE_BYTES = 2  # of a number in the key-value cache: bfloat16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", type=Path, default=WEIGHTS, metavar="MODEL_DIR",
        help="folder with config.json and model.safetensors (default: the micro that ships)",
    )  # fmt: skip
    parser.add_argument(
        "--format", default="rtn4", metavar="NAME",
        help="a format as in rtn3, mse3-g64-fp8 or mse3+gptq (`selfdraft list`), or mix:FILE.json with {matrix: format}; "
        "+act and +gptq read the course's training plates (default: rtn4)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--mean-context", type=whole(0), default=256, metavar="N",
        help="tokens in the cache for the c with cache (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    from experiments.draft_formats import read_format
    from micro.checkpoint import load_model
    from quant.model import quantize_model
    from specdec.calibration import calibrated
    from specdec.drafts.stored import save_quantized

    format = read_format(args.format)
    check_out(args.out, args.model)
    model = load_model(args.model)
    if args.mean_context > model.context:
        raise ValueError(
            f"--mean-context {args.mean_context} exceeds the model's context of {model.context}"
        )
    moments = calibrated(model) if format.needs_inputs else None
    draft = quantize_model(model, format, moments)
    save_quantized(args.out, draft)
    report = describe(model, draft, args.mean_context) | check(args.out, model, draft)
    report = {"model": str(args.model), "out": str(args.out), **report}
    print(json.dumps(report, allow_nan=False) if args.json else as_text(report))
    faults = [name for name, passed in report["checks"].items() if not passed]
    for name in faults:
        print(f"selfdraft quantize: check failed: {name}", file=sys.stderr)
    return 1 if faults else 0


def check_place(out: Path, model: Path) -> None:
    """Raises ValueError where `out` is no place for a folder of its own: a file, or the model's folder."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; name a folder")
    if out.is_dir() and model.is_dir() and out.samefile(model):
        raise ValueError(f"--out {out} is the model's own folder; name another")


def check_out(out: Path, model: Path, mark: str = "quantization") -> None:
    """Raises ValueError where writing the draft would write over a model, or over anything but a draft, whose config.json has the field
    `mark`."""
    from micro.files import read_json

    check_place(out, model)
    config = out / "config.json"
    if config.is_file() and mark not in read_json(config):
        raise ValueError(f"--out {out} holds a model, which is not written over; name another")


def describe(model, draft, mean_context: int) -> dict:
    """Every tensor, the totals, what stayed in 16 bits, and the three c's, ready for JSON."""
    from dataclasses import asdict

    from quant.bytes import costs, pass_bytes

    cache = model.cache_bytes(mean_context, CACHE_BYTES)
    cost = costs(draft.bytes_per_pass, pass_bytes(model), draft.nominal_bits, cache, cache)
    weights = sum(p.numel() for p in model.parameters())  # a tied pair once
    return {
        "format": draft.format.name,
        "bits_per_weight": draft.bits_per_weight,
        "tensors": [asdict(row) for row in draft.report],
        "stored_bytes": draft.stored_bytes,
        "stored_bits_per_weight": 8 * draft.stored_bytes / weights,
        "model_bytes": 2 * weights,
        "bytes_per_pass": draft.bytes_per_pass,
        "model_bytes_per_pass": pass_bytes(model),
        "float32_working_copy_bytes": 4 * weights,
        "c": asdict(cost) | {"mean_context": mean_context, "cache_dtype": "bfloat16"},
    }


def check(folder: Path, model, draft) -> dict:
    """Size of the file against the accounting, and of what is loaded back against what was measured."""
    import torch

    from micro.tensors import SINGLE
    from specdec.drafts.stored import load_quantized

    path = folder / SINGLE
    with open(path, "rb") as file:
        header = 8 + int.from_bytes(file.read(8), "little")
    size = path.stat().st_size
    loaded = load_quantized(folder, model)
    ours, theirs = draft.module.state_dict(), loaded.model.state_dict()
    same = ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)
    return {
        "file_bytes": size,
        "header_bytes": header,
        "checks": {
            "file size = accounting + header": size == draft.stored_bytes + header,
            "loaded back, it decodes bit for bit": bool(same),
        },
    }


def as_text(report: dict) -> str:
    """The report for a person."""
    width = max(len(row["name"]) for row in report["tensors"])
    lines = [
        f"{'tensor':{width}}  {'shape':>10}  {'bytes':>9}  {'bits/weight':>11}  {'SQNR dB':>7}"
    ]
    for row in report["tensors"]:
        shape = " x ".join(map(str, row["shape"]))
        sqnr = "exact" if row["sqnr_db"] is None else f"{row['sqnr_db']:.2f}"
        note = f"  {row['note']}" if row["note"] else ""
        lines.append(
            f"{row['name']:{width}}  {shape:>10}  {row['bytes']:>9,}  "
            f"{row['bits_per_weight']:>11.3f}  {sqnr:>7}{note}"
        )
    return "\n".join([*lines, "", *_totals(report), *_checks(report)])


def _totals(report: dict) -> list[str]:
    rows, c = report["tensors"], report["c"]
    kept = [row for row in rows if not row["quantized"]]
    matrices = sum(row["quantized"] and row["bytes"] > 0 for row in rows)  # a tied pair once
    numbers = sum(math.prod(row["shape"]) for row in kept)
    return [
        f"{matrices} matrices in {report['format']}; {len(kept)} tensors of {numbers:,} numbers "
        f"stay in 16 bits: norms are no matrices, and weigh {sum(row['bytes'] for row in kept):,} bytes",
        f"stored: {report['stored_bytes']:,} bytes, {report['stored_bits_per_weight']:.3f} bits per weight, "
        f"of {report['model_bytes']:,} in bfloat16 "
        f"(while it computes, {report['float32_working_copy_bytes']:,} more in float32)",
        f"read in a pass: {report['bytes_per_pass']:,} of {report['model_bytes_per_pass']:,} bytes",
        f"c: nominal {c['nominal']:.4f}, weights {c['weights']:.4f}, with cache {c['with_cache']:.4f} "
        f"(mean context {c['mean_context']}, cache in {c['cache_dtype']}, target in bfloat16)",
    ]


def _checks(report: dict) -> list[str]:
    size = f"{report['file_bytes']:,} bytes, {report['header_bytes']:,} of them header"
    marks = [f"{'ok' if ok else 'FAILED'}: {name}" for name, ok in report["checks"].items()]
    return [f"written: {report['out']} ({size})", *marks]
