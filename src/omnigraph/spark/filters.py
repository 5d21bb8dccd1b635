"""Filters that storage evaluates: conditions of the query language, and Spark's own where it pushes them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import datasource as spark

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property, TableType
from omnigraph.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.compile.algebra import Test
from omnigraph.compile.checked import Among, Compare, Const, IsNull, Not, PropertyRef
from omnigraph.compile.query import checked_read
from omnigraph.engine.read.pushdown import sql
from omnigraph.errors import UserInputError, shorten
from omnigraph.language.query.tree import Comparison
from omnigraph.language.source import Source

_TEXT: Final = PropertyType(scalar=Scalar.STRING)
_COMPARISONS: Final[dict[type[spark.Filter], Comparison]] = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_INVERTED: Final[dict[Comparison, Comparison]] = {
    "=": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">",
}  # fmt: skip


def chosen(text: str, type_: TableType) -> str:
    """Write conditions on `$row` as a filter of storage; what storage cannot evaluate exactly is refused."""
    text_of_query = Source(
        f"query filter() {{ match {{ $row: Row\n{text}\n}} return {{ $row }} }}", "<filter>"
    )
    pattern = checked_read(text_of_query, _catalog(type_)).pattern
    if pattern.hops or pattern.negations or pattern.optionals or len(pattern.binds) != 1:
        raise UserInputError(
            "a filter holds conditions on $row only; nothing was read",
            hint="use graph.query(..., spark=session) for patterns",
        )
    tests = (*pattern.binds[0].matches, *pattern.conditions)
    written = [(test, sql(test, _value)) for test in tests]
    if any(found is None for _, found in written):
        raise UserInputError(
            f"the filter '{shorten(text)}' holds a condition that storage cannot evaluate; nothing was read",
            hint="storage compares plain properties with values; filter the frame for the rest",
        )
    return " and ".join(f"({found})" for _, found in written) or "true"


def _catalog(type_: TableType) -> Catalog:
    """A schema in which the type is a node whose ids and ends are properties like the others."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    more = {name: Property(name=name, type=_TEXT) for name in ("id", *ends)}
    return Catalog(nodes={"Row": NodeType(name="Row", properties={**type_.properties, **more})})


def pushed(
    filters: Sequence[spark.Filter], type_: TableType
) -> tuple[str | None, list[spark.Filter]]:
    """The part of a conjunction that storage evaluates, and what is left to Spark."""
    whole, left = [], []
    for one in filters:
        test = _test(one, type_)
        text = None if test is None else sql(test, _value)
        if text is None:
            left.append(one)
        else:
            whole.append(text)
    return (" and ".join(f"({text})" for text in whole) or None), left


def _value(constant: Any) -> object:
    return constant.value


def _test(one: spark.Filter, type_: TableType) -> Test | None:
    match one:
        case spark.Not(child=spark.IsNull(attribute=path)):
            return _about(path, type_, lambda column: IsNull(operand=column, negated=True))
        case spark.Not(child=spark.In(attribute=path, value=values)):
            return _about(path, type_, lambda column: _among(column, values, negated=True))
        case spark.Not(child=inner) if type(inner) in _COMPARISONS:
            return _compared(inner, _INVERTED[_COMPARISONS[type(inner)]], type_)
        case spark.IsNull(attribute=path):
            return _about(path, type_, lambda column: IsNull(operand=column, negated=False))
        case spark.IsNotNull(attribute=path):
            return _about(path, type_, lambda column: IsNull(operand=column, negated=True))
        case spark.In(attribute=path, value=values):
            return _about(path, type_, lambda column: _among(column, values, negated=False))
        case _ if type(one) in _COMPARISONS:
            return _compared(one, _COMPARISONS[type(one)], type_)
        case _:
            return None


def _compared(one: Any, op: Comparison, type_: TableType) -> Test | None:
    return _about(one.attribute, type_, lambda column: _compare(column, op, one.value))


def _about(
    path: tuple[str, ...], type_: TableType, make: Callable[[PropertyRef], Test | None]
) -> Test | None:
    """A test of one plain column; parts of structs and lists are Spark's."""
    if len(path) != 1:
        return None
    name = path[0]
    found = type_.properties.get(name)
    kind = found.type if found is not None else _TEXT if name in ("id", "src", "dst") else None
    if kind is None or not kind.is_plain:
        return None
    return make(PropertyRef(variable="row", property=name, type=kind))


def _compare(column: PropertyRef, op: Comparison, value: object) -> Test | None:
    typed = _typed(value, column.type)
    if typed is None:
        return None
    return Compare(left=column, op=op, right=Const(value=typed, type=column.type))


def _among(column: PropertyRef, values: Sequence[object], *, negated: bool) -> Test | None:
    typed = tuple(_typed(value, column.type) for value in values)
    if not typed or None in typed:
        return None
    inside = Among(operand=column, choices=Const(value=typed, type=column.type))
    return Not(part=inside) if negated else inside


def _typed(value: object, kind: PropertyType) -> object | None:
    """A literal as the column's own kind of value; None for what the column cannot be compared with exactly."""
    if isinstance(value, Decimal) and kind.scalar in INTEGERS:
        return int(value) if value == value.to_integral_value() else None
    if isinstance(value, datetime):
        exact = kind.scalar is Scalar.DATETIME and value.tzinfo is not None
        return value if exact and value.microsecond % 1000 == 0 else None
    if isinstance(value, bool):
        return value if kind.scalar is Scalar.BOOL else None
    if isinstance(value, int):
        return value if kind.scalar in INTEGERS | FLOATS else None
    if isinstance(value, float):
        return value if kind.scalar in FLOATS and value == value else None
    if isinstance(value, str):
        return value if kind.scalar is Scalar.STRING else None
    return value if kind.scalar is Scalar.DATE else None
