"""Public names of the package: signatures, fields, members, and what each error says of itself."""

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import omnigraphdb
from omnigraphdb import errors, policy
from omnigraphdb.surfaces.cli.output import exit_code
from tests.golden.forms import IN_ORDER, Entries
from tests.support.reference import result_classes

_OTHERS: Final = {
    "omnigraphdb.remote.graph.reads": ("RemoteSnapshot",),
    "omnigraphdb.api.stored_queries": ("StoredQueries", "StoredQuery"),
    "omnigraphdb.api.frames": ("GraphFrames",),
    "omnigraphdb.api.showing": ("ShownGraph",),
    "omnigraphdb.api.spark_analytics": ("SparkProjection", "SparkScores"),
}
"""Classes of values that calls return, which the package does not export."""
_PROTOCOLS: Final = [
    "__enter__",
    "__exit__",
    "__iter__",
    "__next__",
    "__len__",
    "__getitem__",
    "__contains__",
    "__bool__",
    "__str__",
    "__repr__",
    "_repr_html_",
    "__arrow_c_stream__",
]


def record(_: Path) -> Entries:
    """Record every public name; members of a class have entries of their own."""
    names = {name: getattr(omnigraphdb, name) for name in (*omnigraphdb.__all__, "open")}
    names |= {f"policy.{name}": getattr(policy, name) for name in policy.__all__}
    names |= {f"errors.{name}": one for name, one in sorted(_list_errors())}
    spark = import_module("omnigraphdb.spark")
    names |= {f"spark.{name}": getattr(spark, name) for name in spark.__all__}
    named = {id(one) for one in names.values()}
    for one in (*result_classes(), *_list_others()):
        if id(one) not in named:
            names[f"value {one.__name__}"] = one
    entries: Entries = {"omnigraphdb": {IN_ORDER: sorted(omnigraphdb.__all__)}}
    for name, value in names.items():
        entries |= describe(name, value)
    return entries


def _list_errors() -> Iterator[tuple[str, type]]:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, (errors.OmniError, errors.OmniWarning)):
            yield name, value


def _list_others() -> Iterator[type]:
    for module, names in _OTHERS.items():
        yield from (getattr(import_module(module), name) for name in names)


def describe(name: str, value: Any) -> Entries:
    """Describe a public name; members of a class have entries of their own."""
    if isinstance(value, ModuleType):
        return {}
    if inspect.isclass(value):
        return _describe_class(name, value)
    if callable(value):
        return {name: {IN_ORDER: list(_describe_call(value))}}
    return {name: repr(value)}


# ---- classes


def _describe_class(name: str, cls: type) -> Entries:
    lines = [f"a {base.__name__}" for base in cls.__mro__[1:] if _is_public(base)]
    if issubclass(cls, errors.OmniError):
        lines += _describe_error(cls)
    if issubclass(cls, Enum):
        lines += [f"{one.name} = {one.value!r}" for one in cls]
    if dataclasses.is_dataclass(cls):
        lines += [_describe_field(cls, one) for one in dataclasses.fields(cls)]
    lines += [f"has {one}" for one in _PROTOCOLS if _is_ours(_find_home(cls, one))]
    entries: Entries = {name: {IN_ORDER: lines}}
    for member in dir(cls):
        home = _find_home(cls, member)
        if member.startswith("_") or not _is_ours(home):
            continue
        if home is errors.OmniError and home is not cls:
            continue
        found = inspect.getattr_static(cls, member)
        if isinstance(found, property):
            assert found.fget is not None
            returned = _find_annotations(found.fget).get("return", "")
            entries[f"{name}.{member}"] = f"property: {returned}"
        elif isinstance(found, classmethod | staticmethod):
            kind = type(found).__name__
            lines = [kind, *_describe_call(found.__func__)]
            entries[f"{name}.{member}"] = {IN_ORDER: lines}
        elif inspect.isfunction(found):
            entries[f"{name}.{member}"] = {IN_ORDER: list(_describe_call(found))}
    return entries


