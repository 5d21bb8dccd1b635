"""Code under the commit protocol can be replayed: time, ids and waiting come from `Runtime`, and no order from an address."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb

SOURCE = Path(omnigraphdb.__file__).parent
PACKAGES = ("commit", "manifest", "recovery", "engine", "storage")
MODULES = {"asyncio", "queue", "sched", "time"}
ORDERLESS = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
"""Functions whose result does not depend on the order of their argument."""


def list_breaches(source: str) -> list[str]:
    """Describe every place whose outcome another run of the same program might not repeat."""
    tree = ast.parse(source)
    return [*_list_foreign_clocks(tree), *_list_unsorted_loops(tree)]


def _list_foreign_clocks(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = [name.name for name in names]
            case ast.ImportFrom(module=str(module)):
                imported = [module]
            case ast.Attribute(value=ast.Name(id="SYSTEM"), attr=name):
                imported = []
                yield f"line {node.lineno}: SYSTEM.{name}"
            case ast.Attribute(attr="Timer") | ast.Name(id="Timer"):
                imported = []
                yield f"line {node.lineno}: Timer"
            case _:
                imported = []
        for module in MODULES.intersection(imported):
            yield f"line {getattr(node, 'lineno', 0)}: import {module}"


def _list_unsorted_loops(tree: ast.Module) -> Iterator[str]:
    attributes = set(_list_set_attributes(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen = set()
    for scope in (*reversed(functions), tree):
        names = set(_list_set_names(scope)) if isinstance(scope, ast.FunctionDef) else set()
        for loop in _list_loops(scope):
            if id(loop) not in seen and _is_set(loop, names, attributes):
                yield f"line {loop.lineno}: a loop over the set {ast.unparse(loop)}"
            seen.add(id(loop))


def _list_loops(scope: ast.AST) -> Iterator[ast.expr]:
    """List what is looped over, where the order of the loop may matter."""
    orderless = {
        id(argument)
        for call in ast.walk(scope)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        for argument in call.args
        if call.func.id in ORDERLESS and all(one.arg == "default" for one in call.keywords)
    }
    for node in ast.walk(scope):
        if isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            yield from (one.iter for one in node.generators if id(node) not in orderless)


def _list_set_attributes(tree: ast.Module) -> Iterator[str]:
    """List the attributes that a class of the file declares as sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and _declares_set(node.annotation):
            target = node.target
            if isinstance(target, ast.Attribute):
                yield target.attr
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and _declares_set(field.annotation):
                    yield ast.unparse(field.target)


def _list_set_names(function: ast.FunctionDef) -> Iterator[str]:
    """List the names that a function declares as sets."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and _declares_set(node.annotation):
            yield node.arg
        if isinstance(node, ast.AnnAssign) and _declares_set(node.annotation):
            yield ast.unparse(node.target)


def _declares_set(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Subscript(value=ast.Name(id="set" | "frozenset")):
            return True
        case _:
            return False


def _is_set(node: ast.expr, names: set[str], attributes: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            sides = (node.left, node.right)
            return any(_is_keys(one) or _is_set(one, names, attributes) for one in sides)
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in attributes
        case _:
            return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "keys"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_outcome_depends_on_another_clock_or_on_an_address(package: str) -> None:
    assert not {
        path.relative_to(SOURCE).as_posix(): breaches
        for path in sorted((SOURCE / package).rglob("*.py"))
        if (breaches := list_breaches(path.read_text()))
    }


@pytest.mark.parametrize(
    "source",
    [
        "import queue",
        "from asyncio import sleep",
        "from time import monotonic",
        "SYSTEM.wait(1)",
        "threading.Timer(1, run)",
        "for key in {one, two}: use(key)",
        "for key in a.keys() - b: use(key)",
        "made = [use(key) for key in set(keys)]",
        "def run(keys: set[str]) -> None:\n    for key in keys: use(key)",
        "class Waiter:\n    keys: frozenset[str]\ndef run(one): return [use(key) for key in one.keys]",
        "class Locks:\n    def __init__(self):\n        self.held: set[Lock] = set()\n"
        "    def renew(self):\n        for lock in self.held: lock.renew()",
    ],
)
def test_what_breaks_a_replay_is_noticed(source: str) -> None:
    assert list_breaches(source)


def test_a_sorted_set_and_a_question_about_all_of_it_are_no_breach() -> None:
    assert not list_breaches("for key in sorted({one, two}): use(key)\nall(key for key in {1, 2})")
