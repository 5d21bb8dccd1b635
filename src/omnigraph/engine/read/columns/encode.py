"""Codes of values: integers that are equal where the values are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.columns.row_ids import ABSENT, Integers

_RANK_BYTES = 8
"""The width of the rank of one list item."""


def unify_zeros(values: pa.Array) -> pa.Array:
    """Replace -0.0 by 0.0 in floats, because comparisons treat them as equal."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def flatten_lists(values: pa.Array) -> pa.Array:
    """Convert lists to bytes with the same equality and order, item by item; other values stay."""
    if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)):
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * _RANK_BYTES
    present = pc.is_valid(values).to_numpy(zero_copy_only=False)
    buffers = [
        pa.py_buffer(np.packbits(present, bitorder="little")),
        pa.py_buffer(ends),
        pa.py_buffer(_rank_items(values.flatten())),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _rank_items(items: pa.Array) -> np.ndarray:
    """Rank items; the highest byte comes first, so that bytes order as ranks do."""
    if pa.types.is_boolean(items.type):
        items = items.cast(pa.uint8())
    ranks = pc.rank(unify_zeros(items), tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False), dtype=f">u{_RANK_BYTES}")


def codes_of(values: pa.Array) -> Integers:
    """Encode values as integers; -0.0 and 0.0 have one code, and NULL has the code -1, as no entity has."""
    codes = flatten_lists(unify_zeros(values)).dictionary_encode().indices.fill_null(ABSENT)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
