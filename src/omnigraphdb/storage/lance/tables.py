"""Node and edge tables on Lance: reads, staged changes, and the two calls that move a HEAD."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Final, cast

import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraphdb.errors import EngineError, HeadMoved, InternalError, OmniError, StorageError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.limits import (
    DELETIONS_CACHED_MAX,
    REPLACED_ROWS_MAX,
    SPAN_ROWS_DISTANT_MAX,
    SPAN_ROWS_MAX,
    TABLE_HANDLES_MAX,
    UNUSED_APPENDS_MAX,
)
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.lance import branches, columns, commit, files, index, index_tasks, stage
from omnigraphdb.storage.lance.compact import compact, releasable
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.deletions import CachedDeletions, DeletionReads, ReadableDeletions
from omnigraphdb.storage.lance.digests import (
    Digests,
    digest_file,
    digest_key,
    digest_new_files,
)
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.lance.index_damage import DamagedSegments
from omnigraphdb.storage.lance.new_files import (
    data_files,
    find_cut_end,
    find_cut_file,
    find_cut_index_file,
    find_wrong_deletions,
    make_cut_error,
    new_files,
    require_whole,
)
from omnigraphdb.storage.lance.physical import physical
from omnigraphdb.storage.lance.restores import Restores
from omnigraphdb.storage.lance.row_files import read_row_batches, read_row_file
from omnigraphdb.storage.lance.table import LanceTable, auto_cleanup_keys
from omnigraphdb.storage.lance.unofficial.copies import copy_fragments
from omnigraphdb.storage.lance.unofficial.shared_deletions import DeletionSource
from omnigraphdb.storage.lance.unofficial.version_files import HINT, list_versions, version_file
from omnigraphdb.storage.layout import MANIFEST, RECLAIMED, branch_path
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.tables import CommitLock, Workers
from omnigraphdb.storage.values import (
    BranchRef,
    ColumnChange,
    Data,
    Draft,
    IndexInfo,
    IndexKind,
    IndexSpec,
    Landed,
    MaintenanceTask,
    Marked,
    NeededFile,
    Reclaimed,
    Staged,
    StagedKind,
    Successors,
    TableAt,
    TransactionInfo,
    VersionContents,
    VersionInfo,
    Written,
)

OPENING: Final = "omnigraph-open"
"""The name of the threads that open a version for its next reader."""

_AppendPosition = tuple[str, str | None, str]


def _append_position(at: TableAt, rows: pa.Table) -> _AppendPosition:
    """Identify an append by its table, its branch and the id of its first row."""
    first = str(rows["id"][0].as_py()) if rows.num_rows else ""
    return (at.path, at.branch, first)


class LanceTables:
    """The tables under one graph root."""

    def __init__(self, datasets: Datasets, objects: Objects, conditions: Conditions) -> None:
        self._datasets = datasets
        self._objects = objects
        self._conditions = conditions
        self._restores = Restores(objects, conditions)
        self._opened: Recent[TableAt, LanceTable] = Recent(TABLE_HANDLES_MAX)
        self._landed: Recent[tuple[str, str | None], Version] = Recent(TABLE_HANDLES_MAX)
        self._deletions: CachedDeletions = Recent(DELETIONS_CACHED_MAX)
        self._readable: ReadableDeletions = Recent(DELETIONS_CACHED_MAX)
        self._damaged = DamagedSegments()
        self._unused: Recent[_AppendPosition, tuple[Staged, pa.Table]] = Recent(UNUSED_APPENDS_MAX)

    # ---- whole tables

    def create(self, path: str, schema: pa.Schema) -> TableAt:
        """Create an empty table at version 1; `TableExists` when there is one."""
        with translate_faults(StoreAction.CREATE, self._datasets.location(path, None)):
            # With retries Lance would overwrite a table that a rival has just created.
            created = LanceDataset.commit(
                self._datasets.uri(path),
                LanceOperation.Overwrite(physical(schema), []),
                storage_options=self._datasets.options,
                enable_stable_row_ids=True,
                max_retries=0,
            )
        return TableAt(path=path, branch=None, version=Version(created.version))

    def exists(self, path: str) -> bool:
        """Tell whether a table is there."""
        return self._datasets.exists(path)

    def delete_table(self, path: str) -> None:
        """Remove a table with all its versions and branches."""
        branches.remove(self._datasets, self._objects, path, ("_versions", ""))
        self.forget(path)

    def head(self, path: str, branch: str | None) -> Version:
        """Read the newest version; one cheap probe."""
        return self._datasets.head(path, branch)

    def is_newest(self, at: TableAt) -> bool:
        """Tell whether nothing was committed after a version that is pinned; one cheap probe."""
        return self._datasets.is_newest(at)

    def has_landed(self, at: TableAt) -> bool:
        """Tell whether this handle's own last commit of a table made a version, where a look would be a request."""
        is_distant = self._datasets.root.is_distant
        return is_distant and self._landed.get((at.path, at.branch)) == at.version

    def open(self, at: TableAt) -> LanceTable:
        """Open one version; a version opened before costs nothing."""
        opened = self._opened.get(at)
        if opened is not None:
            return opened
        deletions = DeletionReads(
            at, self._datasets, self._objects, self._deletions, self._readable
        )
        return self._opened.put(at, LanceTable(at, self._datasets, deletions, self._damaged))

    def read_attached_file(
        self, path: str, name: str, *, mapped: bool = False
    ) -> memoryview | None:
        """Read a file beside a table that is not a part of it, or map a large one; None when it does not exist."""
        location = f"{path}/{name}"
        if mapped:
            return self._objects.map_bytes(location)
        data = self._objects.read_bytes(location)
        return None if data is None else memoryview(data)

    def write_attached_file(self, path: str, name: str, data: bytes) -> None:
        """Keep a file beside a table, instead of an earlier one."""
        self._objects.put_bytes(f"{path}/{name}", data)

    def delete_attached_file(self, path: str, name: str) -> None:
        """Remove a file that is kept beside a table, if there is one."""
        self._objects.delete(f"{path}/{name}")

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        """Drop opened versions: all, those of a path, those of a branch, or of both."""
        self._datasets.forget(path, branch)
        self._opened.drop(lambda at: path in (None, at.path) and branch in (None, at.branch))
        self._landed.drop(lambda line: path in (None, line[0]) and branch in (None, line[1]))

    def transactions(
        self, path: str, branch: str | None, after: Version, upto: Version
    ) -> tuple[TransactionInfo, ...]:
        """Read the commits in (after, upto], oldest first."""
        return commit.transaction_infos(self._datasets, path, branch, after, upto)

    def versions(self, path: str, branch: str | None = None) -> tuple[VersionInfo, ...]:
        """List the versions of one branch of a table that can still be read, oldest first."""
        return files.versions(self._datasets, path, branch)

    def sizes(self, path: str) -> Mapping[str | None, int]:
        """Sum the bytes of a table's main branch and of every branch tree."""
        return files.sizes(self._datasets, path)

    def reclaim(
        self,
        path: str,
        versions: Sequence[Version],
        *,
        branch: str | None = None,
        dry_run: bool,
    ) -> Reclaimed:
        """Remove versions of one branch of a table and the files that only they use."""
        if versions and not dry_run:
            # A reader that misses a version later knows that it may have been removed on purpose.
            self._objects.put(RECLAIMED, json.dumps({"path": path, "branch": branch}))
        reclaimed = files.reclaim(self._datasets, path, branch, versions, dry_run=dry_run)
        if not dry_run:
            # Handles of removed versions would fail late and unclear.
            self.forget(path)
        return reclaimed

    # ---- staged rows

    def write(self, at: TableAt, data: Data, *, row_ids: pa.Array | None = None) -> Written:
        """Write fragments for a later `stage_written` or `stage_update`; may run in any process."""
        base = self._base(at)
        fragments = stage.write(base, data, base.table.schema, row_ids=row_ids)
        return stage.receipt(base, fragments)

    def takes_over(self, replaced: int) -> bool:
        """Tell whether workers that replace so many rows write them for an append and a takeover."""
        return replaced > REPLACED_ROWS_MAX and self._datasets.unofficial

    def write_successors(self, at: TableAt, data: Data, successors: Successors) -> Written:
        """Write rows that are appended first and take the place of others in the commit after it."""
        base = self._base(at)
        fragments = stage.write(base, data, base.table.schema)
        return replace(
            stage.receipt(base, fragments), inherited=stage.inherit(fragments, successors)
        )

    def read_written(self, at: TableAt, written: Written, columns: Sequence[str]) -> pa.Table:
        """Read plain columns of fragments that `write` wrote beside a version and nobody committed."""
        files = data_files(stage.decode_fragments([written]))
        directory = branch_path(at.path, at.branch)
        parts = [
            read_row_file(self._datasets, f"{directory}/{file.name}", columns) for file in files
        ]
        return pa.concat_tables([part.select(columns) for part in parts])

    def copy(self, at: TableAt, source: TableAt, fragments: Sequence[int]) -> Written | None:
        """Copy the files of fragments of another branch for a later `stage_written`; None when rows must be written."""
        if self._datasets.root.is_memory or not self._datasets.unofficial:
            return None
        with self._writing(at):
            dataset = self._datasets.at(source)
            location = self._datasets.location(at.path, at.branch, at.version)
            return copy_fragments(
                self._objects,
                self._datasets.runtime,
                self.open(at),
                self.open(source),
                dataset,
                fragments,
                location,
            )

    def stage_written(
        self, at: TableAt, written: Sequence[Written], *, overwrite: bool = False
    ) -> Staged:
        """Describe the append (or overwrite) of fragments that workers wrote."""
        change = stage.describe_append(self._base(at), written, replacing=overwrite)
        return self._staged(at, StagedKind.OVERWRITE if overwrite else StagedKind.APPEND, change)

    def stage_update(self, at: TableAt, written: Sequence[Written], addresses: pa.Array) -> Staged:
        """Describe one commit in which rows at these addresses go and written ones come."""
        change = stage.update(self._base(at), written, addresses)
        record(Cost.STAGE_MERGE)
        record(Cost.STAGE_MERGE_ROWS, change.added)
        return self._staged(at, StagedKind.MERGE, change)

    def are_scattered(self, at: TableAt, addresses: pa.Array, *, appending: bool) -> bool:
        """Tell whether rows lie so far apart that an append and a takeover cost less than one update of them."""
        fragments = addresses.to_numpy(zero_copy_only=False) >> np.uint64(32)
        if not len(fragments) or not self._datasets.unofficial:
            return False
        low, high = int(fragments.min()), int(fragments.max())
        row_count = sum(f.physical_rows for f in self.open(at).fragments() if low <= f.id <= high)
        if self._datasets.root.is_distant:
            return row_count > SPAN_ROWS_DISTANT_MAX
        return appending or row_count > SPAN_ROWS_MAX

    def stage_takeover(
        self,
        at: TableAt,
        written: Written,
        successors: Successors,
        addresses: pa.Array,
        *,
        like: TableAt | None = None,
    ) -> Staged:
        """Describe a commit in which rows at these addresses go, and rows of the append before it become their successors."""
        assert self._datasets.unofficial, "without the switch rows are updated, and none take over"
        source = None if like is None else DeletionSource(self._datasets.at(like), self.open(like))
        change = stage.takeover(self._base(at), [written], successors, addresses, source)
        record(Cost.STAGE_MERGE)
        record(Cost.STAGE_MERGE_ROWS, change.added)
        return self._staged(at, StagedKind.MERGE, change)

    def mark(self, at: TableAt, addresses: pa.Array) -> tuple[Marked, ...]:
        """Mark rows deleted for a later `stage_marked`; may run in any process."""
        return stage.mark(self._base(at), addresses)

    def stage_marked(
        self, at: TableAt, written: Sequence[Written], marked: Sequence[Marked]
    ) -> Staged:
        """Describe one commit in which rows that workers marked go and rows that they wrote come."""
        change = stage.describe_update(self._base(at), written, marked)
        record(Cost.STAGE_MERGE)
        record(Cost.STAGE_MERGE_ROWS, change.added)
        return self._staged(at, StagedKind.MERGE, change)

    def stage_marked_takeover(
        self, at: TableAt, written: Sequence[Written], marked: Sequence[Marked]
    ) -> Staged:
        """Describe the commit after the append of written rows, in which successors take the place of marked rows."""
        change = stage.describe_takeover(self._base(at), written, marked)
        record(Cost.STAGE_MERGE)
        record(Cost.STAGE_MERGE_ROWS, change.added)
        return self._staged(at, StagedKind.MERGE, change)

    def stage_append(
        self, at: TableAt, data: Data | None, *, parts: Sequence[Written] = ()
    ) -> Staged:
        """Stage new rows; refuses none."""
        written = None if parts else self._take_unused(at, data)
        change = written or stage.append(self._base(at), data, parts)
        record(Cost.STAGE_APPEND)
        record(Cost.STAGE_APPEND_ROWS, change.added)
        return self._staged(at, StagedKind.APPEND, change)

    def move_append(self, staged: Staged, at: TableAt) -> Staged:
        """Describe a staged append on another version of its table, with the same columns; its files stay."""
        before = cast(Transaction, staged.transaction)
        transaction = Transaction(at.version, before.operation)
        return replace(staged, at=at, uuid=transaction.uuid, transaction=transaction)

    @contextmanager
    def reuse_appends(self, unused: Sequence[tuple[Staged, pa.Table]]) -> Iterator[None]:
        """Let appends of the same rows use the files of staged appends that will never be committed, in the block only."""
        appends = {
            _append_position(staged.at, rows): (staged, rows)
            for staged, rows in unused
            if staged.kind is StagedKind.APPEND
        }
        for position, append in appends.items():
            self._unused.put(position, append)
        try:
            yield
        finally:
            for position in appends:
                self._unused.pop(position)

    def _take_unused(self, at: TableAt, data: Data | None) -> stage.Change | None:
        """Describe an append by files that were written for the same rows; nobody else uses them."""
        if not isinstance(data, pa.Table) or not len(self._unused):
            return None
        staged, rows = self._unused.pop(_append_position(at, data)) or (None, None)
        if staged is None or rows is None or not rows.equals(data):
            return None
        if self.open(staged.at).schema != self.open(self._base_of(at)).schema:
            return None
        operation = cast(Transaction, staged.transaction).operation
        return stage.Change(operation=operation, added=staged.rows_added, digests=staged.digests)

    def _base_of(self, at: TableAt) -> TableAt:
        """Return a version that is in the store and has the same columns: drafts only append."""
        drafts = self._datasets.drafts
        return at if drafts is None else drafts.base_of(at)

    def stage_merge(
        self, at: TableAt, rows: pa.Table, *, deletes: pa.Array | None = None
    ) -> Staged:
        """Stage an upsert of whole rows by `id`, and in the same commit the removal of others."""
        doomed = deletes if deletes is not None else pa.array([], pa.string())
        change = stage.merge(self._base(at), rows, doomed)
        record(Cost.STAGE_MERGE)
        record(Cost.STAGE_MERGE_ROWS, change.added)
        return self._staged(at, StagedKind.MERGE, change)

    def stage_overwrite(self, at: TableAt, data: Data) -> Staged:
        """Stage the replacement of all rows."""
        change = stage.overwrite(self._base(at), data)
        record(Cost.STAGE_OVERWRITE)
        return self._staged(at, StagedKind.OVERWRITE, change)

    def stage_delete(
        self, at: TableAt, ids: pa.Array, *, addresses: pa.Array | None = None
    ) -> Staged | None:
        """Stage the removal of rows by `id`; None when no row has one of them."""
        change = stage.delete(self._base(at), ids, addresses)
        if change is None:
            return None
        record(Cost.STAGE_DELETE)
        return self._staged(at, StagedKind.DELETE, change)

    # ---- staged shape

    def check_indices(self, at: TableAt, noted: Mapping[str, str]) -> tuple[IndexInfo, ...]:
        """Compare the files of every index with the noted digests; an unusable index is `damaged` for reads too."""
        return self.open(at).check_indices(files.segment_files(self._datasets, at.path), noted)

    def needed_files(self, at: TableAt) -> Mapping[str, int | None]:
        """List data and deletion files of a version, and index segments with a slash at the end, with their bytes."""
        with translate_faults(StoreAction.READ, self._datasets.location_of(at)):
            needed = files.needed_files(self._datasets.at(at), at)
        return {path: file.bytes for path, file in needed.items()}

    def read_contents(self, at: TableAt) -> VersionContents:
        """Read the manifest of a version anew: its rows, and its files."""
        return files.read_contents(self._datasets, at)

    def find_unreadable(self, path: str, file: NeededFile) -> str | None:
        """Read a file that has no digest, and describe the error of the read; None when it succeeds."""
        try:
            if file.deletions is not None:
                data = self._objects.read_bytes(path)
                return None if data is None else find_wrong_deletions(data, *file.deletions)
            if path.startswith(f"{MANIFEST}/"):
                for _ in read_row_batches(self._datasets, path):
                    pass
            return find_cut_end(self._datasets.root, path)
        except (StorageError, EngineError, InternalError) as error:
            return str(error)

    def version_files(self, path: str, branch: str | None) -> Mapping[Version, str]:
        """List the manifest files of one branch of a table by version, without opening them."""
        # Lance keeps the files of a memory root in a memory of its own.
        if self._datasets.unofficial and not self._datasets.root.is_memory:
            listed = list_versions(self._objects, branch_path(path, branch))
        else:
            listed = files.versions(self._datasets, path, branch)
        return {info.version: self.version_file(path, branch, info.version) for info in listed}

    def hinted_version(self, path: str, branch: str | None) -> Version:
        """Read the version that Lance noted as the newest of a branch, which may be older than that; 0 when there is none."""
        try:
            text = self._objects.read(f"{branch_path(path, branch)}/{HINT}")
            return Version(0 if text is None else int(json.loads(text)["version"]))
        except (OmniError, ValueError, LookupError, TypeError):
            return Version(0)

    def version_file(self, path: str, branch: str | None, version: Version) -> str:
        """Name the manifest file of a version, by its path from the graph root."""
        return version_file(branch_path(path, branch), version)

    def find_cut(self, at: TableAt) -> str | None:
        """Describe a file of rows of a version that the local disk does not hold whole; None when all are whole."""
        root = self._datasets.root
        if not root.is_local:
            return None
        with translate_faults(StoreAction.READ, self._datasets.location_of(at)):
            cut_file = find_cut_file(root, self._datasets.at(at), at)
        return None if cut_file is None else f"'{cut_file[0]}': {cut_file[1]}"

    def listed_files(self, path: str) -> Mapping[str, int]:
        """List every file in the directory of a table with its bytes; one listing."""
        sizes = files.file_sizes(self._datasets, path)
        return {f"{path}/{name}": size for name, size in sizes.items()}

    def digest(self, path: str) -> str | None:
        """Read a file and give its digest; None where a file is not worth a request."""
        root = self._datasets.root
        if not root.is_local:
            return None
        with translate_faults(StoreAction.READ, self._datasets.location(path, None)):
            return digest_file(root.at(path))

    def stage_indices(
        self, at: TableAt, specs: Sequence[IndexSpec], workers: Workers | None = None
    ) -> Staged | None:
        """Stage one commit that builds all of them; None when there is nothing to build."""
        with self._writing_indices(at):
            parts_max = 1 if workers is None else workers.count
            segments = index.build(
                self._datasets.at(at),
                self.open(at).indices(),
                specs,
                self._worker(at, workers),
                parts_max,
            )
        if not segments.added:
            return None
        record(Cost.STAGE_INDICES)
        record(Cost.VECTOR_BUILDS, sum(spec.kind is IndexKind.VECTOR for spec in specs))
        operation = LanceOperation.CreateIndex(list(segments.added), list(segments.removed))
        return self._staged(
            at, StagedKind.INDICES, stage.Change(operation=operation, digests=segments.digests)
        )

    def stage_release(self, at: TableAt) -> Staged | None:
        """Stage the removal of index segments that keep small fragments apart."""
        with self._writing(at):
            dataset = self._datasets.at(at)
            removed = index.references(dataset, releasable(dataset))
        if not removed:
            return None
        operation = LanceOperation.CreateIndex([], list(removed))
        return self._staged(at, StagedKind.INDICES, stage.Change(operation=operation))

    def stage_compaction(
        self, at: TableAt, rows_max: int | None = None, workers: Workers | None = None
    ) -> Staged | None:
        """Stage a rewrite of small and holey fragments; None when there is nothing to gain."""
        with self._writing(at):
            rewritten = compact(self._datasets.at(at), rows_max, self._worker(at, workers))
        if rewritten is None:
            return None
        record(Cost.STAGE_COMPACTION)
        return self._staged(
            at,
            StagedKind.COMPACTION,
            stage.Change(operation=rewritten.operation, digests=rewritten.digests),
            fragments_added=rewritten.added,
            fragments_removed=rewritten.removed,
        )

    def do(self, task: MaintenanceTask) -> bytes:
        """Do a task of a `stage_` call of another process."""
        with self._writing(task.at):
            location = self._datasets.location(task.at.path, task.at.branch, task.at.version)
            dataset, unofficial = self._datasets.at(task.at), self._datasets.unofficial
            return index_tasks.run_task(dataset, task, location, unofficial=unofficial)

    def _worker(self, at: TableAt, workers: Workers | None) -> index_tasks.Worker:
        return (
            index_tasks.run_here(self._datasets.at(at), unofficial=self._datasets.unofficial)
            if workers is None
            else index_tasks.run_elsewhere(at, workers)
        )

    def stage_columns(self, at: TableAt, changes: Sequence[ColumnChange]) -> Staged:
        """Stage added, dropped and renamed columns without rewriting data."""
        with self._writing(at):
            operation = columns.change_columns(self._datasets.at(at), changes)
        record(Cost.STAGE_COLUMNS)
        return self._staged(at, StagedKind.COLUMNS, stage.Change(operation=operation))

    def stage_settings(self, at: TableAt) -> Staged | None:
        """Stage the removal of auto-cleanup keys; None when there are none."""
        keys = auto_cleanup_keys(self._datasets.at(at))
        if not keys:
            return None
        removed = LanceOperation.UpdateMap(dict.fromkeys(keys), replace=False)
        operation = LanceOperation.UpdateConfig(config_updates=removed)
        return self._staged(at, StagedKind.SETTINGS, stage.Change(operation=operation))

    # ---- moving a HEAD

    def commit_staged(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        lock: CommitLock | None,
    ) -> Landed:
        """Move HEAD from the staged base to the next version, or raise."""
        line = (staged.at.path, staged.at.branch)
        # A commit that fails may have landed.
        self._landed.pop(line)
        landed = self._commit_drafted(staged, operation_id, actor)
        if landed is None:
            landed = commit.commit(
                self._datasets,
                staged.at,
                cast(Transaction, staged.transaction),
                operation_id=operation_id,
                actor=actor,
                lock=lock,
                is_conditional=self._conditions.are_honoured,
            )
        record(Cost.TABLE_COMMITS)
        self._landed.put(line, landed.at.version)
        return replace(landed, digests=staged.digests)

    def _commit_drafted(
        self, staged: Staged, operation_id: OperationId, actor: str | None
    ) -> Landed | None:
        """Move HEAD by one request; None where Lance has to commit."""
        drafts = self._datasets.drafts
        if drafts is None:
            return None
        ours = commit.name_operation(cast(Transaction, staged.transaction), operation_id, actor)
        draft = drafts.make(staged.at, ours, self._datasets.location_of(staged.at))
        if draft is None:
            return None
        try:
            drafts.land_alone(draft)
        except OmniError as error:
            return commit.resolve_failed(self._datasets, staged.at, ours.uuid, error)
        self._open_soon([draft.landed.at])
        return draft.landed

    def draft_commit(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        land: Callable[[], None],
    ) -> Draft | None:
        """Make the version after the staged base without moving HEAD; None where it has to be committed."""
        drafts, at = self._datasets.drafts, staged.at
        if drafts is None:
            return None
        ours = commit.name_operation(cast(Transaction, staged.transaction), operation_id, actor)
        draft = drafts.make_for_group(
            at, ours, self._datasets.location_of(at), land, lambda base: self.open(base).count()
        )
        return draft and replace(draft, landed=replace(draft.landed, digests=staged.digests))

    def land_drafts(self, drafts: Sequence[Draft]) -> None:
        """Move HEADs through the versions of drafts, or raise; then some HEADs may have moved."""
        draft_store = self._datasets.drafts
        if draft_store is None or not drafts:
            return
        newest = {draft.landed.at.path: draft.landed.at for draft in drafts}
        for path in newest:
            self._landed.pop((path, None))
        # Files first: a manifest must never be more durable than the files that it names.
        self._datasets.settle(drafts[0].landed.at.path)
        draft_store.land(drafts)
        record(Cost.TABLE_COMMITS, len(drafts))
        for path, at in newest.items():
            self._landed.put((path, None), at.version)
        if self._datasets.root.is_distant:
            self._open_soon(newest.values())

    def _open_soon(self, versions: Iterable[TableAt]) -> None:
        """Open the versions that the next writers will ask for, while the present writer goes on."""

        def run() -> None:
            for at in versions:
                with suppress(OmniError):
                    self._datasets.at(at)

        threading.Thread(target=run, name=OPENING, daemon=True).start()

    def drop_drafts(self, drafts: Sequence[Draft]) -> None:
        """Forget drafts: nothing of them is left."""
        if self._datasets.drafts is not None:
            self._datasets.drafts.drop(drafts)

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
        self._landed.pop((path, branch))
        head = self.head(path, branch)
        if head != expected_head:
            raise HeadMoved(path, expected_head, head)
        fail(Failpoint.RESTORE_LOOKED)
        base = TableAt(path=path, branch=branch, version=expected_head)
        change = Transaction(expected_head, LanceOperation.Restore(version))
        is_fenced = lock is not None and lock.exclusive
        if is_fenced or self._datasets.root.is_memory:
            landed = commit.commit(
                self._datasets, base, change, operation_id=operation_id, actor=actor, lock=lock
            )
        else:
            landed = self._put_restore(
                base, version, commit.name_operation(change, operation_id, actor)
            )
        record(Cost.TABLE_RESTORES)
        return landed

    def _put_restore(self, base: TableAt, version: Version, change: Transaction) -> Landed:
        """Move HEAD to a copy of an earlier version by one conditional PUT: Lance lets a Restore land over any commit."""
        try:
            return self._restores.restore(base, version, change, self._datasets.location_of(base))
        except OmniError as error:
            return commit.resolve_failed(self._datasets, base, change.uuid, error)

    # ---- branches

    def fork(self, at: TableAt, branch: str) -> TableAt:
        """Create a Lance branch at `at`; `ForkExists` tells a live ref from a leftover tree."""
        forked = branches.create(
            self._datasets, self._objects, at.path, branch, source=at.branch, version=at.version
        )
        record(Cost.FORKS)
        return TableAt(path=at.path, branch=branch, version=Version(forked.version))

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        """List the Lance branches of a table, by name."""
        return branches.refs(self._datasets, path)

    def drop_fork(self, path: str, branch: str) -> None:
        """Remove a Lance branch, its ref first; nothing to do when it is gone."""
        branches.drop(self._datasets, self._objects, path, branch)
        self.forget(path, branch)

    def drop_tree(self, path: str, branch: str) -> None:
        """Remove the files of a branch that has no ref; refuses when it has one."""
        branches.drop_tree(self._datasets, self._objects, path, branch)
        self.forget(path, branch)

    def _base(self, at: TableAt) -> stage.Base:
        location = self._datasets.location(at.path, at.branch, at.version)
        return stage.Base(self._datasets.at(at), self.open(at), location)

    def _writing(self, at: TableAt) -> AbstractContextManager[None]:
        return translate_faults(
            StoreAction.WRITE, self._datasets.location(at.path, at.branch, at.version)
        )

    @contextmanager
    def _writing_indices(self, at: TableAt) -> Iterator[None]:
        """Translate errors of Lance, which reads parts of an index that it just wrote, and panics over a cut one."""
        try:
            with self._writing(at):
                yield
        except (InternalError, StorageError) as error:
            cut = find_cut_index_file(self._datasets.location_of(at))
            if cut is None:
                raise
            raise make_cut_error(self._datasets.root, *cut) from error

    def _staged(
        self,
        at: TableAt,
        kind: StagedKind,
        change: stage.Change,
        *,
        fragments_added: int = 0,
        fragments_removed: int = 0,
    ) -> Staged:
        transaction = Transaction(at.version, change.operation)
        return Staged(
            at=at,
            uuid=transaction.uuid,
            kind=kind,
            rows_added=change.added,
            rows_deleted=change.deleted,
            fragments_added=fragments_added,
            fragments_removed=fragments_removed,
            digests=self._digests(at, change),
            transaction=transaction,
        )

    def _digests(self, at: TableAt, change: stage.Change) -> Digests:
        """Return the digests of all files of a change, each of which is whole; missing digests are taken here."""
        noted = change.digests
        location = self._datasets.location(at.path, at.branch, at.version)
        require_whole(location, change.operation)
        names = (file.name for file in new_files(change.operation))
        left = [name for name in names if digest_key(name) not in noted]
        return {**noted, **digest_new_files(location, left)}
