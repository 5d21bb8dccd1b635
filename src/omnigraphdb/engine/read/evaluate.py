"""Expressions over rows: one evaluator for filters, results, orders, groups and writes, on whole Arrow columns."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.catalog.values import to_arrow
from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Condition,
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
from omnigraphdb.compile.coerce import coerce
from omnigraphdb.compile.plan.algebra import FLIPPED, Always, Test
from omnigraphdb.compile.plan.visit import walk
from omnigraphdb.engine.read.columns.compare import compare_columns, compare_value, is_in_list
from omnigraphdb.engine.read.columns.functions import FALLIBLE, RowFailure, call_function
from omnigraphdb.engine.read.columns.mixed_entities import numbers_of
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, count_up, indices_of
from omnigraphdb.errors import EvaluationError, InternalError, QueryError

Fixed = Const | ParamRef | Now
Leaf = PropertyRef | EntityRef | Field


class RowSource(Protocol):
    """Rows, as expressions see them."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def leaf(self, reference: Leaf) -> pa.Array:
        """Return the values of a property, an id or a carried value."""

    def identity(self, entity: EntityRef) -> pa.Array:
        """Return integers that are equal exactly for equal entities of a type; NULL for no entity."""

    def path(self, path_value: PathValue) -> pa.Array:
        """Compute a value of the path of each row."""

    def value(self, fixed: Fixed) -> object:
        """Return a value that is the same for every row."""

    def text(self, test: TextMatch) -> pa.Array:
        """Mark the rows that a text search finds."""

    def take(self, offsets: Integers) -> "RowSource":
        """Select some of the rows."""

    def describe(self, offset: int) -> str:
        """Name a row by its ids."""


def repeat_value(value: object, type_: PropertyType, rows: int) -> pa.Array:
    """Repeat one value as a column."""
    column = to_arrow([value], type_)
    return column if rows == 1 else column.take(pa.array(np.zeros(rows, dtype=np.int64)))


# ---- values


def evaluate(expr: Operand, source: RowSource) -> pa.Array:
    """Compute the values of an expression, one per row."""
    match expr:
        case PropertyRef() | EntityRef() | Field():
            return source.leaf(expr)
        case Const() | ParamRef() | Now():
            return repeat_value(source.value(expr), expr.type, source.rows)
        case Truth(condition=condition):
            return truth(condition, source)
        case Call():
            return _call(expr, source)
        case PathValue():
            return source.path(expr)
        case Aggregate():
            raise InternalError(
                "an aggregate cannot be read from single rows; nothing was changed; please report the query"
            )
        case _:
            assert_never(expr)


def _call(call: Call, source: RowSource) -> pa.Array:
    match call.function:
        case "case":
            return _choose_case(call, source)
        case "coalesce":
            return _choose_present(call, source)
        case "type":
            return _name_type(call, source)
        case "entity":
            return _make_records(call, source)
        case _:
            return _apply(call, source)


def _name_type(call: Call, source: RowSource) -> pa.Array:
    """Name the type of each entity; an entity of a mixed type carries the number of its type."""
    entity, names = call.arguments
    assert isinstance(entity, EntityRef), "the checker lets nothing else pass"
    assert isinstance(names, Const), "the checker names the types"
    identity = source.identity(entity)
    if names.type.is_list:
        numbers = numbers_of(pc.fill_null(identity, ABSENT).to_numpy(zero_copy_only=False))
        return pa.array(names.value, pa.string()).take(indices_of(numbers))
    name = repeat_value(names.value, names.type, source.rows)
    return pc.if_else(pc.is_valid(identity), name, pa.scalar(None, pa.string()))


def _apply(call: Call, source: RowSource) -> pa.Array:
    """Apply a function of plain values; a failure names its row."""
    fixed = [
        source.value(argument) if isinstance(argument, Fixed) else None
        for argument in call.arguments
    ]
    columns = [
        None if _is_duration(argument) else evaluate(argument, source)
        for argument in call.arguments
    ]
    try:
        return call_function(call.function, columns, fixed, call.type, source.rows)
    except RowFailure as failure:
        raise EvaluationError(
            f"{failure.reason} in '{call.function}' for the row {source.describe(failure.offset)};"
            " the statement was stopped, nothing was changed",
            hint="guard it with case when … then … end, or leave the row out with a filter",
        ) from failure


def _is_duration(operand: Operand) -> bool:
    return isinstance(operand, Const) and isinstance(operand.value, Duration)


# ---- choices: each value is computed only for the rows that take it


def _choose_case(call: Call, source: RowSource) -> pa.Array:
    branches = len(call.arguments) // 2
    tests, results = call.arguments[:branches], call.arguments[branches:]
    left, cases = count_up(source.rows), []
    for test, result in zip(tests, results, strict=False):
        part = source.take(left)
        hit = _true(evaluate(test, part))
        cases.append((left[hit], result))
        left = left[~hit]
    if len(results) > branches:
        cases.append((left, results[-1]))
    return _assemble(cases, call, source)


def _choose_present(call: Call, source: RowSource) -> pa.Array:
    left, parts = count_up(source.rows), []
    for argument in call.arguments:
        column = evaluate(argument, source.take(left)).cast(call.type.arrow)
        present = pc.is_valid(column).to_numpy(zero_copy_only=False)
        parts.append((left[present], column.filter(pa.array(present))))
        left = left[~present]
        if not len(left):
            break
    return _scatter(parts, call.type.arrow, source.rows)


