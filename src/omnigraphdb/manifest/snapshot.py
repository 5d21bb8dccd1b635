"""Snapshots: which table versions are visible together at one manifest version."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import NotFound
from omnigraphdb.ids import BranchName, TableKey, Version
from omnigraphdb.manifest.records import KEY, ObjectType
from omnigraphdb.manifest.table_history import (
    VERSION_COLUMNS,
    TableHistory,
    TableIncarnation,
    incarnations_of,
    rows_of,
)
from omnigraphdb.storage.values import MAIN_INCARNATION, Incarnation, TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One visible table: its version, its row count, and the incarnation of its key.

    `branch_incarnation` distinguishes Lance branches that had the same name one after the other: caches that outlive
    a snapshot need it beside `at`.
    """

    table_key: TableKey
    at: TableAt
    row_count: int
    incarnation: int = 1
    branch_incarnation: Incarnation = MAIN_INCARNATION

    @property
    def version(self) -> Version:
        """The pin."""
        return self.at.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An immutable set of pins, by table key in key order."""

    branch: BranchName
    version: Version
    branch_incarnation: Incarnation
    entries: Mapping[TableKey, Entry]

    @property
    def id(self) -> str:
        """A name for this state that does not need the lineage."""
        return f"manifest:{self.branch}:v{self.version}"

    @property
    def pins(self) -> dict[TableKey, Version]:
        """The visible version of every table."""
        return {key: entry.version for key, entry in self.entries.items()}

    @property
    def row_count(self) -> int:
        """The number of rows of all tables together."""
        return sum(entry.row_count for entry in self.entries.values())

    def entry(self, table: TableKey) -> Entry:
        """Find a table; a table that is not visible here is NotFound."""
        entry = self.entries.get(table)
        if entry is None:
            raise NotFound("table", table, known=self.entries)
        return entry

    def owned(self) -> tuple[Entry, ...]:
        """List the tables that this branch forked: their files go with the branch."""
        return tuple(entry for entry in self.entries.values() if entry.at.branch == self.branch)


def snapshot_of(
    table_history: TableHistory,
    branch: BranchName,
    version: Version,
    branch_incarnation: Incarnation,
) -> Snapshot:
    """Make the snapshot of one manifest version of a branch."""
    entries = {
        incarnation.table_key: _entry(incarnation, branch_incarnation)
        for incarnation in table_history.visible
    }
    return Snapshot(
        branch=branch, version=version, branch_incarnation=branch_incarnation, entries=entries
    )


def _entry(incarnation: TableIncarnation, branch_incarnation: Incarnation) -> Entry:
    version = incarnation.version or Version(0)
    return Entry(
        table_key=incarnation.table_key,
        at=TableAt(
            path=incarnation.path,
            branch=incarnation.branch,
            version=version,
            name=incarnation.table_key,
        ),
        row_count=incarnation.row_count,
        incarnation=incarnation.incarnation,
        branch_incarnation=branch_incarnation
        if incarnation.branch is not None
        else MAIN_INCARNATION,
    )


def list_versions_at(
    rows: pa.Table, table_history: TableHistory, path: str
) -> dict[tuple[TableKey, Version], Entry]:
    """List every published version of the table at a path, by the key that it had then and the version."""
    version_rows = rows_of(rows, ObjectType.TABLE_VERSION, VERSION_COLUMNS)
    owners = {
        (key, owner.incarnation): owner
        for key, incarnations in table_history.by_key.items()
        for owner in incarnations
        if owner.path == path
    }
    is_owned = pc.is_in(
        version_rows["table_key"], value_set=pa.array([key for key, _ in owners], pa.string())
    )
    version_rows = version_rows.filter(is_owned)
    incarnations = incarnations_of(version_rows[KEY]).tolist()
    return {
        (TableKey(row["table_key"]), Version(row["table_version"])): Entry(
            table_key=TableKey(row["table_key"]),
            at=TableAt(
                path=path, branch=row["table_branch"], version=Version(row["table_version"])
            ),
            row_count=row["row_count"] or 0,
            incarnation=incarnation,
        )
        for row, incarnation in zip(version_rows.to_pylist(), incarnations, strict=True)
        if (row["table_key"], incarnation) in owners
    }
