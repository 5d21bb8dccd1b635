"""Conditions over rows of bindings, in three-valued logic; the twin of what is pushed down to storage."""

from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.catalog.values import epoch_milliseconds
from omnigraph.compile.algebra import FLIPPED, Always, Test
from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Const,
    IsNull,
    Not,
    Now,
    Operand,
    ParamRef,
    TextMatch,
)
from omnigraph.compile.coerce import Coerced, Either, Exact, Settled, coerce, coerce_choices
from omnigraph.engine.read.bindings import Bindings, Mask
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.search import text_mask
from omnigraph.errors import InternalError
from omnigraph.language.query.tree import Comparison

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def holds(test: Test, bindings: Bindings, reader: Reader) -> Mask:
    """Mark the rows for which a test is true; unknown is not true."""
    found = pc.fill_null(truth(test, bindings, reader), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def truth(test: Test, bindings: Bindings, reader: Reader) -> pa.Array:
    """True, false or NULL for every row."""
    match test:
        case Always(value=value):
            return pa.repeat(pa.scalar(value), bindings.rows)
        case Compare():
            return _compare(test, bindings, reader)
        case IsNull(operand=operand, negated=negated):
            missing = pc.is_null(reader.column(operand, bindings))
            return pc.invert(missing) if negated else missing
        case Among(operand=operand, choices=choices):
            return _among(operand, reader.value(choices), bindings, reader)
        case AllOf(parts=parts):
            return _fold(pc.and_kleene, parts, bindings, reader)
        case AnyOf(parts=parts):
            return _fold(pc.or_kleene, parts, bindings, reader)
        case Not(part=part):
            return pc.invert(truth(part, bindings, reader))
        case TextMatch():
            return pa.array(text_mask(test, bindings, reader))
        case _:
            assert_never(test)


def _fold(combine: object, parts: tuple[Test, ...], bindings: Bindings, reader: Reader) -> pa.Array:
    found = truth(parts[0], bindings, reader)
    for part in parts[1:]:
        found = combine(found, truth(part, bindings, reader))  # type: ignore[operator]
    return found


def _compare(test: Compare, bindings: Bindings, reader: Reader) -> pa.Array:
    left, op, right = test.left, test.op, test.right
    if isinstance(left, Const | ParamRef | Now) and isinstance(right, Const | ParamRef | Now):
        return compare_columns(
            reader.column(left, bindings), left.type, op, reader.column(right, bindings), right.type
        )
    if isinstance(right, Const | ParamRef | Now):
        coerced = coerce(op, reader.value(right), left.type)
        return compare_column(reader.column(left, bindings), left.type, coerced)
    if isinstance(left, Const | ParamRef | Now) and op in FLIPPED:
        coerced = coerce(FLIPPED[op], reader.value(left), right.type)
        return compare_column(reader.column(right, bindings), right.type, coerced)
    return compare_columns(
        reader.column(left, bindings), left.type, op, reader.column(right, bindings), right.type
    )


# ---- a column and one value


def compare_column(column: pa.Array, type_: PropertyType, coerced: Coerced) -> pa.Array:
    """Compare a column with a value that was coerced to its type."""
    match coerced:
        case Settled.UNKNOWN:
            return pa.nulls(len(column), pa.bool_())
        case Settled.TRUE | Settled.FALSE:
            answer = pa.scalar(coerced is Settled.TRUE)
            return pc.if_else(pc.is_valid(column), answer, pa.scalar(None, pa.bool_()))
        case Either(choices=choices):
            found = compare_column(column, type_, choices[0])
            for choice in choices[1:]:
                found = pc.or_kleene(found, compare_column(column, type_, choice))
            return found
        case Exact(op=op, value=value):
            return _exact(column, type_, op, value)
        case _:
            assert_never(coerced)


def _exact(column: pa.Array, type_: PropertyType, op: Comparison, value: object) -> pa.Array:
    if op == "contains" and type_.is_list:
        return _has_item(column, typed_scalar(value, type_.scalar))
    if op == "contains":
        return pc.match_substring(column, str(value))
    if op == "starts_with":
        return pc.starts_with(column, str(value))
    return _KERNELS[op](*_ordered(column, typed_scalar(value, type_.scalar)))


def _ordered(
    column: pa.Array, other: pa.Array | pa.Scalar
) -> tuple[pa.Array, pa.Array | pa.Scalar]:
    """Booleans compare as numbers; Arrow orders everything else itself."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8()), other.cast(pa.int8())
    return column, other


def typed_scalar(value: object, scalar: Scalar) -> pa.Scalar:
    """A Python value as an Arrow scalar of exactly a column's type."""
    if scalar is Scalar.DATETIME:
        return pa.array([epoch_milliseconds(value)], pa.int64()).cast(pa.date64())[0]  # type: ignore[arg-type]
    return pa.scalar(value, PropertyType(scalar=scalar).arrow)


def _has_item(lists: pa.Array, item: pa.Scalar) -> pa.Array:
    hit = pc.fill_null(pc.equal(pc.list_flatten(lists), item), False)
    parents = pc.list_parent_indices(lists).filter(hit).to_numpy(zero_copy_only=False)
    found = np.zeros(len(lists), dtype=bool)
    found[parents] = True
    return pc.if_else(pc.is_valid(lists), pa.array(found), pa.scalar(None, pa.bool_()))


def _among(operand: Operand, choices: object, bindings: Bindings, reader: Reader) -> pa.Array:
    column = reader.column(operand, bindings)
    if choices is None:
        return pa.nulls(len(column), pa.bool_())
    if not isinstance(choices, list | tuple):
        raise InternalError(f"'in' needs a list, not {type(choices).__name__}")
    known = coerce_choices(choices, operand.type)
    scalars = [typed_scalar(choice, operand.type.scalar).as_py() for choice in known]
    found = pc.is_in(column, value_set=_value_set(known, scalars, column.type))
    otherwise = pa.scalar(None, pa.bool_()) if None in choices else pa.scalar(False)
    answer = pc.if_else(found, pa.scalar(True), otherwise)
    return pc.if_else(pc.is_valid(column), answer, pa.scalar(None, pa.bool_()))


def _value_set(known: tuple[object, ...], scalars: list[object], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date64(type_):
        return pa.array([epoch_milliseconds(k) for k in known], pa.int64()).cast(type_)  # type: ignore[arg-type]
    return pa.array(scalars, type_)


# ---- two columns


def compare_columns(
    left: pa.Array,
    left_type: PropertyType,
    op: Comparison,
    right: pa.Array,
    right_type: PropertyType,
) -> pa.Array:
    """Compare two columns row by row, in a type that holds both."""
    if op == "contains" and left_type.is_list:
        return _each(left, right, lambda items, item: item in items)
    if op == "contains":
        return _each(left, right, lambda text, part: part in text)
    if op == "starts_with":
        return _each(left, right, lambda text, part: text.startswith(part))
    return _KERNELS[op](*_ordered(*common(left, left_type, right, right_type)))


def _each(left: pa.Array, right: pa.Array, test: object) -> pa.Array:
    # Arrow has no kernel for a needle that differs per row.
    found = [
        None if a is None or b is None else test(a, b)  # type: ignore[operator]
        for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
    ]
    return pa.array(found, pa.bool_())


def common(
    left: pa.Array, left_type: PropertyType, right: pa.Array, right_type: PropertyType
) -> tuple[pa.Array, pa.Array]:
    """Two numeric columns in a domain that holds both; other columns have one type already."""
    kinds = {left_type.scalar, right_type.scalar}
    if len(kinds) == 1:
        return left, right
    if kinds <= INTEGERS:
        wide = pa.decimal128(20, 0) if Scalar.U64 in kinds else pa.int64()
        return left.cast(wide), right.cast(wide)
    if kinds & FLOATS:
        return left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
    return left, right
