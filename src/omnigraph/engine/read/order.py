"""Order and window: the rows of a result in their places, and only those that are wanted."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compile.checked import EntityRef
from omnigraph.compile.operators import Field, Slice, Sort, SortBy, Window
from omnigraph.engine.read.bindings import Bindings, concat
from omnigraph.engine.read.encode import one_zero
from omnigraph.engine.read.numbers import Numbers, counted
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.rows import Groups, Rows, value_column

_SELECT_PART = 8
"""The best rows are selected before they are sorted when they are fewer than one in this many."""


def bounds(window: Window | None, reader: Reader) -> tuple[int, int | None]:
    """Where the wanted rows begin and end; None is no end."""
    if window is None:
        return 0, None
    offset = 0 if window.offset is None else max(reader.integer(window.offset) or 0, 0)
    limit = None if window.limit is None else reader.integer(window.limit)
    return offset, None if limit is None else offset + max(limit, 0)


def cut(operator: Slice, tables: Iterable[Rows], reader: Reader) -> Iterator[Rows]:
    """Keep a window of the rows; nothing more is asked for once it is full."""
    start, end = bounds(operator.window, reader)
    passed = 0
    for rows in tables:
        rows = rows.unweighted() if isinstance(rows, Bindings) else rows
        last = rows.rows if end is None else min(end - passed, rows.rows)
        first = min(max(start - passed, 0), last)
        yield rows if first == 0 and last == rows.rows else rows.slice(first, last)
        passed += rows.rows
        if end is not None and passed >= end:
            return


def sort(operator: Sort, tables: Iterable[Rows], names: Iterable[str], reader: Reader) -> Rows:
    """Order rows by keys, then by the ids of the tie variables; NULL is below every value.

    With a window only its rows and those before it are kept, of every table.
    """
    _, end = bounds(operator.window, reader)
    kept: list[Bindings] = []
    for rows in tables:
        if isinstance(rows, Groups):
            return rows.take(_order(operator, rows, end, reader))
        rows = rows.unweighted()
        kept.append(rows if end is None else rows.take(_order(operator, rows, end, reader)))
    if end is not None and len(kept) == 1:
        return kept[0]
    whole = concat(kept, names)
    return whole.take(_order(operator, whole, end, reader))


def _order(operator: Sort, rows: Rows, end: int | None, reader: Reader) -> Numbers:
    """The places of the first rows in order."""
    places = _candidates(operator, rows, end, reader)
    if places is not None:
        rows = rows.take(places)
    order = sorted_places(_columns(operator, rows, reader), rows.rows)[:end]
    return order if places is None else places[order]


Column = tuple[pa.Array, bool]
"""Values, and whether they descend."""


def sorted_places(columns: Sequence[Column], rows: int) -> Numbers:
    """The stable order of rows by several columns."""
    if not columns or rows < 2:
        return counted(rows)
    keys: dict[str, tuple[pa.Array, str]] = {}
    for number, (values, descending) in enumerate(columns):
        way = "descending" if descending else "ascending"
        if values.null_count:
            keys[f"present{number}"] = pc.is_valid(values).cast(pa.int8()), way
        keys[f"value{number}"] = _sortable(values), way
    table = pa.table({name: values for name, (values, _) in keys.items()})
    found = pc.sort_indices(table, sort_keys=[(name, way) for name, (_, way) in keys.items()])
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _sortable(values: pa.Array) -> pa.Array:
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else one_zero(values)


def _columns(operator: Sort, rows: Rows, reader: Reader) -> list[Column]:
    columns = [(_key(key, rows, reader), key.descending) for key in operator.keys]
    if isinstance(rows, Bindings):
        columns += [(id_order(name, rows, reader), False) for name in operator.ties]
    return columns


def id_order(variable: str, rows: Bindings, reader: Reader) -> pa.Array:
    """Numbers that order rows as the ids of a variable do."""
    return pa.array(reader.entities(variable).id_ranks(rows.columns[variable]))


def _key(key: SortBy, rows: Rows, reader: Reader) -> pa.Array:
    expr, samples = key.expr, rows
    if isinstance(rows, Groups) and isinstance(expr, Field) and expr.name in rows.keys:
        expr, samples = rows.keys[expr.name], rows.samples  # type: ignore[assignment]
    if isinstance(expr, EntityRef) and isinstance(samples, Bindings):
        # Ranks order like ids, and need not be fetched again.
        return id_order(expr.variable, samples, reader)
    return value_column(key.expr, rows, reader)


def _candidates(operator: Sort, rows: Rows, end: int | None, reader: Reader) -> Numbers | None:
    """The rows that may be among the first by their first key alone; None for all."""
    if end is None or not operator.keys or end * _SELECT_PART >= rows.rows:
        return None
    values, descending = _key(operator.keys[0], rows, reader), operator.keys[0].descending
    return selected(values, descending, end)


def selected(values: pa.Array, descending: bool, count: int) -> Numbers | None:
    """The places of the first `count` values in order and of all equal to the last of them; None for all."""
    missing = values.null_count
    if count == 0:
        return counted(0)
    if not descending and missing >= count:
        return _marked(pc.is_null(values))
    wanted = count if descending else count - missing
    if wanted >= len(values) - missing:
        return None
    last = _nth(values.drop_null(), descending, wanted)
    if last is None:
        return None
    within = pc.greater_equal(values, last) if descending else pc.less_equal(values, last)
    return _marked(pc.fill_null(within, not descending))


def _nth(values: pa.Array, descending: bool, place: int) -> pa.Scalar | None:
    """The value at a place of the order; None when there is none to compare with."""
    if pa.types.is_boolean(values.type):
        return None
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        if np.isnan(numbers).any():
            return None
        at = len(numbers) - place if descending else place - 1
        return pa.scalar(np.partition(numbers, at)[at], values.type)
    way = "descending" if descending else "ascending"
    best = pc.select_k_unstable(pa.table({"v": values}), place, [("v", way)])
    return values[best[-1].as_py()]


def _marked(mask: pa.Array) -> Numbers:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).astype(np.int64)
