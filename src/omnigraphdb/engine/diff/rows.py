"""Changed rows: reads candidates of both versions a bounded chunk at a time and compares them column by column; and row images."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import stored_type
from omnigraphdb.catalog.values import json_column
from omnigraphdb.engine.diff.candidates import candidates
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.equality import Mask, differs
from omnigraphdb.limits import COMPARE_ROWS_MAX
from omnigraphdb.storage.addresses import chunk_rows, rows_at
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import BlobForm, BlobKind, is_blob
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """One column under its names in both versions; None where it does not exist."""

    left: str | None
    right: str | None


class Comparison(Protocol):
    """Compares rows of two versions of one table column by column."""

    @property
    def names(self) -> tuple[str, ...]:
        """The compared columns by their newer name."""
        ...

    def matrix(self, left_rows: pa.Array, right_rows: pa.Array) -> Mask:
        """Compare rows by address: one line per pair of rows, one column per compared column, True where they differ."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two versions of one table and the columns to compare, by their values."""

    left: Table
    right: Table
    pairs: tuple[Pair, ...]
    row_cache: RowCache = NO_ROW_CACHE

    @property
    def names(self) -> tuple[str, ...]:
        """The compared columns by their newer name."""
        return tuple(pair.right or pair.left or "" for pair in self.pairs)

    def matrix(self, left_rows: pa.Array, right_rows: pa.Array) -> Mask:
        """Compare rows by address: one line per pair of rows, one column per compared column, True where they differ."""
        mask = np.zeros((len(left_rows), len(self.pairs)), dtype=bool)
        for start in range(0, len(left_rows), step := chunk_rows(self.right.schema)):
            part = slice(start, start + step)
            mask[part] = self._compare_chunk(
                left_rows.slice(start, step), right_rows.slice(start, step)
            )
        return mask

    def _compare_chunk(self, left_rows: pa.Array, right_rows: pa.Array) -> Mask:
        left = self.row_cache.rows(self.left, left_rows, [p.left for p in self.pairs if p.left])
        right = self.row_cache.rows(
            self.right, right_rows, [p.right for p in self.pairs if p.right]
        )
        mask = np.zeros((len(left_rows), len(self.pairs)), dtype=bool)
        for number, pair in enumerate(self.pairs):
            if pair.left is None or pair.right is None:
                present = left[pair.left] if pair.left else right[pair.right]
                mask[:, number] = present.is_valid().to_numpy()
                continue
            left_values, right_values = column(left, pair.left), column(right, pair.right)
            mask[:, number] = differs(left_values, right_values)
            if is_blob(self.right.schema.field(pair.right).type):
                mask[:, number] |= self._compare_blobs(
                    pair, left_values, ~mask[:, number], left_rows, right_rows
                )
        return mask

    def _compare_blobs(
        self,
        pair: Pair,
        descriptors: pa.Array,
        alike: Mask,
        left_rows: pa.Array,
        right_rows: pa.Array,
    ) -> Mask:
        """Compare the bytes of blobs that have the same size."""
        managed = pc.equal(pc.struct_field(descriptors, "kind"), BlobKind.MANAGED.value)
        sized = pc.greater(pc.struct_field(descriptors, "size"), 0)
        inside = pc.fill_null(pc.and_(managed, sized), False).to_numpy(zero_copy_only=False)
        mask = np.zeros(len(descriptors), dtype=bool)
        for row in np.flatnonzero(alike & inside).tolist():
            # One blob at a time, because a single blob may be as large as memory allows.
            blob = _read_blob(self.left, pair.left, left_rows.slice(row, 1))
            mask[row] = blob != _read_blob(self.right, pair.right, right_rows.slice(row, 1))
        return mask


def _read_blob(table: Table, name: str | None, address: pa.Array) -> pa.Array:
    return column(rows_at(table, address, [name or ""], BlobForm.BYTES), name or "")


