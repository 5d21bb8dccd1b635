"""The seam to node and edge tables: the values that cross it and the protocols behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import OperationId, Version
from omnigraph.storage.blobs import BlobDescriptor, BlobForm
from omnigraph.storage.values import BranchRef
from omnigraph.values import dataclass

Filter: TypeAlias = str | pc.Expression
"""SQL text, or an Arrow expression, whose literals are typed and need no quoting."""

Data: TypeAlias = pa.Table | pa.RecordBatchReader
"""What a bulk stage call takes: rows in memory, or a stream that is read once."""

Offsets: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
"""Places of rows inside a fragment, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """One version of one table on one Lance branch; `branch=None` is the table's main line.

    `path` is relative to the graph root, as in `nodes/0123456789abcdef`.
    """

    path: str
    branch: str | None
    version: Version
    name: str = field(default="", compare=False, repr=False)
    """What people call the table, for messages: its key."""

    def __str__(self) -> str:
        return f"{self.path}@{self.branch or 'main'}:{self.version}"


class StagedKind(StrEnum):
    """What a staged transaction does to its table."""

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
    """Files written and a transaction described; no HEAD has moved.

    `uuid` is the transaction's own: once it is found in the table's history, this very change landed.
    `uncovered` names the indices that lose coverage of rewritten fragments when this lands.
    """

    at: TableAt
    uuid: str
    kind: StagedKind
    rows_added: int = 0
    rows_deleted: int = 0
    fragments_added: int = 0
    fragments_removed: int = 0
    uncovered: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the files it brings (`storage.lance.digests`); a file without one is not checked by its contents later."""
    transaction: object = field(repr=False, compare=False)
    """Private to storage: callers never look inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A staged change after its table's HEAD moved."""

    at: TableAt
    row_count: int
    uuid: str
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """One version of a table and when it was made, in microseconds since the epoch."""

    version: Version
    created_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """What was removed, or would be."""

    versions: int
    bytes: int


class IndexKind(StrEnum):
    """The index kinds a table may carry."""

    BTREE = "btree"
    TEXT = "fts"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """An index to build: over `fragments`, or over those that no index of that kind on the column covers."""

    column: str
    kind: IndexKind
    fragments: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """An index as the table knows it, all its segments together; `kind` is None for one we do not build.

    `dead` segments cover nothing that is still there.
    """

    name: str
    column: str
    kind: IndexKind | None
    fragments: frozenset[int]
    segments: tuple[str, ...]
    dead: tuple[str, ...] = ()
    positions: bool = False
    """Whether a text index knows where in a text a term is."""
    damage: str | None = None
    """Why no read can use it; it covers nothing then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentInfo:
    """One fragment; two with equal `id`, `files` and `deletions` hold the same rows."""

    id: int
    files: tuple[str, ...]
    deletions: str | None
    physical_rows: int
    deleted_rows: int
    bytes: int = 0
    """Of its data files; 0 when the table does not tell."""

    @property
    def rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A nullable column, null in every row; no data is written."""

    field: pa.Field


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column leaves the schema; its bytes stay until the next rewrite."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column keeps its values, indices and identity under a new name."""

    name: str
    to: str


