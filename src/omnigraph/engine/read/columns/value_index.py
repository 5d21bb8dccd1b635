"""Matches: from a value to the entities that have it, for properties that are asked for by value again and again."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraph.engine.read.columns.row_ids import (
    Integers,
    NarrowIntegers,
    RowIds,
    narrow,
    no_row_ids,
    stable_order,
)
from omnigraph.values import dataclass

_VALUE_BYTES = 130
"""About what a value and its number take in a dictionary."""


@dataclass(frozen=True, slots=True)
class ValueIndex:
    """The entities with the value of code c are `numbers[starts[c]:starts[c + 1]]`, in the order of whole columns."""

    codes: Mapping[object, int]
    starts: Integers
    numbers: NarrowIntegers

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        return _VALUE_BYTES * len(self.codes) + self.starts.nbytes + self.numbers.nbytes

    def of(self, value: object) -> RowIds:
        """The entities that have a value."""
        code = self.codes.get(value)
        if code is None:
            return no_row_ids()
        return self.numbers[self.starts[code] : self.starts[code + 1]].astype(np.int64)


def can_index_values(type_: PropertyType) -> bool:
    """Whether equal values of a type are equal in Python, and the other way round: not so for floats."""
    return type_.is_plain and (type_.scalar is Scalar.STRING or type_.scalar in INTEGERS)


def build_value_index(column: pa.Array, entities: RowIds) -> ValueIndex:
    """Group entities by the values of a whole column; those that have none are in no group."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(values) + 1)
    starts = np.concatenate([[0], np.cumsum(counts[: len(values)])])
    order = stable_order(codes.astype(np.int64), len(values) + 1)[: starts[-1]]
    return ValueIndex(
        dict(zip(values, range(len(values)), strict=True)), starts, narrow(entities[order])
    )
