"""The changes of a write to tables: per table the new rows, the removed ids, or the replacement of all rows."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.commit.addressed import AddressedRows
from omnigraphdb.commit.origins import Origin, Origins
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import MUTATION_BYTES_MAX, PROBLEMS_SHOWN_MAX
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.values import Marked, Written
from omnigraphdb.values import dataclass

NO_IDS = pa.array([], pa.string())


class DeltaKind(StrEnum):
    """The kind of a table's change; updates, deletes and replacements are refused when the table has moved."""

    INSERT = "insert"
    """Ids are fresh, so the table cannot have them."""
    APPEND = "append"
    """Ids come with the rows, and the table must not have them."""
    MERGE = "merge"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"

    @property
    def is_strict(self) -> bool:
        """Whether a moved base is a conflict instead of a reason to prepare again."""
        return self in (DeltaKind.UPDATE, DeltaKind.DELETE, DeltaKind.REPLACE)


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows that workers wrote as fragments, and fragments in which they marked the rows that these replace."""

    written: tuple[Written, ...]
    marked: tuple[Marked, ...] = ()

    @property
    def takes_over(self) -> bool:
        """Whether its rows are appended first and take the place of marked ones in a second commit."""
        return any(part.inherited for part in self.written)

    @property
    def digests(self) -> dict[str, str]:
        """The digests of all its files."""
        receipts = [
            *(part.digests for part in self.written),
            *(part.digests for part in self.marked),
        ]
        return {key: digest for digests in receipts for key, digest in digests.items()}


@dataclass(frozen=True, slots=True)
class UnwrittenRows:
    """Rows of an input that workers write once the branch of the table is forked: fragments lie beside their branch."""

    outcome: object = field(repr=False)
    """The decisions of the pipeline on the rows; only the pipeline reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDelta:
    """The changes of a write to one table.

    New rows are in memory (`rows`, whole rows with unique ids), or `source` locates them: written as
    fragments, still to be written, or named by version and address. `deleted` are ids of removed rows.
    """

    type: TableType
    kind: DeltaKind
    rows: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    source: WrittenRows | UnwrittenRows | AddressedRows | None = None
    is_new: bool = False
    """True when the table is known to have none of the ids, so that an upsert is an append."""
    origins: Origins | None = field(default=None, repr=False, compare=False)
    shown_max: int = PROBLEMS_SHOWN_MAX
    """Problems of one rule that are described; the others are counted."""
    nulls_reported: bool = False
    """True when missing values were reported as the rows were read."""

    @property
    def ids(self) -> pa.Array:
        """Ids of the rows in memory."""
        return column(self.rows, "id")

    @property
    def replaces(self) -> bool:
        """Whether nothing of the committed table stays."""
        return self.kind is DeltaKind.REPLACE

    @property
    def touched(self) -> pa.Array:
        """Ids whose committed rows no longer count."""
        return pa.concat_arrays([self.ids, self.deleted]) if len(self.deleted) else self.ids

    @property
    def is_empty(self) -> bool:
        """Whether committing this would change nothing."""
        has_rows = self.source is not None or bool(self.rows.num_rows)
        return not self.replaces and not has_rows and not len(self.deleted)

    def origin(self, row: int) -> Origin:
        """Return the origin of a row, as far as it is known."""
        return Origin() if self.origins is None else self.origins.of(row)


@dataclass(frozen=True, slots=True)
class Deltas:
    """Every table change of one write, by table key, in key order."""

    tables: Mapping[TableKey, TableDelta] = field(default_factory=lambda: MappingProxyType({}))

    def __iter__(self) -> Iterator[TableDelta]:
        return iter(self.tables.values())

    def of(self, table: TableKey) -> TableDelta | None:
        """Return the change of one table, if there is one."""
        return self.tables.get(table)

    @property
    def is_empty(self) -> bool:
        """Whether the write changes nothing."""
        return all(change.is_empty for change in self)


def deltas_of(tables: Mapping[TableKey, TableDelta]) -> Deltas:
    """Collect the table changes that are not empty."""
    changed = {key: tables[key] for key in sorted(tables) if not tables[key].is_empty}
    return Deltas(MappingProxyType(changed))


def last_of_each_id(rows: pa.Table) -> pa.Array:
    """Row numbers of the last row of every id, in order of their first appearance."""
    if rows.num_rows == 0:
        return pa.array([], pa.int64())
    numbered = pa.table({"id": rows["id"], "n": pa.array(np.arange(rows.num_rows), pa.int64())})
    grouped = numbered.group_by("id", use_threads=False).aggregate([("n", "max"), ("n", "min")])
    return column(grouped.sort_by("n_min"), "n_max")


def require_mutation_bytes(size: int) -> None:
    """Refuse a mutation that holds more than one may: nothing was written yet."""
    if size > MUTATION_BYTES_MAX:
        raise ResourceLimit(
            "pending bytes of one mutation", MUTATION_BYTES_MAX, size, "use load for bulk writes"
        )


class Accumulator:
    """Pending writes of one mutation: statements add to it, later statements read through it."""

    def __init__(self) -> None:
        self._rows: dict[TableKey, list[pa.Table]] = {}
        self._types: dict[TableKey, TableType] = {}
        self._kinds: dict[TableKey, DeltaKind] = {}
        self._deleted: dict[TableKey, pa.Array] = {}
        self._bytes = 0

    def put(self, type_: TableType, rows: pa.Table, kind: DeltaKind) -> None:
        """Add whole rows; a later image of an id replaces an earlier one."""
        if rows.num_rows == 0:
            return
        self._note_type(type_, kind)
        self._bytes += rows.nbytes
        require_mutation_bytes(self._bytes)
        self._rows.setdefault(type_.table_key, []).append(rows)

    def delete(self, type_: TableType, ids: pa.Array) -> int:
        """Remove ids; says how many were not removed by an earlier statement."""
        before = self._deleted.get(type_.table_key, NO_IDS)
        fresh = pc.unique(ids.filter(pc.invert(pc.is_in(ids, value_set=before))))
        if len(fresh):
            self._note_type(type_, DeltaKind.DELETE)
            self._deleted[type_.table_key] = pa.concat_arrays([before, fresh])
        return len(fresh)

    def _note_type(self, type_: TableType, kind: DeltaKind) -> None:
        order = list(DeltaKind)
        before = self._kinds.get(type_.table_key, kind)
        self._types[type_.table_key] = type_
        self._kinds[type_.table_key] = max(before, kind, key=order.index)

    def rows(self, type_: TableType) -> pa.Table:
        """Return the rows that earlier statements put into a table, the last image of every id."""
        parts = self._rows.get(type_.table_key)
        if not parts:
            return type_.schema.empty_table()
        if len(parts) > 1:
            before = sum(part.nbytes for part in parts)
            joined = pa.concat_tables(parts).combine_chunks()
            parts[:] = [joined.take(last_of_each_id(joined))]
            self._bytes -= before - parts[0].nbytes
        return parts[0]

    def deleted(self, type_: TableType) -> pa.Array:
        """Return the ids of the rows that earlier statements removed from a table."""
        return self._deleted.get(type_.table_key, NO_IDS)

    def deltas(self) -> Deltas:
        """Everything so far as one value."""
        return deltas_of(
            {
                key: TableDelta(
                    type=type_,
                    kind=self._kinds[key],
                    rows=self.rows(type_),
                    deleted=self.deleted(type_),
                )
                for key, type_ in self._types.items()
            }
        )