ColumnChange = AddColumn | DropColumn | RenameColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Fragments one worker wrote and nobody committed; picklable, so that it can travel to the driver."""

    fragments: tuple[str, ...]
    rows: int
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Successors:
    """What written rows take over from the rows whose place they take, in order: row ids, and versions of birth.

    A row that takes nobody's place has nulls; it is new.
    """

    row_ids: pa.Array
    created_versions: pa.Array

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.row_ids)

    def slice(self, start: int, count: int) -> "Successors":
        """Some of them."""
        return Successors(
            self.row_ids.slice(start, count), self.created_versions.slice(start, count)
        )

    def take(self, order: pa.Array) -> "Successors":
        """The same in another order; a null in it is a new row."""
        return Successors(self.row_ids.take(order), self.created_versions.take(order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """One fragment in which a worker marked rows deleted; `fragment` is None when none is left of it."""

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
    """About how long it takes, one against another."""


class Workers(Protocol):
    """Many hands for chores: other processes, mostly."""

    @property
    def count(self) -> int:
        """Into how many chores a long piece of work is worth cutting."""
        ...

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """What `Tables.do` answered to each, in order."""
        ...


class CommitLock(Protocol):
    """What `commit_staged` needs to know of a table lock (`storage.locks.table.TableLock` fits)."""

    @property
    def exclusive(self) -> bool:
        """True for a kernel lock that no other process can hold at the same time."""
        ...


class Table(Protocol):
    """One opened table version, for reading; safe to share between threads."""

    @property
    def at(self) -> TableAt:
        """Which version this is."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The logical Arrow schema: a Blob column is `large_binary`."""
        ...

    @property
    def field_ids(self) -> Mapping[str, int]:
        """The lasting number of every column: a rename keeps it, a dropped and re-added name gets another."""
        ...

    def count(self, filter: Filter | None = None) -> int:
        """Count rows; without a filter nothing is scanned."""
        ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        batch_rows: int | None = None,
        order_by_id: bool = False,
        fragments: Sequence[int] | None = None,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows. `columns=()` with `row_id` or `row_address` reads no column at all.

        `_row_created_at_version` and `_row_last_updated_at_version` may be asked for by name.
        """
        ...

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        order_by_id: bool = False,
        fragments: Sequence[int] | None = None,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows into memory; arguments as for `scan`."""
        ...

    def take(
        self,
        row_ids: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
    ) -> pa.Table:
        """Fetch live rows by stable row id, in the order asked; unknown ids are left out."""
        ...

    def lookup(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
    ) -> pa.Table:
        """Find rows whose `column` is one of `values`; uses the index where there is one."""
        ...

    def nearest(
        self,
        column: str,
        vector: pa.Array,
        limit: int,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        row_id: bool = False,
    ) -> pa.Table:
        """Find the closest rows by squared L2 distance among those the filter lets through; adds `_distance`."""
        ...

    def match(
        self,
        column: str,
        text: str,
        *,
        fuzziness: int = 0,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        row_id: bool = False,
    ) -> pa.Table:
        """Search the text index only: rows that `uncovered` names are not looked at; adds `_score`.

        Without an index Lance analyses text differently, and fuzzy search never sees uncovered rows, so those
        are the caller's to evaluate with `storage.lance.text.tokens`. Scores count indexed rows only. An index that
        turns out damaged finds nothing: `uncovered` names all rows from then on.
        """
        ...

    def fragments(self) -> tuple[FragmentInfo, ...]:
        """The fragments of this version, by id."""
        ...

    def deleted(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """The offsets of the deleted rows of some fragments, ascending; reads their deletion files only."""
        ...

    def row_ids(self, addresses: pa.Array) -> pa.Array:
        """Give the lasting row ids of rows, of deleted ones too, in the order asked; asks nothing of the store."""
        ...

    def created_versions(self, addresses: pa.Array) -> pa.Array:
        """Give the versions that live rows were born in, in the order asked; as a rule asks nothing of the store."""
        ...

    def fragment_count(self) -> int:
        """How many fragments there are; asks nothing of the store."""
        ...

    def indices(self) -> tuple[IndexInfo, ...]:
        """The indices of this version, by name."""
        ...

    def uncovered(self, column: str, kind: IndexKind) -> tuple[int, ...]:
        """Fragments that no index of that kind on the column covers; all of them when there is none."""
        ...

    @property
    def damaged_segments(self) -> frozenset[str]:
        """The index segments of the graph that reads found damaged so far; what covers which rows depends on it."""
        ...

    def has_values(self, column: str, fragments: Sequence[int] | None = None) -> bool:
        """Tell whether any row, or any of some fragments, has a value: vectors are not learnt from nulls alone."""
        ...

    def auto_cleanup_keys(self) -> tuple[str, ...]:
        """Config keys that would let Lance delete versions by itself; ours never have any."""
        ...

    def explain(self, filter: Filter) -> str:
        """Lance's plan for a filter; `ScalarIndexQuery` in it means that an index answers."""
        ...

    def blob_descriptors(self, column: str, row_ids: pa.Array) -> tuple[BlobDescriptor | None, ...]:
        """What each row's blob is, in the order asked; None for a null blob."""
        ...

    def blob_bytes(self, column: str, row_ids: pa.Array) -> tuple[bytes | None, ...]:
        """Each row's blob content, in the order asked; external URIs are read."""
        ...


class Tables(Protocol):
    """Reads and staged writes of node and edge tables. Only `commit_staged` and `restore` move a HEAD."""

    def create(self, path: str, schema: pa.Schema) -> TableAt:
        """Create an empty table at version 1; `TableExists` when there is one."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a table is there; a failure to look is an error, not a no."""
        ...

    def delete_table(self, path: str) -> None:
        """Remove a table with all its versions and branches; nothing to do when it is gone."""
        ...

    def head(self, path: str, branch: str | None) -> Version:
        """Read the newest version; one cheap probe."""
        ...

    def is_newest(self, at: TableAt) -> bool:
        """Tell whether nothing was committed after a version that is pinned; one cheap probe."""
        ...

    def open(self, at: TableAt) -> Table:
        """Open one version; a version opened before costs nothing."""
        ...

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        """Let go of opened versions: all, those of a path, those of a branch on any path, or of both."""
        ...

    def write(self, at: TableAt, data: Data, *, row_ids: pa.Array | None = None) -> Written:
        """Write fragments for a later `stage_written` or `stage_update`; may run in any process.

        `row_ids` are those of the leading rows: new copies of rows that the same update removes.
        """
        ...

    def copy(self, at: TableAt, source: TableAt, fragments: Sequence[int]) -> Written | None:
        """Copy whole fragments of another line for a later `stage_append`, file by file; no row is read.

        None when the rows must be written instead: some of them are deleted, or the files mean something else here.
        """
        ...

    def stage_written(
        self, at: TableAt, written: Sequence[Written], *, overwrite: bool = False
    ) -> Staged:
        """Describe the append (or overwrite) of fragments that workers wrote."""
        ...

    def stage_update(self, at: TableAt, written: Sequence[Written], addresses: pa.Array) -> Staged:
        """Describe one commit in which rows at these addresses go and written ones come.

        The upsert of a source too large for one process: keys are joined with `_rowaddr` and `_rowid` elsewhere.
        """
        ...

    def are_scattered(self, at: TableAt, addresses: pa.Array, *, appending: bool) -> bool:
        """Tell whether rows lie so far apart that an append and a takeover cost less than one update of them.

        `appending` says that there is an append before it in any case.
        """
        ...

    def stage_takeover(
        self,
        at: TableAt,
        written: Written,
        successors: Successors,
        addresses: pa.Array,
        *,
        like: TableAt | None = None,
    ) -> Staged:
        """Describe a commit in which rows at these addresses go, and rows of the append before it become their heirs.

        Between the two both are there, so that nobody may see the version in between; this is called under the turn
        of the table. `like` is a version that may lack the same rows: then its deletion files serve here too.
        """
        ...

    def mark(self, at: TableAt, addresses: pa.Array) -> tuple[Marked, ...]:
        """Mark rows deleted for a later `stage_marked`; may run in any process, but one fragment in one only."""
        ...

    def stage_marked(
        self, at: TableAt, written: Sequence[Written], marked: Sequence[Marked]
    ) -> Staged:
        """Describe one commit in which rows that workers marked go and rows that they wrote come."""
        ...

    def stage_append(
        self, at: TableAt, data: Data | None, *, parts: Sequence[Written] = ()
    ) -> Staged:
        """Stage new rows, and parts that were written or copied; refuses neither. Streams are not held in memory."""
        ...

    def stage_merge(
        self, at: TableAt, rows: pa.Table, *, deletes: pa.Array | None = None
    ) -> Staged:
        """Stage an upsert of whole rows by `id`, and in the same commit the removal of others.

        Refuses no rows, null ids and repeated ids; ids to delete that are not there are passed over.
        """
        ...

    def stage_overwrite(self, at: TableAt, data: Data) -> Staged:
        """Stage the replacement of all rows; the data's schema becomes the table's; none is valid."""
        ...

    def stage_delete(
        self, at: TableAt, ids: pa.Array, *, addresses: pa.Array | None = None
    ) -> Staged | None:
        """Stage the removal of rows by `id`; None when no row has one of them.

        `addresses` says where they lie, when that is known.
        """
        ...

    def check_indices(self, at: TableAt, noted: Mapping[str, str]) -> tuple[IndexInfo, ...]:
        """Compare the files of every index with what was noted; one that cannot be used is `damaged` for reads too.

        One listing of the table. `noted` are digests by the keys of files; an index with a file that has none is
        opened instead, which does not notice every damage.
        """
        ...

    def needed_files(self, at: TableAt) -> Mapping[str, int | None]:
        """The data and deletion files of a version, and its index segments with a slash at the end; and their bytes.

        Paths are relative to the graph root.
        """
        ...

    def listed_files(self, path: str) -> Mapping[str, int]:
        """Every file in the directory of a table, by its path from the graph root, and its bytes; one listing."""
        ...

    def digest(self, path: str) -> str | None:
        """Read a file and give its digest; None where a file is not worth a request."""
        ...

    def stage_indices(
        self, at: TableAt, specs: Sequence[IndexSpec], workers: Workers | None = None
    ) -> Staged | None:
        """Stage one commit that builds all of them, here or by many hands; None when there is nothing to build.

        An index that is known as damaged is built anew as a whole, and its segments go.
        """
        ...

    def stage_release(self, at: TableAt) -> Staged | None:
        """Stage the removal of index segments that keep small fragments apart; None when nothing is gained by it.

        Fragments under different segments are never rewritten together. A segment goes only when all it covers
        will be rewritten, and so indexed anew, anyway.
        """
        ...

    def stage_compaction(
        self, at: TableAt, rows_max: int | None = None, workers: Workers | None = None
    ) -> Staged | None:
        """Stage a rewrite of small and holey fragments, here or by many hands; None when there is nothing to gain.

        With `rows_max` only fragments smaller than that are rewritten, and holes in others are left.
        """
        ...

    def do(self, task: MaintenanceTask) -> bytes:
        """Do a chore that a `stage_` call elsewhere cut; the answer goes back there."""
        ...

    def stage_columns(self, at: TableAt, changes: Sequence[ColumnChange]) -> Staged:
        """Stage added, dropped and renamed columns without rewriting data.

        One step cannot add a column under a name that the base has, not even when it drops or renames that one.
        """
        ...

    def stage_settings(self, at: TableAt) -> Staged | None:
        """Stage the removal of auto-cleanup keys; None when there are none."""
        ...

    def commit_staged(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        lock: CommitLock | None,
    ) -> Landed:
        """Move HEAD from the staged base to the next version, or raise.

        `HeadMoved`: HEAD was elsewhere, nothing landed. `Interleaved`: it landed on another commit than its base.
        """
        ...

    def restore(
        self,
        path: str,
        branch: str | None,
        version: Version,
        *,
        expected_head: Version,
        operation_id: OperationId,
        actor: str | None = None,
        lock: CommitLock | None,
    ) -> Landed:
        """Move HEAD forward to a copy of an earlier version, only if HEAD is exactly `expected_head`."""
        ...

    def fork(self, at: TableAt, branch: str) -> TableAt:
        """Create a Lance branch at `at`; `ForkExists` tells a live ref from a leftover tree."""
        ...

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        """The Lance branches of a table, by name."""
        ...

    def drop_fork(self, path: str, branch: str) -> None:
        """Remove a Lance branch, its ref first; nothing to do when it is gone."""
        ...

    def drop_tree(self, path: str, branch: str) -> None:
        """Remove the files of a branch that has no ref; refuses when it has one."""
        ...

    def transactions(
        self, path: str, branch: str | None, after: Version, upto: Version
    ) -> tuple[TransactionInfo, ...]:
        """The commits in (after, upto], oldest first."""
        ...

    def versions(self, path: str, branch: str | None = None) -> tuple[VersionInfo, ...]:
        """The versions of one line of a table that can still be read, oldest first."""
        ...

    def sizes(self, path: str) -> Mapping[str | None, int]:
        """The bytes of a table's main line (None) and of every branch tree, with a ref or without; one listing."""
        ...

    def reclaim(
        self,
        path: str,
        versions: Sequence[Version],
        *,
        branch: str | None = None,
        dry_run: bool,
    ) -> Reclaimed:
        """Remove versions of one line of a table and the files only they use; with `dry_run`, say what would go.

        HEAD and versions that forks stand on are kept, and so are files of no version that are younger than a week.
        """
        ...
