"""Values as numbers: equal where the values are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.columns.row_ids import ABSENT, Integers

_RANK_BYTES = 8
"""The width of what stands for one item of a list."""


def unify_zeros(values: pa.Array) -> pa.Array:
    """Floats with both zeros made one, as comparisons see them."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def flat(values: pa.Array) -> pa.Array:
    """Lists as bytes that are equal and ordered as the lists are, item by item; other values as they are."""
    if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)):
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * _RANK_BYTES
    present = pc.is_valid(values).to_numpy(zero_copy_only=False)
    buffers = [
        pa.py_buffer(np.packbits(present, bitorder="little")),
        pa.py_buffer(ends),
        pa.py_buffer(_ranks(values.flatten())),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _ranks(items: pa.Array) -> np.ndarray:
    """Numbers that order as items do, the highest byte first."""
    if pa.types.is_boolean(items.type):
        items = items.cast(pa.uint8())
    ranks = pc.rank(unify_zeros(items), tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False), dtype=f">u{_RANK_BYTES}")


def codes_of(values: pa.Array) -> Integers:
    """Numbers that are equal where values are; both zeros are one, and NULL is what no entity is: -1."""
    codes = flat(unify_zeros(values)).dictionary_encode().indices.fill_null(ABSENT)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
