"""Pushdown: writes tests as SQL filters for storage, with literals of exactly the type of the column."""

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import assert_never

from omnigraphdb.catalog.types import FLOATS, PropertyType, Scalar
from omnigraphdb.catalog.values import epoch_milliseconds
from omnigraphdb.compile.checked import (
    AllOf,
    AnyOf,
    Compare,
    Const,
    EntityRef,
    InList,
    IsNull,
    Not,
    Now,
    ParamRef,
    PropertyRef,
    TextMatch,
)
from omnigraphdb.compile.coerce import ConstantTruth, Either, Exact, coerce, coerce_choices
from omnigraphdb.compile.plan.algebra import FLIPPED, Always, Test
from omnigraphdb.language.query.tree import Comparison

Value = Callable[[Const | ParamRef | Now], object]
Column = PropertyRef | EntityRef

_INTEGER_MIN = -(2**63)
_ORDERED = frozenset({"=", "!=", "<", "<=", ">", ">="})
_LAST = chr(0x10FFFF)
"""The last code point."""
_CHOICES_MAX = 1_000
"""Longer lists are tested in memory: parsing the filter would cost more than it saves."""


def column_name(column: Column) -> str:
    """Return the stored column of a property or an id."""
    return "id" if isinstance(column, EntityRef) else column.property


def render_filter(test: Test, value: Value) -> str | None:
    """Write a test on one entity as a filter; None if storage might evaluate it differently."""
    match test:
        case Always(value=answer):
            return "true" if answer else "false"
        case Compare(left=(PropertyRef() | EntityRef()) as column, op=op, right=right) if (
            isinstance(right, Const | ParamRef | Now)
        ):
            return _render_comparison(column, op, value(right))
        case Compare(left=left, op=op, right=(PropertyRef() | EntityRef()) as column) if (
            isinstance(left, Const | ParamRef | Now) and op in FLIPPED
        ):
            return _render_comparison(column, FLIPPED[op], value(left))
        case IsNull(operand=(PropertyRef() | EntityRef()) as column, negated=negated):
            return f"{_quote_column(column)} is {'not null' if negated else 'null'}"
        case InList(operand=(PropertyRef() | EntityRef()) as column, choices=choices):
            return _render_choices(column, value(choices))
        case AllOf(parts=parts):
            return _join_tests(" and ", parts, value)
        case AnyOf(parts=parts):
            return _join_tests(" or ", parts, value)
        case Not(part=InList() as part):
            inner = render_filter(part, value)
            return None if inner is None else f"(not {inner})"
        case Compare() | IsNull() | InList() | Not() | TextMatch():
            return None
        case _:
            assert_never(test)


def _join_tests(word: str, parts: Sequence[Test], value: Value) -> str | None:
    rendered = [render_filter(part, value) for part in parts]
    filters = [part for part in rendered if part is not None]
    return f"({word.join(filters)})" if len(filters) == len(rendered) else None


def _quote_column(column: Column) -> str:
    return f"`{column_name(column)}`"


def _render_comparison(column: Column, op: Comparison, value: object) -> str | None:
    match coerce(op, value, column.type):
        case ConstantTruth.UNKNOWN:
            return "false" if column.type.is_plain else None
        case ConstantTruth.TRUE:
            return f"{_quote_column(column)} is not null"
        case ConstantTruth.FALSE:
            return "false"
        case Exact(op=exact, value=typed) if column.type.is_plain:
            return _render_exact(_quote_column(column), exact, typed, column.type)
        case Exact() | Either():
            return None


def _render_exact(name: str, op: Comparison, value: object, type_: PropertyType) -> str | None:
    if op == "starts_with" and isinstance(value, str):
        return _render_prefix(name, value)
    if op not in _ORDERED:
        return None
    if type_.scalar in FLOATS and isinstance(value, int | float):
        return _render_float(name, op, float(value), type_.scalar)
    literal = _render_literal(value, type_)
    return None if literal is None else f"{name} {op} {literal}"


def _render_prefix(name: str, prefix: str) -> str | None:
    """Write a prefix as a range of texts, which an index finds; texts are ordered by code point."""
    if "\0" in prefix:
        return None
    if not prefix:
        return f"{name} is not null"
    low = _render_text(prefix)
    end = _find_end(prefix)
    return (
        f"{name} >= {low}" if end is None else f"({name} >= {low} and {name} < {_render_text(end)})"
    )


def _find_end(prefix: str) -> str | None:
    """Find the least text above every text with a prefix; None if no such text exists."""
    stem = prefix.rstrip(_LAST)
    if not stem:
        return None
    point = ord(stem[-1]) + 1
    # No text holds a surrogate.
    return stem[:-1] + chr(0xE000 if point == 0xD800 else point)


def _render_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _render_float(name: str, op: Comparison, value: float, scalar: Scalar) -> str:
    """Compare floats as IEEE 754 does; storage orders -0.0 below 0.0 and NaN at both ends."""
    low, high = _render_number(-math.inf, scalar), _render_number(math.inf, scalar)
    zero, literal = value == 0.0, _render_number(value, scalar)
    zeros = f"({_render_number(0.0, scalar)}, {_render_number(-0.0, scalar)})"
    lowest = _render_number(-0.0, scalar) if zero else literal
    match op:
        case "=":
            return f"{name} in {zeros}" if zero else f"{name} = {literal}"
        case "!=":
            return f"(not {name} in {zeros})" if zero else f"{name} != {literal}"
        case "<":
            return f"({name} >= {low} and {name} < {lowest})"
        case "<=":
            return f"({name} >= {low} and {name} <= {literal})"
        case ">":
            return f"({name} > {literal} and {name} <= {high})"
        case _:
            return f"({name} >= {lowest} and {name} <= {high})"


def _render_number(value: float, scalar: Scalar) -> str:
    return f"arrow_cast('{value!r}', '{'Float32' if scalar is Scalar.F32 else 'Float64'}')"


def _render_literal(value: object, type_: PropertyType) -> str | None:
    """Write a value of exactly the type of the column; None if SQL text cannot express it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return None if value == _INTEGER_MIN else str(value)
        case str():
            return None if "\0" in value else _render_text(value)
        case datetime():
            return f"arrow_cast({epoch_milliseconds(value)}, 'Date64')"
        case date():
            return f"date '{value.isoformat()}'"
        case float() if type_.scalar in FLOATS:
            return _render_number(value, type_.scalar)
        case _:
            return None


def _render_choices(column: Column, choices: object) -> str | None:
    if not isinstance(choices, list | tuple) or not column.type.is_plain or None in choices:
        return None
    if not choices:
        return "false"
    coerced = coerce_choices(choices, column.type)
    literals = [_render_literal(choice, column.type) for choice in coerced]
    rendered = [literal for literal in literals if literal is not None]
    if len(rendered) < len(literals) or len(rendered) > _CHOICES_MAX:
        return None
    return (
        f"{_quote_column(column)} in ({', '.join(rendered)})"
        if rendered
        else f"({_quote_column(column)} <> {_quote_column(column)})"
    )
