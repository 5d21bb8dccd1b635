"""Tallies: counts, sums, extremes, lists and distributions of the values of groups."""

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import Scalar
from omnigraphdb.compile.checked import VariableKind
from omnigraphdb.compile.plan.operators import Tally
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.compare import codes_of
from omnigraphdb.engine.read.columns.row_ids import Integers, count_up
from omnigraphdb.engine.read.operators.row_order import id_order, sort_rows
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import EvaluationError
from omnigraphdb.memory import count_columns, counted_bytes
from omnigraphdb.values import dataclass

_TALLIED_BYTES: Final = 4 * 8
"""The columns of a value while it is tallied: its code, the sorted key, its order, and its number."""
_REPEATED_BYTES: Final = 3 * 8
"""The columns of a value that is repeated: its offset, its code, and its weight."""
_INTEGER_SUM_MAX = 2.0**62
"""Sums of integers that surely stay below this are added at once."""


def is_mergeable(tally: Tally) -> bool:
    """Whether the tally of all rows follows from the tallies of their parts."""
    return tally.function in ("count", "sum", "avg", "min", "max") and not tally.distinct


def compute_tally(tallied: "Tallied", rows: Bindings, reader: Reader) -> tuple[Integers, pa.Array]:
    """Compute one tally of rows: the number of values of each group, and their aggregate."""
    with counted_bytes(_TALLIED_BYTES * len(tallied.codes)):
        return _compute_tally(tallied, rows, reader)


def _compute_tally(tallied: "Tallied", rows: Bindings, reader: Reader) -> tuple[Integers, pa.Array]:
    if tallied.tally.function == "collect":
        tallied = _order_by_ids(tallied, rows, reader)
    elif tallied.weights is not None and not is_mergeable(tallied.tally):
        tallied = tallied.repeated()
    tallied = tallied.present()
    if tallied.tally.distinct:
        tallied = tallied.once()
    return tally_values(tallied)


def sum_weights(codes: Integers | None, weights: Integers | None, groups: int) -> Integers:
    """Sum the weights of every group."""
    if codes is None:
        return np.ones(groups, dtype=np.int64) if weights is None else weights
    if weights is None:
        return np.bincount(codes, minlength=groups).astype(np.int64)
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, codes, weights)
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied:
    """The values of one tally, and the group and the weight of each."""

    tally: Tally
    values: pa.Array
    codes: Integers
    weights: Integers | None
    groups: int
    fraction: float | None = None

    def take(self, offsets: Integers) -> "Tallied":
        """Select some of the values."""
        weights = None if self.weights is None else self.weights[offsets]
        values = self.values.take(pa.array(offsets))
        count_columns((values,))
        return replace(self, values=values, codes=self.codes[offsets], weights=weights)

    def present(self) -> "Tallied":
        """Drop the NULLs."""
        if not self.values.null_count:
            return self
        return self.take(np.flatnonzero(pc.is_valid(self.values).to_numpy(zero_copy_only=False)))

    def repeated(self) -> "Tallied":
        """Repeat each value by its weight."""
        assert self.weights is not None, "only weighted values are repeated"
        with counted_bytes(_REPEATED_BYTES * int(self.weights.sum())):
            offsets = np.repeat(count_up(len(self.codes)), self.weights)
            repeated = replace(self.take(offsets), weights=None)
        count_columns((repeated.codes,))
        return repeated

    def once(self) -> "Tallied":
        """Keep each value once per group, where it comes first."""
        codes = renumber(codes_of(self.values))
        width = int(codes.max(initial=0)) + 1
        _, firsts = np.unique(self.codes * width + codes, return_index=True)
        return replace(self.take(np.sort(firsts)), weights=None)


def _order_by_ids(tallied: Tallied, rows: Bindings, reader: Reader) -> Tallied:
    """Put values in the order of the ids of their row, variables by name; paths come last, in the order of the search."""
    names = [tie.variable for tie in tallied.tally.ties]
    names += sorted(name for name in rows.columns if _is_path(name, reader))
    columns = [(id_order(name, rows, reader), False) for name in names]
    ordered = tallied.take(sort_rows(columns, rows.rows))
    return ordered if ordered.weights is None else ordered.repeated()


def _is_path(variable: str, reader: Reader) -> bool:
    return reader.plan.by_name[variable].kind is VariableKind.PATH


def tally_values(tallied: Tallied) -> tuple[Integers, pa.Array]:
    """Count the values of each group, and compute their aggregate."""
    codes, groups, values = tallied.codes, tallied.groups, tallied.values
    counts = sum_weights(codes, tallied.weights, groups)
    match tallied.tally.function:
        case "count":
            return counts, pa.nulls(groups)
        case "sum" if tallied.tally.type.scalar is Scalar.I64:
            return counts, _sum_exactly(tallied)
        case "sum" | "avg":
            return counts, _sum_values(values, codes, tallied.weights, groups)
        case "min" | "max" as function:
            return counts, _find_extremes(function, values, codes, groups)
        case "collect":
            return counts, _collect(values, codes, counts)
        case "stddev":
            return counts, _deviate(values, codes, counts)
        case "percentile":
            return counts, _interpolate(tallied, counts)


