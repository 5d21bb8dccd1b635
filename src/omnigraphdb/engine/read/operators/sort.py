"""The operators Sort, Slice and Stage: order rows, keep a window of them, keep some of their variables and values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraphdb.compile.checked import EntityRef, Field
from omnigraphdb.compile.plan.operators import Output, Slice, Sort, SortBy
from omnigraphdb.engine.read.bindings import Bindings, concat, gather
from omnigraphdb.engine.read.columns.row_ids import Integers
from omnigraphdb.engine.read.operators.group_tops import group_rows, select_first_each
from omnigraphdb.engine.read.operators.row_order import (
    Column,
    bounds,
    find_numbers,
    id_order,
    select_first,
    sort_rows,
)
from omnigraphdb.engine.read.operators.rows import Groups, Rows, value_column, value_columns
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.memory import count_columns, counted_bytes

R = TypeVar("R", Bindings, Groups)

_INTEGER_BYTES = 8
_SELECT_PART = 8
"""The first rows are selected before sorting if they are fewer than one in this many."""


def cut(operator: Slice, tables: Iterable[Rows], reader: Reader) -> Iterator[Rows]:
    """Keep a window of the rows; once it is full no more rows are read."""
    if operator.per:
        yield _cut_each(operator, list(tables), reader)
        return
    start, end = bounds(operator.window, reader)
    rows_before = 0
    for rows in tables:
        rows = rows.unweighted() if isinstance(rows, Bindings) else rows
        last = rows.rows if end is None else min(end - rows_before, rows.rows)
        first = min(max(start - rows_before, 0), last)
        yield rows if first == 0 and last == rows.rows else rows.slice(first, last)
        rows_before += rows.rows
        if end is not None and rows_before >= end:
            return


def _cut_each(operator: Slice, tables: list[Rows], reader: Reader) -> Rows:
    """Keep a window of the rows that are equal in some values; all rows stay in their order."""
    start, end = bounds(operator.window, reader)
    rows = _join_tables(tables)
    numbers = group_rows(operator.per, rows, reader).number_rows()
    mask = (numbers >= start) if end is None else (numbers >= start) & (numbers < end)
    return rows.take(np.flatnonzero(mask))


def _join_tables(tables: list[Rows]) -> Rows:
    if isinstance(tables[0], Groups):
        return tables[0]
    return gather(table.unweighted() for table in tables if isinstance(table, Bindings))


def leave(
    entities: Sequence[str], values: Sequence[Output], rows: Rows, reader: Reader
) -> Bindings:
    """Keep some variables of rows, and named values that the rows carry."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    source = rows if isinstance(rows, Bindings) else rows.samples
    columns = value_columns([output.expr for output in values], rows, reader)
    carried = {
        output.name: column.cast(output.type.arrow)
        for output, column in zip(values, columns, strict=True)
    }
    return Bindings({name: source.columns[name] for name in entities}, rows.rows, None, carried)


def sort(
    operator: Sort,
    tables: Iterable[Rows],
    names: Iterable[str],
    reader: Reader,
    each: Slice | None = None,
) -> Rows:
    """Order rows by keys, then by the ids of the tie variables; NULL is below every value.

    With a window, the rows of the window and the rows before it are kept from every table. With `each`, rows that are
    not among the first of their group may be left out.
    """
    _, end = bounds(operator.window, reader)
    parts: list[Bindings] = []
    for rows in tables:
        if isinstance(rows, Groups):
            rows = _select_each(operator, each, rows, reader)
            groups = rows.take(_sort_offsets(operator, rows, end, reader))
            count_columns((*groups.samples.arrays, *groups.tallies.values()))
            return groups
        rows = rows.unweighted()
        rows = rows if end is None else rows.take(_sort_offsets(operator, rows, end, reader))
        count_columns(rows.arrays)
        parts.append(rows)
    if end is not None and len(parts) == 1:
        return parts[0]
    joined = concat(parts, names)
    count_columns(joined.arrays)
    parts.clear()
    candidates = _select_each(operator, each, joined, reader)
    ordered = candidates.take(_sort_offsets(operator, candidates, end, reader))
    count_columns(ordered.arrays)
    return ordered


def _select_each(operator: Sort, each: Slice | None, rows: R, reader: Reader) -> R:
    """Keep the rows that may be among the first of their group by the first key alone."""
    end = None if each is None else bounds(each.window, reader)[1]
    if each is None or end is None or not operator.keys or not rows.rows:
        return rows
    first = operator.keys[0]
    keys = find_numbers(_key_column(first, rows, reader), first.descending)
    if keys is None:
        return rows
    offsets = select_first_each(group_rows(each.per, rows, reader), keys, end)
    return rows if offsets is None else rows.take(offsets)


def _sort_offsets(operator: Sort, rows: Rows, end: int | None, reader: Reader) -> Integers:
    """Return the offsets of the first rows in order."""
    offsets = _select_candidates(operator, rows, end, reader)
    if offsets is not None:
        rows = rows.take(offsets)
    keys = len(operator.keys) + len(operator.ties)
    with counted_bytes(_INTEGER_BYTES * (keys + 2) * rows.rows):
        order = sort_rows(_sort_columns(operator, rows, reader), rows.rows)[:end]
        return order if offsets is None else offsets[order]


def _sort_columns(operator: Sort, rows: Rows, reader: Reader) -> list[Column]:
    columns = [(_key_column(key, rows, reader), key.descending) for key in operator.keys]
    if isinstance(rows, Bindings):
        columns += [(id_order(name, rows, reader), False) for name in operator.ties]
    return columns


def _key_column(key: SortBy, rows: Rows, reader: Reader) -> pa.Array:
    expr, samples = key.expr, rows
    if isinstance(rows, Groups) and isinstance(expr, Field) and expr.name in rows.keys:
        expr, samples = rows.keys[expr.name], rows.samples  # type: ignore[assignment]
    if isinstance(expr, EntityRef) and isinstance(samples, Bindings):
        # Ranks order like ids, and are cached.
        return id_order(expr.variable, samples, reader, descending=key.descending)
    return value_column(key.expr, rows, reader)


def _select_candidates(
    operator: Sort, rows: Rows, end: int | None, reader: Reader
) -> Integers | None:
    """Select the rows that may be among the first by their first key alone; None for all."""
    if end is None or not operator.keys or end * _SELECT_PART >= rows.rows:
        return None
    values, descending = _key_column(operator.keys[0], rows, reader), operator.keys[0].descending
    return select_first(values, descending, end)
