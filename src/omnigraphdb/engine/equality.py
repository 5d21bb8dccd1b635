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
    there, also = _mask(left.is_valid()), _mask(right.is_valid())
    both = there & also
    if not both.any():
        return np.equal(there, also)
    return np.equal(there, also) & (~both | _same_values(left, right, both))


def _same_values(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """Compare like `same` where both have a value; the other positions are undefined."""
    kind = left.type
    if pa.types.is_fixed_size_list(kind):
        return _same_vectors(left, right, both)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _same_items(left, right, both)
    if pa.types.is_struct(kind):
        parts = [same(_part(left, f.name), _part(right, f.name)) for f in kind]
        return np.asarray(np.all(np.stack(parts), axis=0), dtype=bool)
    equal = pc.equal(left, right)
    if pa.types.is_floating(kind):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return _mask(pc.fill_null(equal, False))


def _part(values: pa.StructArray, name: str) -> pa.Array:
    return pc.struct_field(values, name)


def _same_vectors(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """Compare vectors by their bits, those with a NULL in them item by item, whatever the other rows hold."""
    listed = both & (_mask_holes(left) | _mask_holes(right))
    found = _same_bits(left, right)
    if not listed.any():
        return found
    return np.where(listed, _same_items(left, right, both), found)


def _mask_holes(column: pa.FixedSizeListArray) -> Mask:
    """Mark the vectors that have a NULL item; those of NULL vectors too."""
    items, size = _items(column), column.type.list_size
    if not items.null_count:
        return np.zeros(len(column), dtype=bool)
    holes = _mask(items.is_null()).reshape(len(column), size)
    return np.asarray(holes.any(axis=1), dtype=bool)


def _items(column: pa.FixedSizeListArray) -> pa.Array:
    """The items of every list, including those of null lists."""
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
    found: Mask = (rows[0] == rows[1]).all(axis=1)
    return found


def _fill(items: pa.Array) -> pa.Array:
    return pc.fill_null(items, pa.scalar(0).cast(items.type)) if items.null_count else items


def _same_items(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    lengths = [
        pc.fill_null(pc.list_value_length(c), 0).to_numpy(zero_copy_only=False)
        for c in (left, right)
    ]
    found: Mask = lengths[0] == lengths[1]
    aligned = found & both
    rows = np.flatnonzero(aligned)
    items = [pc.list_flatten(column.take(pa.array(rows))) for column in (left, right)]
    if len(items[0]):
        owner = np.repeat(rows, lengths[0][rows])
        found = found.copy()
        found[owner[differs(*items)]] = False
    return found


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False).astype(bool)
    return found
