"""What a replay rests on, read off the sources: no thread, clock or order that the simulation does not decide."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parents[2] / "src" / "omnigraphdb"
PACKAGES: Final = ("commit", "manifest", "recovery", "engine", "storage")
_FORBIDDEN_MODULES: Final = frozenset({"asyncio", "queue", "sched"})
_SETS: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet"})
_ORDERLESS: Final = frozenset(
    {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum", "Counter"}
)
"""Calls whose result does not depend on the order of what they are given."""
EXCEPTIONS: Final = {
    ("engine/read/operators/steps.py", "hash"): "asks whether a value has a hash",
}
"""Places that a rule names, with the reason."""


def list_findings(text: str) -> Iterator[tuple[str, int]]:
    """List what breaks a replay: the rule, and the line."""
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    scopes = _list_set_names(tree, parents)
    for node in ast.walk(tree):
        names = _list_visible(node, scopes, parents)
        match node:
            case ast.Import(names=imported):
                if any(alias.name.split(".")[0] in _FORBIDDEN_MODULES for alias in imported):
                    yield "module", node.lineno
            case ast.ImportFrom(module=module) if (module or "").split(".")[0] in (
                _FORBIDDEN_MODULES
            ):
                yield "module", node.lineno
            case ast.Name(id="Timer") | ast.Attribute(attr="Timer") | ast.alias(name="Timer"):
                yield "Timer", node.lineno
            case ast.Name(id="SYSTEM", ctx=ast.Load()) if not _is_default(node, parents):
                yield "SYSTEM", node.lineno
            case ast.Call(func=ast.Name(id="hash")) if not _is_in_hash(node, parents):
                yield "hash", node.lineno
            case ast.For(iter=iterated) if _is_set(iterated, names):
                yield "order", node.lineno
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() if not _is_orderless(
                node, parents
            ):
                if any(_is_set(one.iter, names) for one in node.generators):
                    yield "order", node.lineno
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[given]) if _is_set(
                given, names
            ) and not _is_orderless(node, parents):
                yield "order", node.lineno


def _list_set_names(
    tree: ast.AST, parents: dict[ast.AST, ast.AST]
) -> dict[ast.AST | None, set[str]]:
    """List the variables and parameters that are declared as sets, by function; under None those of a module, and fields."""
    names: dict[ast.AST | None, set[str]] = {None: set()}
    for node in ast.walk(tree):
        scope = next((one for one in _list_above(node, parents) if _is_function(one)), None)
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=of) if _is_set_type(of):
                names[None].add(f".{name}")
            case ast.ClassDef(body=body):
                fields = (one for one in body if isinstance(one, ast.AnnAssign))
                names[None] |= {
                    f".{ast.unparse(field.target)}"
                    for field in fields
                    if _is_set_type(field.annotation)
                }
            case ast.AnnAssign(target=ast.Name(id=name), annotation=of) if _is_set_type(
                of
            ) and not isinstance(parents[node], ast.ClassDef):
                names.setdefault(scope, set()).add(name)
            case ast.arg(arg=name, annotation=ast.expr() as of) if _is_set_type(of):
                names.setdefault(scope, set()).add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value, set()):
                names.setdefault(scope, set()).add(name)
    return names


def _list_visible(
    node: ast.AST, scopes: dict[ast.AST | None, set[str]], parents: dict[ast.AST, ast.AST]
) -> set[str]:
    above = (scopes.get(one, set()) for one in _list_above(node, parents))
    return scopes[None].union(*above)


def _list_above(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.Lambda)


def _is_set_type(of: ast.expr) -> bool:
    name = of.value if isinstance(of, ast.Subscript) else of
    return isinstance(name, ast.Name) and name.id in _SETS


def _is_set(value: ast.expr, names: set[str]) -> bool:
    """Whether an expression is a set, as far as its own text tells."""
    match value:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr="union" | "difference" | "intersection")):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return f".{name}" in names
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub(), right=right):
            return any(_is_set(one, names) or _is_keys(one) for one in (left, right))
    return False


def _is_keys(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (
        isinstance(value.func, ast.Attribute) and value.func.attr in ("keys", "items")
    )


def _is_orderless(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the only use of a value is one to which its order means nothing."""
    match parents.get(node):
        case ast.Call(func=ast.Name(id=name)):
            return name in _ORDERLESS
        case ast.Call(
            func=ast.Attribute(attr=("update" | "union" | "difference" | "isdisjoint" | "isin"))
        ):
            return True
    return False


def _is_default(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a name is the default of a parameter or of a field."""
    parent = parents[node]
    return isinstance(parent, ast.arguments) or (
        isinstance(parent, ast.Lambda) and isinstance(parents[parent], ast.keyword)
    )


def _is_in_hash(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    functions = (one for one in _list_above(node, parents) if isinstance(one, ast.FunctionDef))
    return any(function.name == "__hash__" for function in functions)


def _list_files() -> list[Path]:
    return sorted(file for package in PACKAGES for file in (SOURCES / package).rglob("*.py"))


def test_the_engine_has_no_order_or_clock_of_its_own() -> None:
    known = {
        (file.relative_to(SOURCES).as_posix(), rule, line)
        for file in _list_files()
        for rule, line in list_findings(file.read_text())
    }
    broken = sorted(one for one in known if one[:2] not in EXCEPTIONS)
    assert not broken, broken
    unused = EXCEPTIONS.keys() - {one[:2] for one in known}
    assert not unused, f"these exceptions are needed no more: {unused}"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("module", "import queue"),
        ("module", "from asyncio import sleep"),
        ("Timer", "from threading import Timer"),
        ("Timer", "threading.Timer(1, act)"),
        ("SYSTEM", "now = SYSTEM.now_us()"),
        ("hash", "place = hash(branch) % 8"),
        ("order", "held: set[Lock] = set()\nfor one in held: act(one)"),
        (
            "order",
            "class A:\n    held: set[Lock]\n    def f(self): return [g(a) for a in self.held]",
        ),
        ("order", "for one in {a.name for a in b}: act(one)"),
        ("order", "rows = list(a.keys() & b.keys())"),
    ],
)
def test_the_rules_see_what_breaks_a_replay(rule: str, text: str) -> None:
    assert [one for one, _ in list_findings(text)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "def f(runtime: Runtime = SYSTEM) -> None: ...",
        "runtime: Runtime = field(default_factory=lambda: SYSTEM)",
        "held: set[Lock] = set()\nfor one in sorted(held): act(one)",
        "held: set[Lock] = set()\nis_valid = all(one.is_valid for one in held)",
        "class A:\n    def __hash__(self): return hash(self.name)",
    ],
)
def test_the_rules_leave_the_rest_alone(text: str) -> None:
    assert not list(list_findings(text))
