"""The seam to node and edge tables: the protocols that storage implements."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.values import (
    BranchRef,
    ColumnChange,
    Data,
    Draft,
    Filter,
    FragmentInfo,
    IndexInfo,
    IndexKind,
    IndexSpec,
    Landed,
    MaintenanceTask,
    Marked,
    NeededFile,
    Offsets,
    Reclaimed,
    Staged,
    Successors,
    TableAt,
    TransactionInfo,
    VersionContents,
    VersionInfo,
    Written,
)


class Workers(Protocol):
    """Processes that do maintenance tasks."""

    @property
    def count(self) -> int:
        """Into how many tasks a long piece of work is worth cutting."""
        ...

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """Give the result of `Tables.do` for each task, in order."""
        ...


class CommitLock(Protocol):
    """The part of `storage.locks.table.TableLock` that `commit_staged` needs."""

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
        """The field id of every column: a rename keeps it, a dropped and re-added name gets another."""
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
        bounded: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream rows; `columns=()` with `row_id` or `row_address` reads no column at all.

        `bounded` reads one fragment at a time and little ahead: slower from afar, in memory that does not grow with the table.

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
        """Find the closest rows by squared L2 distance among the rows that pass the filter; adds `_distance`.

        An index gives entries of deleted rows, and of former vectors, as well, until it is built again.
        """
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
        """Search the text index only, without the rows of `uncovered` fragments; adds `_score`.

        Without an index Lance analyses text differently, and fuzzy search never sees uncovered rows. So the caller
        evaluates those with `storage.lance.search.tokens`. Scores count indexed rows only. A damaged index finds
        nothing: `uncovered` names all fragments from then on. Rows that were deleted, and former texts of rows that were
        updated, are found as well, until the index is built again.
        """
        ...

    def fragments(self) -> tuple[FragmentInfo, ...]:
        """List the fragments of this version, by id."""
        ...

    def deleted(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """List the offsets of the deleted rows of some fragments, ascending; only their deletion files are read."""
        ...

    def row_ids(self, addresses: pa.Array) -> pa.Array:
        """Give the row ids of rows, of deleted ones too, in the order asked; sends no request to the store."""
        ...

    def created_versions(self, addresses: pa.Array) -> pa.Array:
        """Give the versions in which live rows were created, in the order asked; mostly sends no request."""
        ...

    def fragment_count(self) -> int:
        """Count the fragments; sends no request to the store."""
        ...

    def indices(self) -> tuple[IndexInfo, ...]:
        """List the indices of this version, by name."""
        ...

    def uncovered(self, column: str, kind: IndexKind) -> tuple[int, ...]:
        """List the fragments that no index of that kind on the column covers; all of them without such an index."""
        ...

    @property
    def damaged_segments(self) -> frozenset[str]:
        """The damaged index segments that reads of this graph found so far; they cover no rows."""
        ...

    def has_values(self, column: str, fragments: Sequence[int] | None = None) -> bool:
        """Tell whether any row, or any row of some fragments, has a value: a vector index cannot learn from nulls."""
        ...

    def auto_cleanup_keys(self) -> tuple[str, ...]:
        """List config keys that let Lance delete versions by itself; tables of OmniGraph never have any."""
        ...

    def explain(self, filter: Filter) -> str:
        """Give Lance's plan for a filter; `ScalarIndexQuery` in it means that an index answers."""
        ...

    def blob_range(self, column: str, row_id: int, start: int, length: int) -> bytes:
        """Read part of one row's managed blob; the part lies inside the blob."""
        ...


