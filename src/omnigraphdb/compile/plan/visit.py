"""Walking plans and their expressions, and changing parts of them; unchanged parts stay shared."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, assert_never

from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Bm25,
    Call,
    Choice,
    Compare,
    Const,
    EntityRef,
    Field,
    InList,
    IsNull,
    Nearest,
    Not,
    Now,
    ParamRef,
    PathValue,
    PropertyRef,
    Rrf,
    TextMatch,
    Truth,
)
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Operator,
    OptionalJoin,
    Output,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    SortBy,
    Stage,
    Tally,
    Union,
    Window,
)
from omnigraphdb.language.source import NOWHERE
from omnigraphdb.values import dataclass, replace

Reference = PropertyRef | EntityRef
Fixed = Const | ParamRef

T = TypeVar("T")

_PARTS: dict[type, tuple[str, ...]] = {
    Call: ("arguments",),
    Truth: ("condition",),
    Aggregate: ("argument", "fraction"),
    TextMatch: ("field", "query", "distance"),
    Nearest: ("field", "query"),
    Bm25: ("field", "query"),
    Rrf: ("first", "second", "k"),
    Compare: ("left", "right"),
    IsNull: ("operand",),
    InList: ("operand", "choices"),
    AllOf: ("parts",),
    AnyOf: ("parts",),
    Not: ("part",),
    Output: ("expr",),
    Tally: ("argument", "fraction", "ties"),
    SortBy: ("expr",),
    Window: ("offset", "limit"),
    PathValue: ("argument", "fraction"),
    Choice: ("by", "best"),
    Scan: ("filter", "search"),
    Expand: ("low", "high", "where"),
    FindPaths: ("low", "high", "where", "choice"),
    Filter: ("conditions",),
    Product: ("on",),
    Rank: ("ranking", "depth", "window"),
    Group: ("keys", "tallies"),
    Sort: ("keys", "window"),
    Slice: ("window", "per"),
    Stage: ("values",),
    Project: ("columns",),
    Attach: ("tally",),
}
"""The parts of each expression, condition and operator, in reading order, without the inputs of operators."""

_INPUTS: dict[type, tuple[str, ...]] = {
    Scan: (),
    Argument: (),
    Union: ("inputs",),
    Product: ("left", "right"),
    Anti: ("input", "inner"),
    Semi: ("input", "inner"),
    Attach: ("input", "inner"),
    OptionalJoin: ("input", "inner"),
}
_ONE_INPUT = ("input",)
_BOUND = frozenset({PropertyRef, EntityRef, PathValue})
_WITH_SPAN = frozenset({Aggregate, Call, Truth, PathValue, TextMatch, Nearest, Bm25, Rrf})


# ---- expressions


def walk(part: object) -> Iterator[Any]:
    """List a part of a plan and everything it holds, in reading order, without the inputs of operators."""
    if isinstance(part, tuple):
        for child in part:
            yield from walk(child)
    elif part is not None:
        yield part
        for name in _PARTS.get(type(part), ()):
            yield from walk(getattr(part, name))


def walk_rows(part: object) -> Iterator[Any]:
    """List the parts that `walk` lists, except those inside a value of a path: these are about edges, not about the row."""
    if isinstance(part, tuple):
        for child in part:
            yield from walk_rows(child)
    elif part is not None:
        yield part
        for name in () if isinstance(part, PathValue) else _PARTS.get(type(part), ()):
            yield from walk_rows(getattr(part, name))


def list_children(part: object) -> tuple[object, ...]:
    """List the direct children of a part of a plan, without the inputs of operators."""
    children: list[object] = []
    for name in _PARTS.get(type(part), ()):
        child = getattr(part, name)
        children += child if isinstance(child, tuple) else () if child is None else (child,)
    return tuple(children)


def variables_of(part: object) -> frozenset[str]:
    """Name the variables that a test or an expression reads."""
    names: set[str] = set()
    # Lowering asks this of every test several times; generators inside generators took twice as long.
    waiting = [part]
    while waiting:
        current = waiting.pop()
        kind = current.__class__
        if kind in _BOUND:
            names.add(current.variable)  # type: ignore[attr-defined]
        elif kind is tuple:
            waiting += current  # type: ignore[arg-type]
        else:
            waiting += [getattr(current, name) for name in _PARTS.get(kind, ())]
    return frozenset(names)


def fields_of(part: object) -> frozenset[str]:
    """Name the values carried by rows that a test or an expression reads."""
    return frozenset(expr.name for expr in walk(part) if isinstance(expr, Field))


def list_attached(operator: Operator) -> frozenset[str]:
    """Name the values that the rows of a binder carry."""
    if isinstance(operator, Stage):
        return frozenset(output.name for output in operator.values)
    own = {operator.name} if isinstance(operator, Attach) else set()
    nested = operator.input if isinstance(operator, Anti | Semi | Attach | OptionalJoin) else None
    below = list_inputs(operator) if nested is None else (nested,)
    return frozenset(own).union(*map(list_attached, below))


def has_text(part: object) -> bool:
    """Tell whether a test searches text anywhere inside."""
    return any(isinstance(child, TextMatch) for child in walk(part))


def list_references(part: object) -> Iterator[PropertyRef]:
    """List every property that a part of a query or of a plan mentions, inputs included."""
    if isinstance(part, PropertyRef):
        yield part
    elif is_dataclass(part):
        for name in (field.name for field in fields(part)):
            yield from list_references(getattr(part, name))
    elif isinstance(part, tuple):
        for item in part:
            yield from list_references(item)


def _same(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes of each kind of leaf; `field` is for a property inside a search or ranking."""

    reference: Callable[[Reference], Reference] = _same
    field: Callable[[PropertyRef], PropertyRef] = _same
    fixed: Callable[[Fixed], Fixed] = _same
    now: Callable[[Now], Now | Const] = _same
    keeps: Callable[[Compare], bool] = lambda _: False
    """Whether a comparison stays as it is, with all of its parts."""
    strip: bool = False
    """Whether every expression forgets its place in the text, also one without a leaf that changes."""


