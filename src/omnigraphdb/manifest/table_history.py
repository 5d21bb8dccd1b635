"""The history of tables: the incarnations of each table key with path, newest version, and tombstone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import InternalError
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.manifest.records import (
    KEY,
    GraphCommit,
    GraphHead,
    ObjectType,
    Operation,
    PolicyVersion,
    Record,
    Registration,
    TableVersion,
    Tag,
    Tombstone,
)
from omnigraphdb.values import dataclass

_REQUIRED: Final = {
    ObjectType.TABLE: ("location", "table_key"),
    ObjectType.TABLE_VERSION: ("metadata", "table_key", "table_version", "row_count"),
    ObjectType.TOMBSTONE: ("table_key", "table_version"),
    ObjectType.GRAPH_COMMIT: ("metadata", "table_version"),
}
VERSION_COLUMNS: Final = (KEY, "table_key", "table_version", "table_branch", "row_count")
_INCARNATION_SUFFIX: Final = r"#(?P<incarnation>\d+)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIncarnation:
    """One incarnation of a table key: its path, its newest version, its tombstone."""

    table_key: TableKey
    incarnation: int
    path: str
    version: Version | None = None
    branch: str | None = None
    row_count: int = 0
    tombstone: Version | None = None

    @property
    def is_visible(self) -> bool:
        """Whether it has a version that no tombstone hides."""
        return self.version is not None and not self.is_dropped

    @property
    def is_dropped(self) -> bool:
        """Whether a tombstone hides all of its versions."""
        return self.tombstone is not None and self.tombstone >= (self.version or 0)

    @property
    def pin(self) -> Version:
        """The version a check compares with: visible, else that of the tombstone, else 0."""
        if self.is_dropped and self.tombstone is not None:
            return self.tombstone
        return self.version or Version(0)


@dataclass(frozen=True)
class TableHistory:
    """Every incarnation of every table key, oldest first; the key names the last one now."""

    by_key: Mapping[TableKey, tuple[TableIncarnation, ...]]

    @cached_property
    def visible(self) -> tuple[TableIncarnation, ...]:
        """The visible incarnations, by table key: at most one each."""
        newest = (incarnations[-1] for _, incarnations in sorted(self.by_key.items()))
        return tuple(incarnation for incarnation in newest if incarnation.is_visible)

    def latest(self, table: TableKey) -> TableIncarnation | None:
        """Find the newest incarnation of a key."""
        incarnations = self.by_key.get(table)
        return incarnations[-1] if incarnations else None

    def find(self, table: TableKey, incarnation: int) -> TableIncarnation | None:
        """Find one incarnation of a key."""
        return next((x for x in self.by_key.get(table, ()) if x.incarnation == incarnation), None)

    def next_incarnation(self, table: TableKey) -> int:
        """Give the number of the incarnation that a newly added type of that name begins."""
        latest = self.latest(table)
        return latest.incarnation + 1 if latest else 1

    def after(self, records: Iterable[Record]) -> "TableHistory":
        """Derive the history after these records are published."""
        changed = dict(self.by_key)
        for record in records:
            match record:
                case Registration():
                    _update_incarnation(
                        changed, record.table_key, record.incarnation, path=record.path
                    )
                case TableVersion():
                    _update_incarnation(
                        changed,
                        record.table_key,
                        record.incarnation,
                        version=record.version,
                        branch=record.branch,
                        row_count=record.row_count,
                    )
                case Tombstone():
                    _update_incarnation(
                        changed, record.table_key, record.incarnation, tombstone=record.version
                    )
                case GraphCommit() | GraphHead() | Operation() | Tag() | PolicyVersion():
                    pass
        return TableHistory(changed)


def _update_incarnation(
    table_history: dict[TableKey, tuple[TableIncarnation, ...]],
    table: TableKey,
    incarnation: int,
    **facts: Any,
) -> None:
    existing = table_history.get(table, ())
    if existing and existing[-1].incarnation == incarnation:
        table_history[table] = (*existing[:-1], replace(existing[-1], **facts))
        return
    incarnations = {past.incarnation: past for past in existing}
    before = incarnations.get(incarnation) or TableIncarnation(
        table_key=table, incarnation=incarnation, path=""
    )
    incarnations[incarnation] = replace(before, **facts)
    table_history[table] = tuple(incarnations[number] for number in sorted(incarnations))


def read_table_history(rows: pa.Table) -> TableHistory:
    """Read the history from manifest rows; lineage rows and unknown types are not decoded."""
    incarnations = {
        (registration.table_key, registration.incarnation): registration
        for registration in _read_registrations(
            rows_of(rows, ObjectType.TABLE, (KEY, "table_key", "location"))
        )
    }
    for row in _newest(rows_of(rows, ObjectType.TABLE_VERSION, VERSION_COLUMNS)):
        incarnations[row.table_key, row.incarnation] = _add_version(incarnations, row)
    for row in _newest(rows_of(rows, ObjectType.TOMBSTONE, VERSION_COLUMNS)):
        name = (row.table_key, row.incarnation)
        if name in incarnations:
            incarnations[name] = replace(incarnations[name], tombstone=row.version)
    grouped: dict[TableKey, tuple[TableIncarnation, ...]] = {}
    for table, incarnation in sorted(incarnations):
        grouped[table] = (*grouped.get(table, ()), incarnations[table, incarnation])
    return TableHistory(grouped)


def rows_of(rows: pa.Table, object_type: ObjectType, columns: Sequence[str]) -> pa.Table:
    """Pick columns of the rows of one type; a required column that is null is a damaged manifest."""
    mask = pc.equal(rows["object_type"], object_type.value)
    for column in _REQUIRED.get(object_type, ()):
        if rows[column].null_count:
            _refuse_null(rows, object_type, column, pc.and_(mask, pc.is_null(rows[column])))
    return rows.select(list(columns)).filter(mask)


def _refuse_null(
    rows: pa.Table, object_type: ObjectType, column: str, is_null: pa.ChunkedArray
) -> None:
    if pc.any(is_null).as_py():
        name = rows[KEY].filter(is_null)[0].as_py()
        raise InternalError(
            f"the manifest row '{name}' ({object_type}) has no {column}; "
            "the manifest is damaged and nothing was read from it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    table_key: TableKey
    incarnation: int
    version: Version
    branch: str | None
    row_count: int


def _read_registrations(rows: pa.Table) -> Iterator[TableIncarnation]:
    incarnations = incarnations_of(rows[KEY])
    keys, paths = rows["table_key"].to_pylist(), rows["location"].to_pylist()
    for key, incarnation, path in zip(keys, incarnations, paths, strict=True):
        yield TableIncarnation(table_key=TableKey(key), incarnation=int(incarnation), path=path)


def _add_version(
    incarnations: Mapping[tuple[TableKey, int], TableIncarnation], row: _Newest
) -> TableIncarnation:
    registered = incarnations.get((row.table_key, row.incarnation))
    if registered is None:
        raise InternalError(
            f"the manifest holds version {row.version} of '{row.table_key}' but no registration of "
            "that table; the manifest is damaged and nothing was read from it"
        )
    return replace(registered, version=row.version, branch=row.branch, row_count=row.row_count)


def _newest(rows: pa.Table) -> Iterator[_Newest]:
    """Pick the greatest version per table and incarnation, without a loop over the others."""
    last = find_newest_versions(rows)
    incarnations = incarnations_of(rows[KEY])
    # A list: `pa.array` of a NumPy array loads `numpy.ma`, which takes longer than a point query.
    newest_rows = rows.take(pa.array(last.tolist(), pa.int64()))
    for row, incarnation in zip(newest_rows.to_pylist(), incarnations[last], strict=True):
        yield _Newest(
            table_key=TableKey(row["table_key"]),
            incarnation=int(incarnation),
            version=Version(row["table_version"]),
            branch=row["table_branch"],
            row_count=row["row_count"] or 0,
        )


def find_newest_versions(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Find the positions of the greatest version per table and incarnation."""
    if not rows.num_rows:
        return np.zeros(0, dtype=np.int64)
    incarnations = incarnations_of(rows[KEY])
    keys = rows["table_key"].combine_chunks().dictionary_encode()
    group = keys.indices.to_numpy() * (incarnations.max() + 1) + incarnations
    order = np.lexsort((rows["table_version"].to_numpy(), group))
    positions: np.ndarray[Any, np.dtype[np.int64]] = order[
        np.append(group[order][1:] != group[order][:-1], True)
    ]
    return positions


def incarnations_of(ids: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Read the `#n` suffix of row keys; a key without one is incarnation 1."""
    numbers = np.ones(len(ids), dtype=np.int64)
    has_suffix = pc.match_substring_regex(ids, _INCARNATION_SUFFIX)
    if pc.any(has_suffix).as_py():
        suffix = pc.struct_field(
            pc.extract_regex(ids.filter(has_suffix), _INCARNATION_SUFFIX), "incarnation"
        )
        positions = has_suffix.to_numpy()
        numbers[positions] = suffix.cast(pa.int64()).to_numpy()
    return numbers
