"""The import law, read from the syntax tree; and what a library does not do: print, read the environment, roll global dice."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# package -> the packages of ours it may import, itself aside. Nobody may import experiments
LAW = {
    "micro": set(),
    "quant": set(),
    "specdec": {"micro", "quant"},
    "experiments": {"micro", "quant", "specdec"},
}
LIBRARIES = ("micro", "quant", "specdec")
SPEAKERS = {("micro.train", "main")}  # functions of a library that are commands
FORBIDDEN = ("print", "input", "breakpoint", "os.environ", "os.getenv", "sys.stdout", "sys.stderr")
# of numpy.random: what makes a generator of one's own
OWN_GENERATORS = {"default_rng", "Generator", "PCG64", "Philox", "SeedSequence", "BitGenerator"}
# torch draws from the global generator unless it is handed one
TORCH_DRAWS = {
    "torch." + name
    for name in ["rand", "randn", "randint", "randperm", "normal", "multinomial", "bernoulli"]
}
TORCH_STATE = {"torch.manual_seed", "torch.seed", "torch.initial_seed", "torch.set_rng_state"}


def modules() -> dict[str, str]:
    """Dotted name -> source of every module of ours."""
    found = {}
    for package in LAW:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


MODULES = modules()


def imported(source: str) -> set[str]:
    """Dotted names a source imports, anywhere in it; `from a import b` gives a.b."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here, so that the law can be read"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def unlawful_imports(module: str, source: str) -> list[str]:
    package = module.split(".")[0]
    allowed = LAW[package] | {package}
    tops = {name.split(".")[0] for name in imported(source)}
    return sorted(top for top in tops & LAW.keys() if top not in allowed)


def edges(source: str, known: set[str]) -> set[str]:
    """Our modules a source imports: a.b.name counts as a.b where a.b.name is no module."""
    found = set()
    for name in imported(source):
        parent = name.rpartition(".")[0]
        found |= {name} & known or {parent} & known
    return found


class Manners(ast.NodeVisitor):
    """Collects `line: name` of whatever a library must not use."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.found, self.aliases = module, [], {}
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    full = alias.name if alias.asname else alias.name.split(".")[0]
                    self.aliases[alias.asname or full] = full
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self.visit(tree)

    def name_of(self, node: ast.AST) -> str:
        """Dotted name behind an expression, imports resolved; "" for anything else."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and (base := self.name_of(node.value)):
            return f"{base}.{node.attr}"
        return ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if (self.module, node.name) not in SPEAKERS:
            self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Inside `with torch.random.fork_rng()` the global generator is put back afterwards."""
        calls = [
            item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)
        ]
        if "torch.random.fork_rng" not in map(self.name_of, (call.func for call in calls)):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.judge(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.judge(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.name_of(node.func)
        if name in TORCH_DRAWS and "generator" not in {word.arg for word in node.keywords}:
            self.found.append(f"{node.lineno}: {name} without a generator")
        self.generic_visit(node)

    def judge(self, node: ast.AST) -> None:
        name = self.name_of(node)
        numpy = name.startswith("numpy.random.") and name.split(".")[2] not in OWN_GENERATORS
        stdlib = name.startswith("random.")
        if numpy or stdlib or name in TORCH_STATE or name in FORBIDDEN:
            self.found.append(f"{node.lineno}: {name}")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_package_may(module):
    assert unlawful_imports(module, MODULES[module]) == []


def test_no_package_imports_itself_in_a_circle():
    graph = {module: edges(source, MODULES.keys()) for module, source in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which lists the circle


@pytest.mark.parametrize("module", [m for m in MODULES if m.split(".")[0] in LIBRARIES])
def test_a_library_neither_prints_nor_reads_the_environment_nor_rolls_global_dice(module):
    assert Manners(module, MODULES[module]).found == []


@pytest.mark.parametrize(
    "module, source",
    [
        ("micro.x", "def f():\n    import quant.rtn"),
        ("quant.x", "from micro.model import ModelConfig"),
        ("specdec.x", "from experiments import paths"),
        ("micro.x", "from experiments.paths import ROOT"),
    ],
)
def test_an_unlawful_import_is_found(module, source):
    assert unlawful_imports(module, source)


def test_a_circle_is_found():
    sources = {"micro.a": "from micro.b import f", "micro.b": "def f():\n    from micro import a"}
    with pytest.raises(CycleError):
        TopologicalSorter({m: edges(s, sources.keys()) for m, s in sources.items()}).prepare()


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "import sys\nsys.stderr.write('x')",
        "import os\nx = os.environ.get('A')",
        "from os import environ\nx = environ['A']",
        "import torch\ntorch.manual_seed(1)",
        "import torch as t\nx = t.randn(3)",
        "import numpy as np\nnp.random.seed(1)",
        "from numpy import random\nrandom.shuffle([])",
        "import random\nrandom.random()",
        "from random import choice\nchoice([1])",
    ],
)
def test_bad_manners_are_found(source):
    assert Manners("micro.x", source).found


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ng = torch.Generator().manual_seed(1)\nx = torch.randn(3, generator=g)",
        "import numpy as np\nx = np.random.Generator(np.random.PCG64(1)).random()",
        "import torch\nwith torch.random.fork_rng():\n    torch.manual_seed(1)",
        "def f(chance):\n    return chance.random()",
    ],
)
def test_good_manners_pass(source):
    assert Manners("micro.x", source).found == []
