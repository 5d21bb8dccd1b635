"""The value index: from a value to the entities that have it, for properties with many comparisons by value."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraphdb.engine.read.columns.row_ids import (
    Integers,
    NarrowIntegers,
    RowIds,
    narrow,
    no_row_ids,
    stable_order,
)
from omnigraphdb.values import dataclass

_VALUE_BYTES = 130
"""The approximate size of a value and its code in a dictionary."""


@dataclass(frozen=True, slots=True)
class ValueIndex:
    """The entities with the value of code c are `row_ids[starts[c]:starts[c + 1]]`, in column order."""

    codes: Mapping[object, int]
    starts: Integers
    row_ids: NarrowIntegers

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return _VALUE_BYTES * len(self.codes) + self.starts.nbytes + self.row_ids.nbytes

    def of(self, value: object) -> RowIds:
        """Find the entities that have a value."""
        code = self.codes.get(value)
        if code is None:
            return no_row_ids()
        return self.row_ids[self.starts[code] : self.starts[code + 1]].astype(np.int64)


def can_index_values(type_: PropertyType) -> bool:
    """Whether values of a type are equal exactly if their Python values are; floats are not."""
    return type_.is_plain and (type_.scalar is Scalar.STRING or type_.scalar in INTEGERS)


def build_value_index(column: pa.Array, entities: RowIds) -> ValueIndex:
    """Group entities by the values of a whole column; entities without a value are in no group."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(values) + 1)
    starts = np.concatenate([[0], np.cumsum(counts[: len(values)])])
    order = stable_order(codes.astype(np.int64), len(values) + 1)[: starts[-1]]
    return ValueIndex(
        dict(zip(values, range(len(values)), strict=True)), starts, narrow(entities[order])
    )