def change_part(part: T, change: Change) -> T:
    """Change every leaf of an expression, of a condition, or of the expressions of an operator."""
    changed: Any
    match part:
        case PropertyRef() | EntityRef():
            changed = change.reference(part)
        case Const() | ParamRef():
            changed = change.fixed(part)
        case Now():
            changed = change.now(part)
        case tuple():
            changed = _change_each(part, change)
        case Compare() if change.keeps(part):
            changed = part
        case _:
            changed = _change_children(part, change)
    return changed  # type: ignore[no-any-return]


def _change_each(parts: tuple[T, ...], change: Change) -> tuple[T, ...]:
    new = tuple(change_part(part, change) for part in parts)
    return parts if all(a is b for a, b in zip(new, parts, strict=True)) else new


def _change_children(part: T, change: Change) -> T:
    """Change the children of a part; a changed part has no position in the text any more."""
    new: dict[str, Any] = {}
    for name in _PARTS.get(type(part), ()):
        old = getattr(part, name)
        changed = change.field(old) if name == "field" else change_part(old, change)
        if changed is not old:
            new[name] = changed
    spanned = type(part) in _WITH_SPAN
    if not new and not (spanned and change.strip):
        return part
    if spanned:
        new["span"] = NOWHERE
    return replace(part, **new)  # type: ignore[type-var]


# Most of a query is leaves, and `dataclasses.replace` takes three times as long as the constructor.
_STRIP: dict[type, Callable[[Any], Any]] = {
    PropertyRef: lambda leaf: PropertyRef(
        variable=leaf.variable, property=leaf.property, type=leaf.type
    ),
    EntityRef: lambda leaf: EntityRef(variable=leaf.variable, type=leaf.type),
    Const: lambda leaf: Const(value=leaf.value, type=leaf.type),
    ParamRef: lambda leaf: ParamRef(name=leaf.name, type=leaf.type),
    Now: lambda leaf: Now(type=leaf.type),
}


def _strip_leaf(leaf: T) -> T:
    return _STRIP[type(leaf)](leaf)  # type: ignore[no-any-return]


_BARE = Change(
    reference=_strip_leaf, field=_strip_leaf, fixed=_strip_leaf, now=_strip_leaf, strip=True
)


def strip_spans(part: T) -> T:
    """Forget places in the text, so that one plan serves every spelling of a query."""
    return change_part(part, _BARE)


def replace_parts(part: T, replacements: Mapping[Any, Any]) -> T:
    """Replace whole expressions inside a part, the outermost first."""
    if isinstance(part, tuple):
        return tuple(replace_parts(child, replacements) for child in part)  # type: ignore[return-value]
    if part is None:
        return part
    if part in replacements:
        return replacements[part]  # type: ignore[no-any-return]
    children = {name: getattr(part, name) for name in _PARTS.get(type(part), ())}
    new = {name: replace_parts(value, replacements) for name, value in children.items()}
    changed = {name: value for name, value in new.items() if value != children[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]


# ---- operators


def list_inputs(operator: Operator) -> tuple[Operator, ...]:
    """List the operators an operator reads, in execution order."""
    if isinstance(operator, Union):
        return operator.inputs
    return tuple(getattr(operator, name) for name in _INPUTS.get(type(operator), _ONE_INPUT))


def execution_order(operator: Operator) -> Iterator[Operator]:
    """List an operator and everything below it, inputs first."""
    for below in list_inputs(operator):
        yield from execution_order(below)
    yield operator


def rewrite(operator: Operator, visit: Callable[[Operator], Operator]) -> Operator:
    """Rebuild a tree bottom-up; parts that do not change are shared with the old one."""
    return visit(change_inputs(operator, lambda below: rewrite(below, visit)))


def change_inputs(operator: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """Apply a change to each input of an operator."""
    names = _INPUTS.get(operator.__class__, _ONE_INPUT)
    # Every rule comes by every operator, and most of them have one input.
    if names is _ONE_INPUT:
        only: Any = operator
        changed = change(only.input)
        return operator if changed is only.input else replace(only, input=changed)
    if isinstance(operator, Union):
        inputs = tuple(map(change, operator.inputs))
        is_unchanged = all(a is b for a, b in zip(inputs, operator.inputs, strict=True))
        return operator if is_unchanged else Union(inputs)
    new: dict[str, Any] = {}
    for name in names:
        below = getattr(operator, name)
        changed = change(below)
        if changed is not below:
            new[name] = changed
    return replace(operator, **new) if new else operator


def list_bound_variables(operator: Operator) -> frozenset[str]:
    """Name the variables an operator's rows have, before any are dropped."""
    match operator:
        case Scan(variable=variable):
            return frozenset({variable})
        case Argument(variables=variables):
            return frozenset(variables)
        case Expand(input=below) | FindPaths(input=below):
            return list_bound_variables(below) | operator.binds
        case Product(left=left, right=right):
            return list_bound_variables(left) | list_bound_variables(right)
        case OptionalJoin(input=below, binds=binds):
            return list_bound_variables(below) | frozenset(binds)
        case Anti() | Semi() | Attach() | Filter() | Rank() | Sort() | Slice():
            return list_bound_variables(operator.input)
        case Stage(entities=entities):
            return frozenset(entities)
        case Group() | Project() | Union():
            return frozenset()
        case _:
            assert_never(operator)