def _assemble(cases: Sequence[tuple[Integers, Operand]], call: Call, source: RowSource) -> pa.Array:
    kind = call.type.arrow
    parts = [
        (rows, evaluate(expr, source.take(rows)).cast(kind)) for rows, expr in cases if len(rows)
    ]
    return _scatter(parts, kind, source.rows)


def _scatter(parts: Sequence[tuple[Integers, pa.Array]], kind: pa.DataType, rows: int) -> pa.Array:
    """Put values to their rows; rows without a value are NULL."""
    columns = [column for _, column in parts]
    values = pa.concat_arrays(columns) if columns else pa.array([], kind)
    indices = np.full(rows, -1, dtype=np.int64)
    if parts:
        indices[np.concatenate([offsets for offsets, _ in parts])] = count_up(len(values))
    return values.take(pa.array(indices, mask=indices < 0))


def _make_records(call: Call, source: RowSource) -> pa.Array:
    columns = [evaluate(argument, source).cast(argument.type.arrow) for argument in call.arguments]
    fields = list(call.type.arrow)
    missing = pc.is_null(columns[0])
    return pa.StructArray.from_arrays(columns, fields=fields, mask=missing)


# ---- conditions


def truth(test: Test, source: RowSource) -> pa.Array:
    """Compute the truth of a test for every row: true, false or NULL."""
    match test:
        case Always(value=value):
            return pa.repeat(pa.scalar(value), source.rows)
        case Compare():
            return _compare(test, source)
        case IsNull(operand=operand, negated=negated):
            if isinstance(operand, EntityRef):
                column = source.identity(operand)
            else:
                column = evaluate(operand, source)
            return pc.is_valid(column) if negated else pc.is_null(column)
        case InList(operand=operand, choices=choices):
            choice_list = _require_list(source.value(choices))
            return is_in_list(evaluate(operand, source), operand.type, choice_list)
        case AllOf(parts=parts):
            return _combine_parts(pc.and_kleene, parts, source, decided=False)
        case AnyOf(parts=parts):
            return _combine_parts(pc.or_kleene, parts, source, decided=True)
        case Not(part=part):
            return pc.invert(truth(part, source))
        case TextMatch():
            return source.text(test)
        case _:
            assert_never(test)


def _true(verdicts: pa.Array) -> np.ndarray:
    """Mark the true rows; unknown is not true."""
    truths = pc.fill_null(verdicts, False) if verdicts.null_count else verdicts
    return np.asarray(truths.to_numpy(zero_copy_only=False), dtype=bool)


def _require_list(value: object) -> Sequence[object] | None:
    if value is None or isinstance(value, list | tuple):
        return value
    raise InternalError(
        f"'in' needs a list, not {type(value).__name__}; nothing was changed; please report the query"
    )


def _combine_parts(
    combine: Callable[[Any, Any], pa.Array],
    parts: Sequence[Condition],
    source: RowSource,
    *,
    decided: bool,
) -> pa.Array:
    """Combine parts from the left; a part that may fail is evaluated only for rows that are not `decided` yet."""
    verdicts = truth(parts[0], source)
    for part in parts[1:]:
        if not _may_fail(part):
            verdicts = combine(verdicts, truth(part, source))
            continue
        settled = pc.fill_null(pc.equal(verdicts, decided), False)
        open_ = np.flatnonzero(~np.asarray(settled.to_numpy(zero_copy_only=False), dtype=bool))
        more = truth(part, source.take(open_))
        rest = pa.repeat(pa.scalar(decided), source.rows - len(open_))
        other = np.flatnonzero(settled.to_numpy(zero_copy_only=False))
        answers = _scatter([(open_, more), (other, rest)], pa.bool_(), source.rows)
        verdicts = combine(verdicts, answers)
    return verdicts


def _may_fail(part: Condition) -> bool:
    return any(isinstance(expr, Call) and expr.function in FALLIBLE for expr in walk(part))


def _compare(test: Compare, source: RowSource) -> pa.Array:
    left, op, right = test.left, test.op, test.right
    if op == "matches":
        return _match(test, source)
    if isinstance(left, EntityRef) and isinstance(right, EntityRef):
        kernel = pc.equal if op == "=" else pc.not_equal
        return kernel(source.identity(left), source.identity(right))
    if isinstance(left, Fixed) and not isinstance(right, Fixed) and op in FLIPPED:
        left, op, right = right, FLIPPED[op], left
    column = evaluate(left, source)
    if isinstance(right, Fixed) and not isinstance(left, Fixed):
        return compare_value(column, left.type, coerce(op, source.value(right), left.type))
    return compare_columns(column, left.type, op, evaluate(right, source), right.type)


def _match(test: Compare, source: RowSource) -> pa.Array:
    assert isinstance(test.right, Fixed), "the checker lets no other pattern pass"
    pattern = source.value(test.right)
    column = evaluate(test.left, source)
    if pattern is None:
        return pa.nulls(source.rows, pa.bool_())
    try:
        return pc.match_substring_regex(column, str(pattern))
    except pa.ArrowInvalid as error:
        raise QueryError(
            f"the regular expression of 'matches' is none (RE2, of linear time): {error}; nothing was read",
            code="T54",
        ) from error
