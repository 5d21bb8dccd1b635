"""Comparing columns: with one value, with a set of values, and with one another; NULL is unknown; and codes of values."""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraphdb.catalog.values import item_type, to_arrow
from omnigraphdb.compile.coerce import Coerced, ConstantTruth, Either, Exact, coerce_choices
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers
from omnigraphdb.language.query.tree import Comparison
from omnigraphdb.memory import counted_bytes

_CODED_BYTES = 4 + 8
"""The columns of a value while it is encoded: its place in the dictionary, and its code."""
_RANK_BYTES = 8
"""The width of the rank of one list item."""

_KERNELS: dict[Comparison, Callable[[Any, Any], pa.Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TEXT_KERNELS: dict[Comparison, Callable[[Any, Any], Any]] = {
    "contains": lambda text, part: np.strings.find(text, part) >= 0,
    "starts_with": np.strings.startswith,
    "ends_with": np.strings.endswith,
}
_FLOAT_EXACT = 2**53
"""Integers beyond this have no exact float."""

UNKNOWN = pa.scalar(None, pa.bool_())


def mask_absent(column: pa.Array, answer: pa.Array | pa.Scalar) -> pa.Array:
    """Return the answer for rows that have a value, and unknown for the others."""
    if column.null_count:
        return pc.if_else(pc.is_valid(column), answer, UNKNOWN)
    return pa.repeat(answer, len(column)) if isinstance(answer, pa.Scalar) else answer


# ---- a column and one value


def compare_value(column: pa.Array, type_: PropertyType, coerced: Coerced) -> pa.Array:
    """Compare a column with a value that was coerced to its type."""
    match coerced:
        case ConstantTruth.UNKNOWN:
            return pa.nulls(len(column), pa.bool_())
        case ConstantTruth.TRUE | ConstantTruth.FALSE:
            return mask_absent(column, pa.scalar(coerced is ConstantTruth.TRUE))
        case Either(first=first, second=second):
            first_truth, second_truth = (
                compare_value(column, type_, part) for part in (first, second)
            )
            return pc.or_kleene(first_truth, second_truth)
        case Exact(op=op, value=value):
            return _exact(column, type_, op, value)
        case _:
            assert_never(coerced)


def _exact(column: pa.Array, type_: PropertyType, op: Comparison, value: object) -> pa.Array:
    if op == "contains" and type_.is_list:
        return has_item(column, to_scalar(value, item_type(type_)))
    if op == "contains":
        return pc.match_substring(column, str(value))
    if op == "starts_with":
        return pc.starts_with(column, str(value))
    if op == "ends_with":
        return pc.ends_with(column, str(value))
    if op == "matches":
        return pc.match_substring_regex(column, str(value))
    return _KERNELS[op](_orderable(column), _orderable(to_scalar(value, type_)))


def _orderable(values: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Convert booleans to integers; Arrow orders all other types itself."""
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def to_scalar(value: object, type_: PropertyType) -> pa.Scalar:
    """Convert a Python value to an Arrow scalar of exactly the type of a column."""
    return to_arrow([value], type_)[0]


def has_item(lists: pa.Array, item: pa.Scalar) -> pa.Array:
    """Compare each list with an item: true if the list contains it."""
    if not item.is_valid:
        return _has_missing_item(lists)
    return mask_absent(lists, _mark_lists(lists, pc.equal(pc.list_flatten(lists), item)))


def _has_missing_item(lists: pa.Array) -> pa.Array:
    """Compare each list with NULL: unknown, but an empty list contains nothing."""
    return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(False), UNKNOWN)


def _mark_lists(lists: pa.Array, hits: pa.Array) -> pa.Array:
    """Mark the lists of which an item is a hit."""
    mask = np.zeros(len(lists), dtype=bool)
    parents = pc.list_parent_indices(lists).filter(pc.fill_null(hits, False))
    mask[parents.to_numpy(zero_copy_only=False)] = True
    return pa.array(mask)


# ---- a column and a set of values


def is_in_list(column: pa.Array, type_: PropertyType, choices: Sequence[object] | None) -> pa.Array:
    """Compare each value with a set of choices.

    The answer is unknown if the value is not among the choices and some choice is NULL.
    NULL is unknown among any choices, and false among no choices.
    """
    if choices is None:
        return pa.nulls(len(column), pa.bool_())
    if not choices:
        return pa.repeat(pa.scalar(False), len(column))
    choice_values = to_arrow(list(coerce_choices(choices, type_)), item_type(type_))
    matches = pc.is_in(column, value_set=choice_values.cast(column.type))
    answer = pc.if_else(matches, pa.scalar(True), UNKNOWN) if None in choices else matches
    return mask_absent(column, answer)


# ---- two columns


def compare_columns(
    left: pa.Array,
    left_type: PropertyType,
    op: Comparison,
    right: pa.Array,
    right_type: PropertyType,
) -> pa.Array:
    """Compare two columns row by row."""
    if op == "contains" and left_type.is_list:
        return _with_item(left, left_type, right, right_type)
    if op in _TEXT_KERNELS:
        return _texts(left, op, right)
    kinds = {left_type.scalar, right_type.scalar}
    if kinds & FLOATS and kinds & INTEGERS:
        return _compare_mixed(left, left_type, op, right)
    if kinds >= {Scalar.U64, Scalar.I64} or kinds >= {Scalar.U64, Scalar.I32}:
        # No integer type has the values of both; a decimal of twenty digits has.
        left, right = left.cast(pa.decimal128(20, 0)), right.cast(pa.decimal128(20, 0))
    return _KERNELS[op](_orderable(left), _orderable(right))


def _texts(left: pa.Array, op: Comparison, right: pa.Array) -> pa.Array:
    """Compare a text with a part of it, both per row: NumPy has a kernel for that, Arrow has none."""
    dtype = np.dtypes.StringDType()
    texts = np.asarray(pc.fill_null(left, "").to_numpy(zero_copy_only=False), dtype=dtype)
    parts = np.asarray(pc.fill_null(right, "").to_numpy(zero_copy_only=False), dtype=dtype)
    matches = pa.array(_TEXT_KERNELS[op](texts, parts))
    return mask_absent(right, mask_absent(left, matches))


def _with_item(
    lists: pa.Array, list_type: PropertyType, items: pa.Array, item_of: PropertyType
) -> pa.Array:
    item_per_element = items.take(pc.list_parent_indices(lists))
    hits = compare_columns(
        pc.list_flatten(lists), item_type(list_type), "=", item_per_element, item_of
    )
    matches = mask_absent(lists, _mark_lists(lists, hits))
    return (
        pc.if_else(pc.is_valid(items), matches, _has_missing_item(lists))
        if items.null_count
        else matches
    )


def _compare_mixed(
    left: pa.Array, left_type: PropertyType, op: Comparison, right: pa.Array
) -> pa.Array:
    """Compare integers with floats exactly, without rounding."""
    left_is_float = left_type.scalar in FLOATS
    integers, fractions = (right, left) if left_is_float else (left, right)
    rounded_integers = integers.cast(pa.float64(), safe=False)
    fractions = fractions.cast(pa.float64())
    answer = _KERNELS[op](
        *((fractions, rounded_integers) if left_is_float else (rounded_integers, fractions))
    )
    close = pc.and_(
        pc.equal(rounded_integers, fractions),
        pc.greater_equal(pc.abs(rounded_integers), _FLOAT_EXACT),
    )
    doubtful = pc.fill_null(close, False)
    if not pc.any(doubtful).as_py():
        return answer
    pairs = zip(
        integers.filter(doubtful).to_pylist(), fractions.filter(doubtful).to_pylist(), strict=True
    )
    # Python compares an integer and a float exactly; few rows are so large and so close.
    order = [(a > b) - (a < b) for a, b in pairs]
    signs = pa.array([-sign if left_is_float else sign for sign in order], pa.int8())
    return pc.replace_with_mask(answer, doubtful, _KERNELS[op](signs, pa.scalar(0, pa.int8())))


# ---- codes of values
# Integers that are equal where the values are.


def unify_zeros(values: pa.Array) -> pa.Array:
    """Replace -0.0 by 0.0 in floats, because comparisons treat them as equal."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def flatten_nested(values: pa.Array) -> pa.Array:
    """Convert lists and structs to values that Arrow compares, with the same equality and order; other values stay.

    A list becomes bytes, item by item; a struct becomes its rank, field by field.
    """
    if pa.types.is_struct(values.type):
        return pa.array(
            _rank_structs(values), mask=pc.is_null(values).to_numpy(zero_copy_only=False)
        )
    if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)):
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * _RANK_BYTES
    present = pc.is_valid(values).to_numpy(zero_copy_only=False)
    buffers = [
        pa.py_buffer(np.packbits(present, bitorder="little")),
        pa.py_buffer(ends),
        pa.py_buffer(_rank(values.flatten()).astype(f">u{_RANK_BYTES}")),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _rank_structs(structs: pa.Array) -> Integers:
    """Rank structs by their fields, the first one first."""
    struct_ranks = np.zeros(len(structs), dtype=np.int64)
    for column in structs.flatten():
        ranks = _rank(column)
        width = int(ranks.max(initial=0)) + 1
        struct_ranks = np.unique(struct_ranks * width + ranks, return_inverse=True)[1].astype(
            np.int64
        )
    return struct_ranks


def _rank(values: pa.Array) -> Integers:
    """Rank values: equal ones have one rank, NULL the lowest."""
    flat = flatten_nested(unify_zeros(values))
    if pa.types.is_boolean(flat.type):
        flat = flat.cast(pa.uint8())
    ranks = pc.rank(flat, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    present = pc.is_valid(flat).to_numpy(zero_copy_only=False)
    return np.where(present, ranks, 0)


def codes_of(values: pa.Array) -> Integers:
    """Encode values as integers; -0.0 and 0.0 have one code, and NULL has the code -1, as no entity has."""
    with counted_bytes(values.nbytes + _CODED_BYTES * len(values)):
        codes = flatten_nested(unify_zeros(values)).dictionary_encode().indices.fill_null(ABSENT)
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
