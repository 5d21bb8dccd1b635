"""Values as numbers: equal where the values are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.numbers import Numbers


def one_zero(values: pa.Array) -> pa.Array:
    """Floats with both zeros made one, as comparisons see them."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def codes_of(values: pa.Array) -> Numbers:
    """Numbers that are equal where values are; NULL is a value here, and both zeros are one."""
    encoded = one_zero(values).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
