"""Equality of column values: typed; NULL equals NULL, NaN equals NaN, and neither equals anything else."""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


def differs(left: pa.Array, right: pa.Array) -> Mask:
    """Mark the positions where two columns of one type hold different values."""
    return ~same(left, right)


def same(left: pa.Array, right: pa.Array) -> Mask:
    """Mark the positions where two columns of one type hold the same value."""
    left_valid, right_valid = _mask(left.is_valid()), _mask(right.is_valid())
    both_valid = left_valid & right_valid
    if not both_valid.any():
        return np.equal(left_valid, right_valid)
    return np.equal(left_valid, right_valid) & (~both_valid | _same_values(left, right, both_valid))


def _same_values(left: pa.Array, right: pa.Array, both_valid: Mask) -> Mask:
    """Compare like `same` where both columns have a value; the other positions are undefined."""
    kind = left.type
    if pa.types.is_fixed_size_list(kind):
        return _same_vectors(left, right, both_valid)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _same_items(left, right, both_valid)
    if pa.types.is_struct(kind):
        parts = [same(_part(left, f.name), _part(right, f.name)) for f in kind]
        return np.asarray(np.all(np.stack(parts), axis=0), dtype=bool)
    equal = pc.equal(left, right)
    if pa.types.is_floating(kind):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return _mask(pc.fill_null(equal, False))


def _part(values: pa.StructArray, name: str) -> pa.Array:
    return pc.struct_field(values, name)


def _same_vectors(left: pa.Array, right: pa.Array, both_valid: Mask) -> Mask:
    """Compare vectors by their bits, but vectors with a NULL item by their items, without regard to other rows."""
    has_holes = both_valid & (_mask_holes(left) | _mask_holes(right))
    equal = _same_bits(left, right)
    if not has_holes.any():
        return equal
    return np.where(has_holes, _same_items(left, right, both_valid), equal)


def _mask_holes(column: pa.FixedSizeListArray) -> Mask:
    """Mark the vectors that have a NULL item; the items of NULL vectors count, too."""
    items, size = _items(column), column.type.list_size
    if not items.null_count:
        return np.zeros(len(column), dtype=bool)
    holes = _mask(items.is_null()).reshape(len(column), size)
    return np.asarray(holes.any(axis=1), dtype=bool)


def _items(column: pa.FixedSizeListArray) -> pa.Array:
    """Return the items of every list, including the items of NULL lists."""
    size = column.type.list_size
    return column.values.slice(column.offset * size, len(column) * size)


def _same_bits(left: pa.FixedSizeListArray, right: pa.FixedSizeListArray) -> Mask:
    size = left.type.list_size
    if size == 0:
        return np.ones(len(left), dtype=bool)
    rows = [
        _fill(_items(column)).to_numpy(zero_copy_only=False).view(np.uint8).reshape(len(column), -1)
        for column in (left, right)
    ]
    equal: Mask = (rows[0] == rows[1]).all(axis=1)
    return equal


def _fill(items: pa.Array) -> pa.Array:
    return pc.fill_null(items, pa.scalar(0).cast(items.type)) if items.null_count else items


def _same_items(left: pa.Array, right: pa.Array, both_valid: Mask) -> Mask:
    lengths = [
        pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        for column in (left, right)
    ]
    equal: Mask = lengths[0] == lengths[1]
    aligned = equal & both_valid
    rows = np.flatnonzero(aligned)
    items = [pc.list_flatten(column.take(pa.array(rows))) for column in (left, right)]
    if len(items[0]):
        owner = np.repeat(rows, lengths[0][rows])
        equal = equal.copy()
        equal[owner[differs(*items)]] = False
    return equal


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False).astype(bool)
    return mask