def _sum_exactly(tallied: Tallied) -> pa.Array:
    """Add integers; a sum beyond I64 is an error."""
    codes, weights, groups = tallied.codes, tallied.weights, tallied.groups
    numbers = tallied.values.to_numpy(zero_copy_only=False)
    totals = np.zeros(groups, dtype=np.int64)
    if _is_small(numbers, weights):
        exact = numbers.astype(np.int64) * (1 if weights is None else weights)
        np.add.at(totals, codes, exact)
        return pa.array(totals)
    # Halves of 32 bits are added apart: as many as fit into memory stay below 64 bits.
    wide = tallied if weights is None else tallied.repeated()
    numbers, codes = wide.values.to_numpy(zero_copy_only=False), wide.codes
    low, high = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    np.add.at(low, codes, (numbers & 0xFFFFFFFF).astype(np.int64))
    np.add.at(high, codes, (numbers >> 32).astype(np.int64))
    carried, low = high + (low >> 32), low & 0xFFFFFFFF
    if bool(((carried >= 2**31) | (carried < -(2**31))).any()):
        raise EvaluationError(
            f"the sum '{tallied.tally.name}' of a group is beyond the range of I64; the query was stopped, "
            "nothing was changed",
            hint="sum a float: sum(1.0 * …)",
        )
    return pa.array((carried << 32) + low)


def _collect(values: pa.Array, codes: Integers, counts: Integers) -> pa.Array:
    """List the values of each group, in their order."""
    ordered = values.take(pa.array(np.argsort(codes, kind="stable")))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), ordered)


def _deviate(values: pa.Array, codes: Integers, counts: Integers) -> pa.Array:
    """Compute the standard deviation of the sample; a group of one value has none."""
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    groups = len(counts)
    means = np.bincount(codes, numbers, minlength=groups) / np.maximum(counts, 1)
    squares = np.bincount(codes, (numbers - means[codes]) ** 2, minlength=groups)
    return pa.array(np.sqrt(squares / np.maximum(counts - 1, 1)), mask=counts < 2)


def _interpolate(tallied: Tallied, counts: Integers) -> pa.Array:
    """Compute the value at a fraction of the sorted values of each group, between its neighbours."""
    numbers = tallied.values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    ordered = numbers[np.lexsort((numbers, tallied.codes))]
    starts = np.cumsum(counts) - counts
    rank = (tallied.fraction or 0.0) * np.maximum(counts - 1, 0)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(counts - 1, 0))
    if not len(ordered):
        return pa.nulls(tallied.groups, pa.float64())
    last = len(ordered) - 1
    first, second = (ordered[np.minimum(starts + at, last)] for at in (below, above))
    return pa.array(first + (second - first) * (rank - below), mask=counts == 0)


def _sum_values(
    values: pa.Array, codes: Integers, weights: Integers | None, groups: int
) -> pa.Array:
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(values.type) and _is_small(numbers, weights):
        exact = numbers.astype(np.int64) * (1 if weights is None else weights)
        totals = np.zeros(groups, dtype=np.int64)
        np.add.at(totals, codes, exact)
        return pa.array(totals)
    floats = numbers.astype(np.float64) * (1 if weights is None else weights)
    return pa.array(np.bincount(codes, floats, minlength=groups))


def _is_small(numbers: np.ndarray, weights: Integers | None) -> bool:
    if not len(numbers):
        return True
    largest = max(abs(int(numbers.max())), abs(int(numbers.min())))
    total = len(numbers) if weights is None else int(weights.sum())
    return float(largest) * total < _INTEGER_SUM_MAX


def _find_extremes(function: str, values: pa.Array, codes: Integers, groups: int) -> pa.Array:
    grouped = pa.table({"g": pa.array(codes), "v": values}).group_by("g")
    extremes = grouped.aggregate([("v", function)]).combine_chunks()
    positions = np.full(groups, -1, dtype=np.int64)
    positions[extremes["g"].to_numpy()] = count_up(extremes.num_rows)
    column = extremes[f"v_{function}"]
    best = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], values.type)
    return best.take(pa.array(positions, mask=positions < 0))


def renumber(codes: Integers) -> Integers:
    """Renumber codes without gaps, in the same order."""
    if not len(codes):
        return codes
    low, high = int(codes.min()), int(codes.max())
    if high - low > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(high - low + 1, dtype=np.int64)
    used[codes - low] = 1
    return np.asarray((np.cumsum(used) - 1)[codes - low])


def finish_tally(tally: Tally, counts: Integers, values: pa.Array | None) -> pa.Array:
    """Return the values of a tally with the declared type, from the counts and the aggregates of its groups."""
    if tally.function == "count" or values is None:
        return pa.array(counts)
    if tally.function not in ("sum", "avg"):
        return values.cast(tally.type.arrow)
    if tally.type.scalar is Scalar.I64:
        present = pa.array(counts > 0)
        return pc.if_else(present, values, pa.scalar(None, pa.int64()))
    totals = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if tally.function == "avg":
        totals = np.divide(totals, counts, out=np.zeros(len(counts)), where=counts > 0)
    return pa.array(totals, pa.float64(), mask=counts == 0)
