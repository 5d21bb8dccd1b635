"""Literals: the value each one has for a type, and which types compare with one another."""

from omnigraph.catalog.types import NUMBERS, PropertyType, Scalar
from omnigraph.catalog.values import parse_date, parse_datetime
from omnigraph.compile.checked import Const
from omnigraph.language.diagnostics import Findings
from omnigraph.language.query import tree

NULL_TYPE = PropertyType(scalar=Scalar.STRING, nullable=True)


def read_constant(expr: tree.LiteralExpr, findings: Findings) -> Const | None:
    """Give a literal its value and natural type; None when it was malformed and is reported."""
    match expr.form:
        case "string":
            return _plain(expr, expr.value, Scalar.STRING)
        case "int":
            return _plain(expr, expr.value, Scalar.I64)
        case "float":
            return _plain(expr, expr.value, Scalar.F64)
        case "bool":
            return _plain(expr, expr.value, Scalar.BOOL)
        case "date":
            day = parse_date(str(expr.value))
            return _check_dated(expr, day, Scalar.DATE, "YYYY-MM-DD", findings)
        case "datetime":
            instant = parse_datetime(str(expr.value))
            wanted = "RFC 3339 text such as 2026-02-14T08:00:00Z"
            return _check_dated(expr, instant, Scalar.DATETIME, wanted, findings)
        case "list":
            return _list(expr, findings)
        case "null":
            return Const(value=None, type=NULL_TYPE, span=expr.span)


def _plain(expr: tree.LiteralExpr, value: object, scalar: Scalar) -> Const:
    return Const(value=value, type=PropertyType(scalar=scalar), span=expr.span)


def _check_dated(
    expr: tree.LiteralExpr, value: object, scalar: Scalar, wanted: str, findings: Findings
) -> Const | None:
    if value is not None:
        return _plain(expr, value, scalar)
    word = "date" if scalar is Scalar.DATE else "datetime"
    findings.report("T37", expr.span, f"'{expr.value}' is not a {word}: expected {wanted}")
    return None


def _list(expr: tree.LiteralExpr, findings: Findings) -> Const | None:
    written = expr.value if isinstance(expr.value, tuple) else ()
    for item in written:
        if item.form in ("list", "null"):
            what = "another list" if item.form == "list" else "null"
            findings.report("T27", item.span, f"a list holds plain values, not {what}")
            return None
    items = [read_constant(item, findings) for item in written]
    found = [item for item in items if item is not None]
    if len(found) < len(items):
        return None
    scalar = _common([item.type.scalar for item in found])
    if scalar is None:
        kinds = ", ".join(dict.fromkeys(str(item.type) for item in found))
        findings.report(
            "T27", expr.span, f"a list holds values of one type, this one mixes {kinds}"
        )
        return None
    values = tuple(_as(item.value, scalar) for item in found)
    return Const(value=values, type=PropertyType(scalar=scalar, is_list=True), span=expr.span)


def _common(scalars: list[Scalar]) -> Scalar | None:
    distinct = set(scalars)
    if len(distinct) <= 1:
        return scalars[0] if scalars else Scalar.STRING
    return Scalar.F64 if distinct <= NUMBERS else None


def _as(value: object, scalar: Scalar) -> object:
    return float(value) if scalar is Scalar.F64 and isinstance(value, int) else value


def suggest_date_literal(found: Const, wanted: PropertyType) -> str | None:
    """The literal that was meant when text stands where a date belongs."""
    if not isinstance(found.value, str) or wanted.is_list:
        return None
    if wanted.scalar is Scalar.DATE and parse_date(found.value):
        return f'date("{found.value}")'
    if wanted.scalar is Scalar.DATETIME and parse_datetime(found.value):
        return f'datetime("{found.value}")'
    return None


def is_null(expr: tree.Expr) -> bool:
    """Whether an expression is the literal `null`."""
    return isinstance(expr, tree.LiteralExpr) and expr.form == "null"


def comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether two types compare: one scalar each, equal or both numeric; an enum is text."""
    return left.is_plain and right.is_plain and _akin(left, right)


def member_of(item: PropertyType, container: PropertyType) -> bool:
    """Whether a value can be an item of a list type."""
    is_list = container.is_list and not container.is_blob
    return is_list and item.is_plain and _akin(item, container)


def storable(given: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be assigned to a property of another."""
    if target.is_vector or given.is_vector:
        return target.dimension == given.dimension
    if target.is_list or given.is_list:
        return target.is_list and given.is_list and _akin(given, target)
    if target.is_blob:
        return given.scalar in (Scalar.STRING, Scalar.BLOB)
    return comparable(given, target)


def _akin(left: PropertyType, right: PropertyType) -> bool:
    return left.scalar is right.scalar or {left.scalar, right.scalar} <= NUMBERS