def _is_public(cls: type) -> bool:
    return not cls.__name__.startswith("_") and (
        cls in vars(errors).values() or (cls.__module__ == "builtins" and cls is not object)
    )


def _is_ours(cls: type | None) -> bool:
    return cls is not None and cls.__module__.partition(".")[0] == omnigraphdb.__name__


def _find_home(cls: type, name: str) -> type | None:
    return next((one for one in cls.__mro__ if name in vars(one)), None)


def _describe_error(cls: type[errors.OmniError]) -> Iterator[str]:
    """The body of an error of the class without facts, and the exit code of commands that it ends."""
    error = cls.__new__(cls)
    errors.OmniError.__init__(error, "message")
    for name, value in error.to_dict().items():
        if name != "error":
            yield f"{name} {value}"
    yield f"exit {exit_code(error)}"


def _describe_field(cls: type, field: Any) -> str:
    text = f"field {field.name}: {_find_field_annotation(cls, field.name)}"
    if field.default is not dataclasses.MISSING:
        return f"{text} = {_spell_default(field.default)}"
    if field.default_factory is not dataclasses.MISSING:
        return f"{text} = {field.default_factory.__name__}()"
    return text


# ---- calls


def _describe_call(function: Callable[..., Any]) -> Iterator[str]:
    """One line for each parameter, and before them those that a call must not lose: by position, and required."""
    parameters = [
        one for one in inspect.signature(function).parameters.values() if one.name != "self"
    ]
    annotations = _find_annotations(function)
    by_position = [one.name for one in parameters if one.kind < one.VAR_POSITIONAL]
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        one.name for one in parameters if one.default is one.empty and one.kind not in stars
    ]
    yield f"by position: {', '.join(by_position)}".rstrip()
    yield f"required: {', '.join(required)}".rstrip()
    for one in parameters:
        mark = {1: "", 0: "/ ", 2: "*", 3: "* ", 4: "**"}[int(one.kind)]
        text = f"{mark}{one.name}: {annotations.get(one.name, '')}"
        yield text if one.default is one.empty else f"{text} = {_spell_default(one.default)}"
    yield f"returns {annotations.get('return', '')}".rstrip()


def _spell_default(value: Any) -> str:
    text = repr(value.value if isinstance(value, Enum) else value)
    return type(value).__name__ if " at 0x" in text else text


# ---- annotations


def _find_annotations(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations as the source spells them, without quotes and modules: names resolve to other texts by import."""
    function = inspect.unwrap(function)
    node = _read_definitions(function.__module__).get(function.__qualname__)
    if not isinstance(node, ast.FunctionDef):
        return {}
    spec = node.args
    arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    found = {one.arg: one.annotation for one in arguments if one is not None}
    found["return"] = node.returns
    return {name: _spell_annotation(one) for name, one in found.items() if one is not None}


def _find_field_annotation(cls: type, name: str) -> str:
    for home in cls.__mro__:
        node = _read_definitions(home.__module__).get(home.__qualname__)
        for one in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == name:
                return _spell_annotation(one.annotation)
    return ""


@cache
def _read_definitions(module: str) -> dict[str, ast.AST]:
    """Every class and function of a module by its qualified name; of several with one name the last."""
    path = getattr(import_module(module), "__file__", None)
    if path is None or not path.endswith(".py"):
        return {}
    found: dict[str, ast.AST] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for one in body:
            if isinstance(one, ast.ClassDef | ast.FunctionDef):
                found[prefix + one.name] = one
            if isinstance(one, ast.ClassDef):
                walk(one.body, f"{prefix}{one.name}.")

    walk(ast.parse(Path(path).read_text(encoding="utf-8")).body, "")
    return found


class _Plain(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str):
            return node
        inner: ast.AST = self.visit(ast.parse(node.value, mode="eval").body)
        return inner

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)


def _spell_annotation(node: ast.expr) -> str:
    # Visiting changes a tree, and this one is kept.
    copy = ast.parse(ast.unparse(node), mode="eval").body
    return ast.unparse(_Plain().visit(copy))