def pair_columns(left: Table, right: Table, row_cache: RowCache = NO_ROW_CACHE) -> Compared:
    """Pair the columns of two versions by field id, else by name; columns of different types are different columns.

    A column of the older version alone was dropped: that changes the schema, and no row.
    """
    was, now = ({f.name: f.type for f in table.schema} for table in (left, right))
    by_number = {(number, was[name]): name for name, number in left.field_ids.items()}
    partner = {name: by_number.get((n, now[name])) for name, n in right.field_ids.items()}
    paired = {name for name in partner.values() if name is not None}
    implied = row_cache.implied(right)
    pairs = []
    for name in right.schema.names:
        old = partner.get(name)
        if old is None and was.get(name) == now[name] and name not in paired:
            old = name
        if name != "id" and name not in implied:
            pairs.append(Pair(old, name))
    return Compared(left=left, right=right, pairs=tuple(pairs), row_cache=row_cache)


@dataclass(frozen=True, slots=True)
class Step:
    """Some rows that differ, by id; `properties` marks the columns in which rows of both versions differ."""

    moves: pa.Table
    properties: Mask

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> "Step":
        """Keep the rows that a mask marks."""
        return Step(self.moves.filter(mask), self.properties[mask.to_numpy(zero_copy_only=False)])

    def slice(self, count: int) -> "Step":
        """Keep the first rows."""
        return Step(self.moves.slice(0, count), self.properties[:count])


def find_changed_steps(
    tables: Tables,
    before: TableAt | None,
    after: TableAt | None,
    row_cache: RowCache = NO_ROW_CACHE,
) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Find the rows that differ, a bounded number at a time, by id."""
    moves = candidates(tables, before, after, row_cache)
    if before is None or after is None:
        yield from _find_one_sided(moves)
        return
    comparison = pair_columns(tables.open(before), tables.open(after), row_cache)
    for start in range(0, moves.num_rows, COMPARE_ROWS_MAX):
        step = drop_equal(moves.slice(start, COMPARE_ROWS_MAX), comparison)
        if step.moves.num_rows:
            yield step, comparison.names


def _find_one_sided(moves: pa.Table) -> Iterator[tuple[Step, tuple[str, ...]]]:
    for start in range(0, moves.num_rows, COMPARE_ROWS_MAX):
        part = moves.slice(start, COMPARE_ROWS_MAX)
        yield Step(part, np.zeros((part.num_rows, 0), dtype=bool)), ()


def drop_equal(moves: pa.Table, comparison: "Comparison") -> Step:
    """Drop the rows that are equal in both versions."""
    shared = pc.and_(pc.is_valid(moves["before"]), pc.is_valid(moves["after"])).to_numpy()
    matrix = np.zeros((moves.num_rows, len(comparison.names)), dtype=bool)
    if not shared.any():
        return Step(moves, matrix)
    pairs = moves.filter(pa.array(shared))
    matrix[shared] = comparison.matrix(column(pairs, "before"), column(pairs, "after"))
    differing = ~shared | matrix.any(axis=1)
    return Step(moves.filter(pa.array(differing)), matrix[differing])


def find_changed_rows(
    tables: Tables,
    before: TableAt | None,
    after: TableAt | None,
    row_cache: RowCache = NO_ROW_CACHE,
) -> pa.Table:
    """Find every row that differs, as `MOVES`, by id: ids and addresses only."""
    parts = [step.moves for step, _ in find_changed_steps(tables, before, after, row_cache)]
    return pa.concat_tables(parts) if parts else candidates(tables, after, after)


# ---- images
# Rows as JSON values, written as in query results, without blobs.


def read_images_at(table: Table | None, addresses: pa.Array) -> list[Row | None]:
    """Read rows by address; a null address gives None."""
    if table is None or addresses.null_count == len(addresses):
        return [None] * len(addresses)
    images = iter(_to_images(rows_at(table, addresses.drop_null(), _list_shown_columns(table))))
    return [next(images) if has_row else None for has_row in addresses.is_valid().to_pylist()]


def read_images_of(table: Table | None, ids: Sequence[str]) -> dict[str, Row]:
    """Read rows by id."""
    if table is None or not ids:
        return {}
    rows = table.lookup("id", pa.array(ids, pa.string()), _list_shown_columns(table))
    return {row["id"]: row for row in _to_images(rows)}


def _to_images(rows: pa.Table) -> list[Row]:
    # The stored types decide: rows may be older than the schema and have columns that it dropped.
    columns = [json_column(values, stored_type(values.type)) for values in rows.columns]
    names = rows.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _list_shown_columns(table: Table) -> list[str]:
    return [field.name for field in table.schema if not is_blob(field.type)]
