"""The values that cross the seams of storage: table versions, staged and landed changes, indices, fragments, branches."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.ids import OperationId, Version
from omnigraphdb.values import dataclass

# ---- Lance branches

Incarnation = tuple[tuple[int, str], ...]
"""Tells one incarnation of a branch name from another: delete and recreate never give the same one again."""

MAIN_INCARNATION: Incarnation = ()
"""Main is never deleted, so it has one incarnation."""


def incarnation_of(pairs: Iterable[Any]) -> Incarnation:
    """Read the identifier that Lance gives a branch: the versions and uuids of its forks."""
    return tuple((int(version), str(uuid)) for version, uuid in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRef:
    """One Lance branch: its parent, the parent's version it forked from, when, and its incarnation."""

    name: str
    parent: str | None
    parent_version: Version
    created_us: int
    incarnation: Incarnation


# ---- tables

Filter: TypeAlias = str | pc.Expression
"""SQL text, or an Arrow expression, whose literals are typed and need no quoting."""

Data: TypeAlias = pa.Table | pa.RecordBatchReader
"""Rows to stage: a table in memory, or a stream that is read once."""

Offsets: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
"""Row offsets inside a fragment, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """One version of one table on one Lance branch; `branch=None` is the table's main branch.

    `path` is relative to the graph root, as in `nodes/0123456789abcdef`.
    """

    path: str
    branch: str | None
    version: Version
    name: str = field(default="", compare=False, repr=False)
    """The table key, for messages."""

    def __str__(self) -> str:
        return f"{self.path}@{self.branch or 'main'}:{self.version}"


class StagedKind(StrEnum):
    """The effect of a staged transaction on its table."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    INDICES = "indices"
    COMPACTION = "compaction"
    COLUMNS = "columns"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Written files and a described transaction; no HEAD has moved.

    `uuid` is the transaction's own: the change landed exactly when the table's history holds it.
    """

    at: TableAt
    uuid: str
    kind: StagedKind
    rows_added: int = 0
    rows_deleted: int = 0
    fragments_added: int = 0
    fragments_removed: int = 0
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The digests of its new files (`storage.lance.digests`); the contents of a file without one are not checked later."""
    transaction: object = field(repr=False, compare=False)
    """Private to storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A staged change after its table's HEAD moved."""

    at: TableAt
    row_count: int
    uuid: str
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """A version that is made but not in the store yet: its position, and its manifest file."""

    landed: Landed
    file: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """One entry of a table's own history; `operation` is None when it could not be read.

    `operation` is Lance's name: Append, Update, Overwrite, Delete, CreateIndex, Rewrite, ReserveFragments,
    Merge, Project, Restore, UpdateConfig.
    """

    version: Version
    uuid: str | None
    operation: str | None
    operation_id: OperationId | None = None
    actor: str | None = None
    restored: Version | None = None
    """The version whose rows a Restore brings back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """One version of a table and when it was made, in microseconds since the epoch."""

    version: Version
    created_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededFile:
    """The facts that Lance noted of a file that a version needs; an index segment is noted as one file."""

    bytes: int | None
    deletions: tuple[str, int] | None = None
    """The form of a deletion file, and the rows that it deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionContents:
    """The rows of a version, and its files by their path from the graph root; index segments end with a slash."""

    row_count: int
    files: Mapping[str, NeededFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """The versions and bytes that a cleanup removed, or would remove."""

    versions: int
    bytes: int


class IndexKind(StrEnum):
    """The index kinds a table may carry."""

    BTREE = "btree"
    TEXT = "fts"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """An index to build over `fragments`; without them, over the fragments that no such index on the column covers."""

    column: str
    kind: IndexKind
    fragments: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """An index of a table with all its segments; `kind` is None for an index that OmniGraph does not build.

    `dead` segments cover no fragment of this version.
    """

    name: str
    column: str
    kind: IndexKind | None
    fragments: frozenset[int]
    segments: tuple[str, ...]
    dead: tuple[str, ...] = ()
    positions: bool = False
    """True for a text index that stores the positions of terms."""
    damage: str | None = None
    """The reason why reads cannot use it; a damaged index covers nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentInfo:
    """One fragment; fragments with equal `id`, `files` and `deletions` hold the same rows."""

    id: int
    files: tuple[str, ...]
    deletions: str | None
    physical_rows: int
    deleted_rows: int
    bytes: int = 0
    """The size of its data files; 0 when the table does not record it."""

    @property
    def rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Adds a nullable column, null in every row; no data is written."""

    field: pa.Field


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Removes a column from the schema; its bytes stay until the next rewrite."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Gives a column a new name; its values, indices and field id stay."""

    name: str
    to: str


ColumnChange = AddColumn | DropColumn | RenameColumn


@dataclass(frozen=True, slots=True)
class Inherited:
    """The ids and versions that the rows of one fragment inherit from replaced rows, encoded as in a manifest."""

    row_ids: bytes = field(repr=False)
    created_versions: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Fragments that one worker wrote and no one committed; picklable, for the message to the driver."""

    fragments: tuple[str, ...]
    rows: int
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    inherited: tuple[Inherited, ...] = ()
    """One for each fragment, when its rows are appended first and take the place of others in the next commit."""


@dataclass(frozen=True, slots=True)
class Successors:
    """The row ids and creation versions that written rows inherit from the rows they replace, in order.

    A row that replaces none is new and has nulls.
    """

    row_ids: pa.Array
    created_versions: pa.Array

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.row_ids)

    def slice(self, start: int, count: int) -> "Successors":
        """Give a part of them."""
        return Successors(
            self.row_ids.slice(start, count), self.created_versions.slice(start, count)
        )

    def take(self, order: pa.Array) -> "Successors":
        """Give them in another order; a null in the order is a new row."""
        return Successors(self.row_ids.take(order), self.created_versions.take(order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """One fragment in which a worker marked rows deleted; `fragment` is None when no row is left."""

    fragment_id: int
    rows: int
    fragment: str | None
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """A part of a table's maintenance that any process can do; `work` is private to storage."""

    at: TableAt
    work: bytes = field(repr=False)
    weight: int = 0
    """Its duration, relative to other tasks."""
