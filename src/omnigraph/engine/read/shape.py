"""The end of a query: groups, order, window, and the columns of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import Scalar
from omnigraph.compile.checked import (
    Bm25,
    Const,
    EntityRef,
    Nearest,
    Now,
    ParamRef,
    PropertyRef,
    Rrf,
    TextMatch,
)
from omnigraph.compile.operators import Field, Group, Output, Slice, Sort, SortBy, Tally, Window
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.entities import Numbers
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.search import scores, text_mask
from omnigraph.errors import InternalError


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of groups: named columns instead of bindings."""

    columns: pa.Table

    @property
    def rows(self) -> int:
        """How many groups there are."""
        return int(self.columns.num_rows)

    def take(self, places: Numbers) -> "Groups":
        """Groups by place, in the order asked."""
        return Groups(self.columns.take(pa.array(places)))


Rows = Bindings | Groups


def value_column(expr: object, rows: Rows, reader: Reader) -> pa.Array:
    """The values of an output expression."""
    if isinstance(rows, Groups):
        if isinstance(expr, Field):
            return _combined(rows.columns[expr.name])
        raise InternalError(f"{type(expr).__name__} is no column of a group")
    match expr:
        case PropertyRef() | EntityRef() | Const() | ParamRef() | Now():
            return reader.column(expr, rows)
        case TextMatch():
            return pa.array(text_mask(expr, rows, reader))
        case Nearest() | Bm25() | Rrf():
            return scores(expr, rows, reader)
        case _:
            raise InternalError(f"{type(expr).__name__} cannot be read from bindings")


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


# ---- groups


def group(operator: Group, bindings: Bindings, reader: Reader) -> Groups:
    """Form groups and tally them."""
    weights = _weights(bindings)
    keys = {
        f"k{i}": value_column(key.expr, bindings, reader) for i, key in enumerate(operator.keys)
    }
    if not keys:
        codes, n = np.zeros(bindings.rows, dtype=np.int64), 1
        firsts = np.empty(0, dtype=np.int64)
    else:
        codes, firsts = _codes(keys, bindings.rows)
        n = len(firsts)
    columns = {
        key.name: keys[f"k{i}"].take(pa.array(firsts)) for i, key in enumerate(operator.keys)
    }
    for tally in operator.tallies:
        columns[tally.name] = _tally(tally, bindings, weights, codes, n, reader)
    return Groups(pa.table(columns))


def _weights(bindings: Bindings) -> Numbers:
    return np.ones(bindings.rows, dtype=np.int64) if bindings.weights is None else bindings.weights


def _codes(keys: dict[str, pa.Array], rows: int) -> tuple[Numbers, Numbers]:
    """The group of every row, and the first row of every group."""
    found = np.zeros(rows, dtype=np.int64)
    for values in keys.values():
        encoded = _comparable(values).dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = found * max(len(encoded.dictionary), 1) + codes
        _, found = np.unique(found, return_inverse=True)
    _, firsts = np.unique(found, return_index=True)
    return found.astype(np.int64), firsts.astype(np.int64)


def _comparable(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def _tally(
    tally: Tally, bindings: Bindings, weights: Numbers, codes: Numbers, n: int, reader: Reader
) -> pa.Array:
    if tally.argument is None:
        return pa.array(np.bincount(codes, weights, minlength=n).astype(np.int64))
    values = value_column(tally.argument, bindings, reader)
    present = pc.is_valid(values).to_numpy(zero_copy_only=False)
    codes, weights, values = codes[present], weights[present], values.drop_null()
    counts = np.bincount(codes, weights, minlength=n).astype(np.int64)
    match tally.function:
        case "count":
            return pa.array(counts)
        case "sum" | "avg":
            numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            totals = np.bincount(codes, numbers * weights, minlength=n)
            if tally.function == "avg":
                totals = np.divide(totals, counts, out=np.zeros(n), where=counts > 0)
            return pa.array(totals, pa.float64(), mask=counts == 0)
        case "min" | "max":
            return _extreme(tally, values, codes, n)


def _extreme(tally: Tally, values: pa.Array, codes: Numbers, n: int) -> pa.Array:
    grouped = pa.table({"g": pa.array(codes), "v": values}).group_by("g")
    found = grouped.aggregate([("v", tally.function)])
    places = np.full(n, -1, dtype=np.int64)
    places[found["g"].to_numpy()] = np.arange(found.num_rows)
    column = _combined(found[f"v_{tally.function}"])
    return column.take(pa.array(places, mask=places < 0)).cast(tally.type.arrow)


# ---- order and window


def sort(operator: Sort, rows: Rows, reader: Reader) -> Rows:
    """Order rows by keys, then by the ids of the tie variables; NULL is below every value."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    keys = [_sort_key(key, rows, reader) for key in operator.keys]
    if isinstance(rows, Bindings):
        keys += [
            (_rank(reader.id_texts(name, rows.columns[name])), False) for name in operator.ties
        ]
    if not keys:
        return rows
    columns = [-ranks if descending else ranks for ranks, descending in keys]
    order = np.lexsort(columns[::-1]).astype(np.int64)
    return rows.take(_bounds(operator.window, order, reader) if operator.window else order)


def _sort_key(key: SortBy, rows: Rows, reader: Reader) -> tuple[Numbers, bool]:
    return _rank(value_column(key.expr, rows, reader)), key.descending


def _rank(values: pa.Array) -> Numbers:
    """Equal values get equal ranks, in order; NULL the least."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    ranks = pc.rank(_comparable(values), tiebreaker="dense").to_numpy(zero_copy_only=False)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    return np.where(missing, 0, ranks).astype(np.int64)


def cut(operator: Slice, rows: Rows, reader: Reader) -> Rows:
    """Keep a window of the rows."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    return rows.take(_bounds(operator.window, np.arange(rows.rows, dtype=np.int64), reader))


def _bounds(window: Window, order: Numbers, reader: Reader) -> Numbers:
    offset = 0 if window.offset is None else max(reader.integer(window.offset) or 0, 0)
    limit = None if window.limit is None else reader.integer(window.limit)
    return order[offset:] if limit is None else order[offset : offset + max(limit, 0)]


# ---- result


def project(columns: Sequence[Output], rows: Rows, reader: Reader) -> pa.Table:
    """Fetch the values of the result, typed as declared even when there are none."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    arrays = [value_column(output.expr, rows, reader) for output in columns]
    cast = [_as_declared(a, o) for a, o in zip(arrays, columns, strict=True)]
    schema = pa.schema([pa.field(o.name, o.type.arrow) for o in columns])
    return pa.Table.from_arrays(cast, schema=schema)


def _as_declared(values: pa.Array, output: Output) -> pa.Array:
    if values.type == output.type.arrow or output.type.scalar is Scalar.BLOB:
        return values
    return values.cast(output.type.arrow)
