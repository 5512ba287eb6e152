"""The rules a plate of the course keeps, as functions from text to a list of faults.

Run on files it prints their faults: ``python3 tests/course_rules.py FILE...``; with ``--all`` also those
across plates (a sentence that stands twice, shared 8-word runs). Plain Python, so that a writer needs no install.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
from collections import Counter
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1] / "data" / "course"
HEADINGS = ["## Explanation", "## Worked example", "## Terms", "## In one sentence"]
MIN_BYTES, MAX_BYTES = 2500, 4500
RUN = 8  # words in a run
MAX_SHARED = 0.02  # share of a plate's runs that may stand in another plate

# wrong spelling -> the course's own. Whole words, any case.
SPELLING = {
    r"kv[ -]cache": "key-value cache",
    r"key value cache": "key-value cache",
    r"\w*quantiz\w*": "quantis-",
    r"normaliz\w*": "normalis-",
    r"optimiz\w*": "optimis-",
    r"initializ\w*": "initialis-",
    r"regulariz\w*": "regularis-",
    r"tokeniz\w*": "tokenis-",
    r"generaliz\w*": "generalis-",
    r"behavior\w*": "behaviour",
    r"neighbor\w*": "neighbour",
    r"color\w*": "colour",
    r"favor\w*": "favour",
    r"soft[ -]max": "softmax",
    r"backpropagat\w*": "back-propagat-",
    r"back propagat\w*": "back-propagat-",
    r"feed ?forward": "feed-forward",
    r"floating point (?:number|format|value|unit|arithmetic)s?": "floating-point",
    r"logprob\w*": "log-probability",
    r"log probabilit\w*": "log-probability",
    r"cross entropy": "cross-entropy",
    r"mini ?batch\w*": "mini-batch",
    r"round to nearest": "round-to-nearest",
    r"significand": "mantissa",
    r"bf16": "bfloat16",
    r"fp32": "float32",
    r"float16": "fp16",
    r"dataset\w*": "data set",
    r"hyper-parameter\w*": "hyperparameter",
    r"tokenizer\w*": "tokeniser",
    r"sub-word\w*": "subword",
    r"self attention": "self-attention",
    r"matrix multiply": "matrix multiplication",
    r"roof-line": "roofline",
    r"ngrams?": "n-gram",
    r"programme\b": "program",
}

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "abs": abs,
    "max": max,
    "min": min,
    "round": round,
    "floor": math.floor,
}


def evaluate(expression: str) -> float:
    """Value of an arithmetic expression; ValueError where it is none."""

    def walk(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.operand))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*map(walk, node.args))
        raise ValueError(f"not arithmetic: {expression!r}")

    try:
        return walk(ast.parse(expression.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, TypeError, OverflowError) as error:
        raise ValueError(f"not arithmetic: {expression!r}") from error


_FUNCTION = r"(?:sqrt|exp|ln|log2|log10|abs|max|min|round|floor)\("
_UNITS = re.compile(r"^(.*[\d)])\s+[A-Za-z][A-Za-z /-]*\.?$")
_LITERAL = re.compile(r"^-?\d+(?:\.(\d+))?(?:e[-+]?\d+)?$")


def _half_unit(segment: str) -> float | None:
    """Half a unit in the last place of a literal, None for an expression."""
    match = _LITERAL.match(segment)
    if not match:
        return None
    if "e" in segment:
        mantissa, exponent = segment.split("e")
        return 0.5 * 10 ** (int(exponent) - len(mantissa.partition(".")[2]))
    return 0.5 * 10 ** -len(match.group(1) or "")


def check_derivation(line: str) -> list[str]:
    """Faults of one `name = expression = value unit` line: every two neighbours agree as printed."""
    segments = [part.strip() for part in line.strip().split("=")]
    if not re.match(rf"^[\s\d(.+-]*(?:{_FUNCTION}|\d|\()", segments[0]) or re.match(
        r"^\d+[- ]?[a-z]", segments[0]
    ):
        segments = segments[1:]  # a name stands before the first sign
    if len(segments) == 1:  # `name = value`: a given, unless it will not parse
        segments = segments * 2
    values = []
    for segment in segments:
        units = _UNITS.match(segment)
        segment = units.group(1) if units else segment.rstrip(".")
        try:
            values.append((segment, evaluate(segment)))
        except ValueError as error:
            return [f"{line.strip()!r}: {error}"]
    faults = []
    for (_, before), (text, after) in zip(values, values[1:]):
        slack = _half_unit(text)
        tolerance = slack * (1 + 1e-6) if slack else 0.0
        tolerance = max(tolerance, 1e-9 * max(1.0, abs(before)))
        if abs(before - after) > tolerance and not _rounded_before(values, text, after, tolerance):
            faults.append(f"{line.strip()!r}: {before:.8g} is not {text}")
    return faults


def _rounded_before(values, text, after, tolerance) -> bool:
    """True if `after` agrees with the line's first expression, though a rounded value stands between."""
    return abs(values[0][1] - after) <= tolerance and (text, after) != values[0]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next."""
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found.group(1) if found else ""


def derivations(text: str) -> list[str]:
    lines = section(text, "## Worked example").splitlines()
    return [line for line in lines if line.startswith("    ") and "=" in line]


def prose(text: str) -> list[str]:
    """Lines of running text: no headings, listings, tables or list items."""
    return [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("#", "    ", "|", "- ", "Source:"))
    ]


def sentences(text: str) -> list[str]:
    """Sentences of at least four words, lower case, white space folded."""
    parts = (part for line in prose(text) for part in re.split(r"(?<=[.!?:])\s+", line))
    folded = (" ".join(part.lower().split()) for part in parts)
    return [part for part in folded if len(part.split()) >= 4]


def runs(text: str) -> Counter:
    """Every run of eight words in the plate, headings aside."""
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    words = re.findall(r"[a-z0-9'.-]+", body.lower())
    return Counter(tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1))


def check_plate(text: str) -> list[str]:
    """Faults of one plate by itself."""
    faults = []
    size = len(text.encode())
    if not MIN_BYTES <= size <= MAX_BYTES:
        faults.append(f"{size} bytes, wanted {MIN_BYTES} to {MAX_BYTES}")
    if "\r" in text or "\t" in text or not text.endswith("\n"):
        faults.append("carriage return, tab, or no final newline")
    lines = text.splitlines()
    if not lines or not re.match(r"^# \S", lines[0]):
        faults.append("the first line is not '# Title'")
    if [line for line in lines if line.startswith("## ")] != HEADINGS:
        faults.append(f"headings are not {HEADINGS}")
    if len(lines) < 3 or not lines[2].strip() or lines[2].startswith("#"):
        faults.append("no lead sentence on the third line")
    if not derivations(text):
        faults.append("no derivation line in the worked example")
    if not 3 <= sum(line.startswith("- ") for line in section(text, "## Terms").splitlines()) <= 6:
        faults.append("wanted three to six terms")
    for line in derivations(text):
        faults += check_derivation(line)
    for wrong, right in SPELLING.items():
        for found in re.findall(rf"\b(?:{wrong})\b", text, re.I):
            faults.append(f"spelling: {found!r}, here {right!r}")
    odd = Counter(c for c in text if ord(c) > 126)
    if sum(odd.values()) > 40:
        faults.append(f"too many characters outside ASCII: {dict(odd)}")
    if set(odd) & set("\u2014\u2013\u2018\u2019\u201c\u201d\u2026\u00d7"):
        faults.append(f"typographic marks: {dict(odd)}")
    twice = [s for s, n in Counter(sentences(text)).items() if n > 1]
    faults += [f"stands twice: {s!r}" for s in twice]
    return faults


def check_across(plates: dict[str, str]) -> list[str]:
    """Faults between plates: sentences that stand in two, and shared runs above 2%."""
    faults, first = [], {}
    for name, text in plates.items():
        for sentence in set(sentences(text)):
            if first.setdefault(sentence, name) != name:
                faults.append(f"{name}: stands in {first[sentence]} too: {sentence!r}")
    owners: dict[tuple, set] = {}
    counted = {name: runs(text) for name, text in plates.items()}
    for name, grams in counted.items():
        for gram in grams:
            owners.setdefault(gram, set()).add(name)
    for name, grams in counted.items():
        shared = [gram for gram in grams if len(owners[gram]) > 1]
        if len(shared) >= MAX_SHARED * max(1, len(grams)):
            example = " ".join(shared[0]) if shared else ""
            faults.append(f"{name}: {len(shared)}/{len(grams)} runs elsewhere too, as {example!r}")
    return faults


def read_course(folder: Path = COURSE) -> dict[str, str]:
    """Relative name -> text, in reading order."""
    return {
        str(path.relative_to(folder)): path.read_bytes().decode()
        for path in sorted(folder.glob("*/*.md"))
    }


def main(arguments: list[str]) -> int:
    faults = []
    for name in arguments:
        if name != "--all":
            faults += [f"{name}: {fault}" for fault in check_plate(Path(name).read_text())]
    if "--all" in arguments:
        faults += check_across(read_course())
    print("\n".join(faults) or "no faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
