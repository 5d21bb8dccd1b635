"""Conditions and values as Spark columns, with exactly the meaning that they have in one process."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F

from omnigraphdb.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraphdb.catalog.values import epoch_milliseconds, item_type
from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Const,
    Duration,
    EntityRef,
    Field,
    InList,
    IsNull,
    Not,
    Now,
    Operand,
    ParamRef,
    PathValue,
    PropertyRef,
    TextMatch,
    Truth,
)
from omnigraphdb.compile.coerce import Coerced, ConstantTruth, Either, Exact, coerce, coerce_choices
from omnigraphdb.compile.plan.algebra import FLIPPED, Always, Test
from omnigraphdb.compile.plan.explain import render_expression
from omnigraphdb.errors import InternalError, QueryError
from omnigraphdb.language.query.tree import Comparison

ResolveColumn = Callable[[str, str], Column]
"""The column that holds a property (or `id`) of a variable."""

SPARK_NAMES: Final = {
    Scalar.STRING: "string", Scalar.BLOB: "binary", Scalar.BOOL: "boolean", Scalar.I32: "int", Scalar.I64: "bigint",
    Scalar.U32: "bigint", Scalar.U64: "decimal(20,0)", Scalar.F32: "float", Scalar.F64: "double",
    Scalar.DATE: "date", Scalar.DATETIME: "timestamp",
}  # fmt: skip

_FLOAT_EXACT: Final = 2.0**53
_BIGINT_END: Final = 2.0**63

_OPERATORS: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def make_unsupported_error(what: str) -> QueryError:
    """Make the error of a query that Spark cannot run."""
    return QueryError(
        f"{what} does not run on Spark; nothing was read",
        hint="run the query without spark=, or leave the search out",
    )


def spark_name(type_: PropertyType) -> str:
    """Return the name of a property type in Spark."""
    name = SPARK_NAMES[type_.scalar]
    return f"array<{name}>" if type_.is_list or type_.is_vector else name


FIELD = ""
"""Stands for a variable where a column of groups is meant."""


# ---- values


def path_key(path_value: PathValue) -> str:
    """Name a value of a path; no property has such a name."""
    return f"#{'distinct ' if path_value.distinct else ''}{render_expression(path_value)}"


def literal(value: object, type_: PropertyType) -> Column:
    """Make a column of one value with exactly the type of a property."""
    if value is None:
        return F.lit(None).cast(spark_name(type_))
    if isinstance(value, list | tuple):
        items = [literal(item, item_type(type_)) for item in value]
        return F.array(*items).cast(spark_name(type_))
    return _scalar(value, type_.scalar)


def _scalar(value: object, scalar: Scalar) -> Column:
    match value:
        case datetime():
            # Milliseconds since the epoch do not depend on the time zone of any process.
            return F.timestamp_millis(F.lit(epoch_milliseconds(value)).cast("bigint"))
        case date():
            return F.date_from_unix_date(F.lit((value - date(1970, 1, 1)).days))
        case bool() | str():
            return F.lit(value)
        case int() if scalar in INTEGERS:
            return F.lit(Decimal(value)).cast(SPARK_NAMES[scalar])
        case int() | float():
            return F.lit(float(value)).cast(SPARK_NAMES[scalar])
        case _:
            raise InternalError(
                f"a {type(value).__name__} is not a value of a {scalar}; nothing was read"
            )


def operand(expression: Operand, resolve_column: ResolveColumn) -> Column:
    """Lower an operand to a column."""
    match expression:
        case PropertyRef(variable=variable, property=name):
            return resolve_column(variable, name)
        case EntityRef(variable=variable):
            return resolve_column(variable, "id")
        case Const(value=value, type=type_):
            return literal(value, type_)
        case Field(name=name):
            return resolve_column(FIELD, name)
        case Truth(condition=test):
            return condition(test, resolve_column)
        case Call():
            return _call(expression, resolve_column)
        case ParamRef() | Now():
            raise InternalError("a plan for Spark was not filled; nothing was read")
        case PathValue(variable=variable):
            return resolve_column(variable, path_key(expression))
        case Aggregate():
            raise InternalError("an aggregate is read from groups; nothing was read")
        case _:
            assert_never(expression)


# ---- functions


def _call(call: Call, resolve_column: ResolveColumn) -> Column:
    is_moment = any(
        isinstance(argument, Const) and isinstance(argument.value, Duration)
        for argument in call.arguments
    )
    if is_moment or call.function not in _CALLS.keys() | _ARITHMETIC:
        word = call.function if call.function.isalpha() else f"'{call.function}'"
        raise make_unsupported_error(f"{word} of values")
    arguments = [operand(argument, resolve_column) for argument in call.arguments]
    if call.function in _ARITHMETIC:
        return _calculate(call, arguments)
    return _CALLS[call.function](*arguments).cast(spark_name(call.type))


_INFINITE: Final = float("inf")
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})


def _calculate(call: Call, arguments: Sequence[Column]) -> Column:
    """Compute with numbers; a division by zero and a result beyond its type stop the query, as in one process."""
    op, is_whole = call.function, call.type.scalar in INTEGERS
    # Decimals hold every result of two integers.
    left, right = (
        argument.cast("decimal(20,0)" if is_whole else "double") for argument in arguments
    )
    if op in ("/", "%"):
        if is_whole:
            left, right = left.cast("bigint"), right.cast("bigint")
        computed = F.call_function("div", left, right) if is_whole and op == "/" else left / right
        computed = left % right if op == "%" else computed
        return F.when(right == 0, _stop("a division by zero")).otherwise(computed)
    computed = {"+": left + right, "-": left - right, "*": left * right}[op]
    if is_whole:
        fits = computed.between(F.lit(Decimal(-(2**63))), F.lit(Decimal(2**63 - 1)))
        return F.when(~fits, _stop("the result is beyond the range of I64")).otherwise(
            computed.cast("bigint")
        )
    are_finite = (F.abs(left) < _INFINITE) & (F.abs(right) < _INFINITE)
    beyond = are_finite & ~(F.abs(computed) < _INFINITE)
    return F.when(beyond, _stop("the result is beyond the range of F64")).otherwise(computed)


def _stop(reason: str) -> Column:
    return F.raise_error(F.lit(f"{reason}; the query was stopped, nothing was changed"))


def _case(*arguments: Column) -> Column:
    branches = len(arguments) // 2
    chain = F.when(arguments[0], arguments[branches])
    for test, result in zip(arguments[1:branches], arguments[branches + 1 :], strict=False):
        chain = chain.when(test, result)
    return chain.otherwise(arguments[-1]) if len(arguments) % 2 else chain


_CALLS: dict[str, Callable[..., Column]] = {
    "coalesce": F.coalesce,
    "case": _case,
    "type": lambda entity, name: F.when(entity.isNotNull(), name),
    "lower": F.lower,
    "upper": F.upper,
    "length": F.char_length,
    "concat": F.concat,
    "replace": F.replace,
    "year": F.year,
    "month": F.month,
    "day": F.dayofmonth,
    "size": lambda items: F.when(items.isNotNull(), F.size(items)),
    "number": lambda number: number,
}
"""The functions that Spark computes exactly as the engine does; a query with any other is refused."""


# ---- conditions


def condition(test: Test, resolve_column: ResolveColumn) -> Column:
    """Lower a condition to a column of true, false or NULL."""
    match test:
        case Always(value=value):
            return F.lit(value)
        case Compare():
            return _compare(test, resolve_column)
        case IsNull(operand=given, negated=negated):
            column = operand(given, resolve_column)
            return column.isNotNull() if negated else column.isNull()
        case InList(operand=given, choices=Const(value=values)):
            return _is_in(operand(given, resolve_column), given.type, values)
        case AllOf(parts=parts):
            return _fold(parts, resolve_column, lambda a, b: a & b)
        case AnyOf(parts=parts):
            return _fold(parts, resolve_column, lambda a, b: a | b)
        case Not(part=part):
            return ~condition(part, resolve_column)
        case TextMatch(function=function):
            raise make_unsupported_error(f"{function}()")
        case InList():
            raise InternalError("a plan for Spark was not filled; nothing was read")
        case _:
            assert_never(test)


def _fold(
    parts: Sequence[Test],
    resolve_column: ResolveColumn,
    combine: Callable[[Column, Column], Column],
) -> Column:
    combined = condition(parts[0], resolve_column)
    for part in parts[1:]:
        combined = combine(combined, condition(part, resolve_column))
    return combined


def _compare(test: Compare, resolve_column: ResolveColumn) -> Column:
    left, op, right = test.left, test.op, test.right
    if isinstance(left, Const) and not isinstance(right, Const) and op in FLIPPED:
        left, op, right = right, FLIPPED[op], left
    column = operand(left, resolve_column)
    if isinstance(right, Const) and not isinstance(left, Const):
        return _with_value(column, left.type, coerce(op, right.value, left.type))
    return compare_columns(column, left.type, op, operand(right, resolve_column), right.type)


def _mask_absent(column: Column, answer: Column) -> Column:
    return F.when(column.isNotNull(), answer)


def _has_missing_item(lists: Column) -> Column:
    """Test whether lists contain NULL: unknown, but an empty list contains nothing."""
    return F.when(F.size(lists) == 0, F.lit(False))


def _with_value(column: Column, type_: PropertyType, coerced: Coerced) -> Column:
    match coerced:
        case ConstantTruth.UNKNOWN:
            return F.lit(None).cast("boolean")
        case ConstantTruth.TRUE | ConstantTruth.FALSE:
            return _mask_absent(column, F.lit(coerced is ConstantTruth.TRUE))
        case Either(first=first, second=second):
            return _with_value(column, type_, first) | _with_value(column, type_, second)
        case Exact(op="contains", value=None) if type_.is_list:
            return _has_missing_item(column)
        case Exact(op="contains", value=value) if type_.is_list:
            item = literal(value, item_type(type_))
            return _mask_absent(
                column, F.exists(column, lambda list_item: list_item.eqNullSafe(item))
            )
        case Exact(op="contains", value=value):
            return column.contains(F.lit(str(value)))
        case Exact(op="starts_with", value=value):
            return column.startswith(F.lit(str(value)))
        case Exact(op="ends_with", value=value):
            return column.endswith(F.lit(str(value)))
        case Exact(op="matches"):
            raise make_unsupported_error("matches")
        case Exact(op=op, value=value):
            return _OPERATORS[op](column, literal(value, type_))
        case _:
            assert_never(coerced)


def _is_in(column: Column, type_: PropertyType, choices: Any) -> Column:
    if choices is None:
        return F.lit(None).cast("boolean")
    if not choices:
        return F.lit(False)
    choice_literals = [
        literal(choice, item_type(type_)) for choice in coerce_choices(choices, type_)
    ]
    is_match = column.isin(*choice_literals) if choice_literals else F.lit(False)
    answer = F.when(is_match, F.lit(True)) if None in choices else is_match
    return _mask_absent(column, answer)


def compare_columns(
    left: Column, left_type: PropertyType, op: Comparison, right: Column, right_type: PropertyType
) -> Column:
    """Compare two columns row by row."""
    if op == "contains" and left_type.is_list:
        item = item_type(left_type)
        hit = F.exists(
            left,
            lambda list_item: F.coalesce(
                compare_columns(list_item, item, "=", right, right_type), F.lit(False)
            ),
        )
        is_contained = F.when(right.isNull(), _has_missing_item(left)).otherwise(hit)
        return _mask_absent(left, is_contained)
    if op == "contains":
        return left.contains(right)
    if op == "starts_with":
        return left.startswith(right)
    if op == "ends_with":
        return left.endswith(right)
    if op == "matches":
        raise make_unsupported_error("matches")
    kinds = {left_type.scalar, right_type.scalar}
    if kinds & FLOATS and kinds & INTEGERS:
        return _compare_mixed(left, left_type, op, right)
    return _OPERATORS[op](left, right)


def _compare_mixed(left: Column, left_type: PropertyType, op: Comparison, right: Column) -> Column:
    """Compare integers with floats exactly, without rounding the integers."""
    floats = left_type.scalar in FLOATS
    integer, fraction = (right, left) if floats else (left, right)
    rounded, fraction = integer.cast("double"), fraction.cast("double")
    doubtful = (
        (rounded == fraction) & (F.abs(rounded) >= _FLOAT_EXACT) & (F.abs(fraction) < _BIGINT_END)
    )
    exact = (
        integer.cast("decimal(20,0)"),
        F.when(doubtful, fraction).cast("bigint").cast("decimal(20,0)"),
    )
    pair, precise = ((fraction, rounded), exact[::-1]) if floats else ((rounded, fraction), exact)
    return F.when(doubtful, _OPERATORS[op](*precise)).otherwise(_OPERATORS[op](*pair))
