"""Bindings: a table with one column of row ids per variable, and optionally a weight per row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraphdb.engine.read.columns.row_ids import Integers, Mask, RowIds, count_up, no_row_ids
from omnigraphdb.errors import EvaluationError
from omnigraphdb.limits import PATHS_MAX
from omnigraphdb.memory import count_columns, counted_bytes
from omnigraphdb.values import dataclass

_INTEGER_BYTES: Final = 8
_CODED_BYTES: Final = 6 * _INTEGER_BYTES
"""The columns of a row while its code is computed: codes, their order, the sorted codes, and positions."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """A table of bindings: one column of row ids per variable.

    With weights, a row stands for that many equal rows. `values` holds the named values that every row carries.
    """

    columns: Mapping[str, RowIds]
    rows: int
    weights: Integers | None = None
    values: Mapping[str, pa.Array] = field(default_factory=dict)

    def take(self, offsets: Integers) -> "Bindings":
        """Select rows by offset, in the given order."""
        return Bindings(
            {name: row_ids[offsets] for name, row_ids in self.columns.items()},
            len(offsets),
            None if self.weights is None else self.weights[offsets],
            {name: column.take(pa.array(offsets)) for name, column in self.values.items()},
        )

    def keep(self, mask: Mask) -> "Bindings":
        """Select the marked rows, in their order."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, end: int) -> "Bindings":
        """Select a range of rows without copying."""
        rows = max(min(end, self.rows) - start, 0)
        return Bindings(
            {name: row_ids[start:end] for name, row_ids in self.columns.items()},
            rows,
            None if self.weights is None else self.weights[start:end],
            {name: column.slice(start, rows) for name, column in self.values.items()},
        )

    def with_column(self, name: str, row_ids: RowIds) -> "Bindings":
        """Add a variable."""
        return Bindings({**self.columns, name: row_ids}, self.rows, self.weights, self.values)

    def with_value(self, name: str, column: pa.Array) -> "Bindings":
        """Add a value that every row carries."""
        return Bindings(self.columns, self.rows, self.weights, {**self.values, name: column})

    def only(self, names: Iterable[str] | None) -> "Bindings":
        """Keep only the named variables; None keeps all."""
        if names is None:
            return self
        columns = {name: self.columns[name] for name in names if name in self.columns}
        return Bindings(columns, self.rows, self.weights, self.values)

    def weighted(self, factors: Integers) -> "Bindings":
        """Multiply the weight of every row."""
        if self.weights is None:
            return Bindings(self.columns, self.rows, factors, self.values)
        if len(factors) and int(self.weights.max()) * int(factors.max()) > PATHS_MAX:
            raise EvaluationError(
                f"the query counts more than {PATHS_MAX} matches, which no number of its result can hold; "
                "nothing was changed",
                hint="make the pattern more selective",
            )
        return Bindings(self.columns, self.rows, self.weights * factors, self.values)

    def unweighted(self) -> "Bindings":
        """Repeat each row by its weight."""
        if self.weights is None:
            return self
        width = 1 + len(self.columns) + len(self.values)
        with counted_bytes(_INTEGER_BYTES * width * self.total):
            offsets = np.repeat(count_up(self.rows), self.weights)
            return Bindings(self.columns, self.rows, None, self.values).take(offsets)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Every column, the weights included."""
        weights = () if self.weights is None else (self.weights,)
        return (*self.columns.values(), *self.values.values(), *weights)

    @property
    def total(self) -> int:
        """The sum of the weights."""
        return self.rows if self.weights is None else int(self.weights.sum())


def concat(parts: Sequence[Bindings], names: Iterable[str] = ()) -> Bindings:
    """Concatenate tables of the same variables; `names` are the variables if there is no table."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Bindings({name: no_row_ids() for name in names}, 0)
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    values = {
        name: pa.concat_arrays([part.values[name] for part in parts]) for name in parts[0].values
    }
    return Bindings(columns, sum(part.rows for part in parts), _weights(parts), values)


def _weights(parts: Sequence[Bindings]) -> Integers | None:
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([weights_of(part) for part in parts])


def weights_of(bindings: Bindings) -> Integers:
    """Return the weight of every row; 1 without weights."""
    return np.ones(bindings.rows, dtype=np.int64) if bindings.weights is None else bindings.weights


def gather(tables: Iterable[Bindings], names: Iterable[str] = ()) -> Bindings:
    """Gather tables of the same variables into one, which counts as memory of the read."""
    parts = []
    for table in tables:
        count_columns(table.arrays)
        parts.append(table)
    bindings = concat(parts, names)
    if len(parts) > 1:
        count_columns(bindings.arrays)
    return bindings


def distinct(rows: Bindings, variables: tuple[str, ...]) -> Bindings:
    """Select each combination of some variables once; no entity (-1) is a value like any other."""
    if not variables:
        return Bindings({}, min(rows.rows, 1))
    narrow = Bindings({name: rows.columns[name] for name in variables}, rows.rows)
    if len(variables) == 1 and _ascends(narrow.columns[variables[0]]):
        return narrow
    _, firsts = np.unique(codes(narrow, variables), return_index=True)
    return narrow.take(firsts)


def _ascends(row_ids: RowIds) -> bool:
    return bool((row_ids[1:] > row_ids[:-1]).all())


def codes(bindings: Bindings, names: Iterable[str]) -> Integers:
    """Compute one code per row; codes are equal exactly where the named columns are equal."""
    names = tuple(names)
    if len(names) == 1:
        return bindings.columns[names[0]]
    with counted_bytes(_CODED_BYTES * bindings.rows):
        row_codes = np.zeros(bindings.rows, dtype=np.int64)
        for name in names:
            _, inverse = np.unique(bindings.columns[name], return_inverse=True)
            width = int(inverse.max()) + 1 if len(inverse) else 1
            _, row_codes = np.unique(row_codes * width + inverse, return_inverse=True)
        return row_codes.astype(np.int64)


def encode_together(
    left: Bindings, right: Bindings, names: Iterable[str]
) -> tuple[Integers, Integers]:
    """Compute codes of two tables that can be compared with each other."""
    names = tuple(names)
    combined = Bindings(
        {name: np.concatenate([left.columns[name], right.columns[name]]) for name in names},
        left.rows + right.rows,
    )
    row_codes = codes(combined, names)
    return row_codes[: left.rows], row_codes[left.rows :]