class Tables(Protocol):
    """Reads and staged writes of node and edge tables. Only `commit_staged` and `restore` move a HEAD."""

    def create(self, path: str, schema: pa.Schema) -> TableAt:
        """Create an empty table at version 1; `TableExists` when there is one."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a table exists; a failed look-up is an error, not a no."""
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

    def has_landed(self, at: TableAt) -> bool:
        """Tell whether this handle's own last commit of a table made a version, where a look would be a request."""
        ...

    def open(self, at: TableAt) -> Table:
        """Open one version; a version opened before costs nothing."""
        ...

    def read_attached_file(
        self, path: str, name: str, *, mapped: bool = False
    ) -> memoryview | None:
        """Read a file beside a table that is not a part of it, or map a large one; None when it does not exist."""
        ...

    def write_attached_file(self, path: str, name: str, data: bytes) -> None:
        """Keep a file beside a table, instead of an earlier one; it goes with the table."""
        ...

    def delete_attached_file(self, path: str, name: str) -> None:
        """Remove a file that is kept beside a table, if there is one."""
        ...

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        """Drop opened versions: all, those of a path, those of a branch on any path, or of both."""
        ...

    def write(self, at: TableAt, data: Data, *, row_ids: pa.Array | None = None) -> Written:
        """Write fragments for a later `stage_written` or `stage_update`; may run in any process.

        `row_ids` are those of the leading rows: new copies of rows that the same update removes.
        """
        ...

    def takes_over(self, replaced: int) -> bool:
        """Tell whether workers that replace so many rows use `write_successors`, for an append and a takeover.

        One commit of all of them would hold some bytes of each replaced row in the process that commits.
        """
        ...

    def write_successors(self, at: TableAt, data: Data, successors: Successors) -> Written:
        """Write rows that replace others for a later `stage_written` and `stage_marked_takeover`; may run in any process.

        All rows are successors, by row id, so that their ids take little space in the manifest.
        """
        ...

    def read_written(self, at: TableAt, written: Written, columns: Sequence[str]) -> pa.Table:
        """Read plain columns of fragments that `write` wrote beside a version and no one committed."""
        ...

    def copy(self, at: TableAt, source: TableAt, fragments: Sequence[int]) -> Written | None:
        """Copy whole fragments of another branch for a later `stage_append`, file by file; no row is read.

        None when the rows must be written instead: some are deleted, or the schemas of the branches differ.
        """
        ...

    def stage_written(
        self, at: TableAt, written: Sequence[Written], *, overwrite: bool = False
    ) -> Staged:
        """Describe the append (or overwrite) of fragments that workers wrote."""
        ...

    def stage_update(self, at: TableAt, written: Sequence[Written], addresses: pa.Array) -> Staged:
        """Describe one commit that removes the rows at these addresses and adds written ones.

        This is the upsert of a source too large for one process: the caller joins keys with `_rowaddr` and `_rowid`.
        """
        ...

    def are_scattered(self, at: TableAt, addresses: pa.Array, *, appending: bool) -> bool:
        """Tell whether rows lie so far apart that an append and a takeover cost less than one update.

        `appending` says that the caller appends in any case.
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
        """Describe a commit that removes the rows at these addresses and makes rows of the append before it successors.

        The version between the two commits holds both, so that it must not become visible; the caller holds the lock
        of the table. `like` is a version in which the same rows may be deleted: then its deletion files are reused.
        """
        ...

    def mark(self, at: TableAt, addresses: pa.Array) -> tuple[Marked, ...]:
        """Mark rows deleted for a later `stage_marked`; may run in any process, but one fragment in one only."""
        ...

    def stage_marked(
        self, at: TableAt, written: Sequence[Written], marked: Sequence[Marked]
    ) -> Staged:
        """Describe one commit that removes the rows that workers marked and adds the rows that they wrote."""
        ...

    def stage_marked_takeover(
        self, at: TableAt, written: Sequence[Written], marked: Sequence[Marked]
    ) -> Staged:
        """Describe the commit after the append of written rows: successors take the place of the rows that workers marked.

        As with `stage_takeover`, the version between the two commits must not become visible.
        """
        ...

    def stage_append(
        self, at: TableAt, data: Data | None, *, parts: Sequence[Written] = ()
    ) -> Staged:
        """Stage new rows, and parts that were written or copied; refuses neither. A stream is not kept in memory."""
        ...

    def reuse_appends(
        self, unused: Sequence[tuple[Staged, pa.Table]]
    ) -> AbstractContextManager[None]:
        """Let appends of the same rows use the files of staged appends that will never be committed, in the block only."""
        ...

    def stage_merge(
        self, at: TableAt, rows: pa.Table, *, deletes: pa.Array | None = None
    ) -> Staged:
        """Stage an upsert of whole rows by `id`, and in the same commit the removal of others.

        Refuses an empty table, null ids and repeated ids; ignores ids to delete that no row has.
        """
        ...

    def stage_overwrite(self, at: TableAt, data: Data) -> Staged:
        """Stage the replacement of all rows; the data's schema becomes the table's; data without rows is valid."""
        ...

    def stage_delete(
        self, at: TableAt, ids: pa.Array, *, addresses: pa.Array | None = None
    ) -> Staged | None:
        """Stage the removal of rows by `id`; None when no row has one of them.

        `addresses` are those of the rows, when the caller knows them.
        """
        ...

    def check_indices(self, at: TableAt, noted: Mapping[str, str]) -> tuple[IndexInfo, ...]:
        """Compare the files of every index with recorded digests; reads no longer use an index that differs.

        One listing of the table. `noted` are digests by the keys of files. An index with a file without a digest is
        opened instead, which does not detect every damage.
        """
        ...

    def needed_files(self, at: TableAt) -> Mapping[str, int | None]:
        """List the data and deletion files of a version, and its index segments with a slash at the end, with their bytes.

        Paths are relative to the graph root.
        """
        ...

    def read_contents(self, at: TableAt) -> VersionContents:
        """Read the manifest of a version anew, without a cache: its rows, and its files."""
        ...

    def find_unreadable(self, path: str, file: NeededFile) -> str | None:
        """Describe the error of reading a file that has no digest; None when it can be read.

        A deletion file and a file of the manifest are read whole, and the end of a file of rows.
        """
        ...

    def version_files(self, path: str, branch: str | None) -> Mapping[Version, str]:
        """List the manifest files of one branch of a table by version, without opening them."""
        ...

    def hinted_version(self, path: str, branch: str | None) -> Version:
        """Read the version that was noted as the newest of a branch, which may be older than that; 0 when there is none."""
        ...

    def version_file(self, path: str, branch: str | None, version: Version) -> str:
        """Name the manifest file of a version, by its path from the graph root."""
        ...

    def find_cut(self, at: TableAt) -> str | None:
        """Describe a file of rows of a version that the local disk does not hold whole; None when there is none.

        An object store takes an object whole or not at all, and is not asked.
        """
        ...

    def listed_files(self, path: str) -> Mapping[str, int]:
        """List every file in the directory of a table by its path from the graph root, with its bytes; one listing."""
        ...

    def digest(self, path: str) -> str | None:
        """Read a local file and give its digest; None on an object store."""
        ...

    def stage_indices(
        self, at: TableAt, specs: Sequence[IndexSpec], workers: Workers | None = None
    ) -> Staged | None:
        """Stage one commit that builds all of them, here or by workers; None when there is nothing to build.

        A damaged index is built anew as a whole, and its segments are removed.
        """
        ...

    def stage_release(self, at: TableAt) -> Staged | None:
        """Stage the removal of index segments that keep small fragments apart; None when there is nothing to gain.

        Compaction never rewrites fragments of different segments together. A segment is removed only when compaction
        rewrites all fragments that it covers.
        """
        ...

    def stage_compaction(
        self, at: TableAt, rows_max: int | None = None, workers: Workers | None = None
    ) -> Staged | None:
        """Stage a rewrite of small fragments and fragments with deleted rows, here or by workers; None without a gain.

        With `rows_max` only fragments with fewer rows are rewritten, and deleted rows in other fragments stay.
        """
        ...

    def do(self, task: MaintenanceTask) -> bytes:
        """Do a task of a `stage_` call of another process, and give the result for it."""
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

        `HeadMoved`: HEAD is not the base, nothing landed. `Interleaved`: it landed on another commit than its base.
        """
        ...

    def move_append(self, staged: Staged, at: TableAt) -> Staged:
        """Describe a staged append on another version of its table, with the same columns; its files stay."""
        ...

    def draft_commit(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        land: Callable[[], None],
    ) -> Draft | None:
        """Make the version after the staged base without moving HEAD; None where it has to be committed.

        The base may be a draft itself. `land` is called when somebody opens the draft before it is landed.
        """
        ...

    def land_drafts(self, drafts: Sequence[Draft]) -> None:
        """Move HEADs through the versions of drafts, in any order; `HeadMoved` and `StorageError` leave some of them moved."""
        ...

    def drop_drafts(self, drafts: Sequence[Draft]) -> None:
        """Forget drafts: nothing of them is left."""
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
        """Create a Lance branch at `at`; `ForkExists` distinguishes a ref from a leftover tree."""
        ...

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        """List the Lance branches of a table, by name."""
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
        """Read the commits in (after, upto], oldest first."""
        ...

    def versions(self, path: str, branch: str | None = None) -> tuple[VersionInfo, ...]:
        """List the versions of one branch of a table that can still be read, oldest first."""
        ...

    def sizes(self, path: str) -> Mapping[str | None, int]:
        """Sum the bytes of a table's main branch (None) and of every branch tree, with a ref or without; one listing."""
        ...

    def reclaim(
        self,
        path: str,
        versions: Sequence[Version],
        *,
        branch: str | None = None,
        dry_run: bool,
    ) -> Reclaimed:
        """Remove versions of one branch of a table and the files only they use; with `dry_run`, only count them.

        Keeps HEAD, versions that branches forked from, and files of no version that are younger than a week.
        """
        ...
