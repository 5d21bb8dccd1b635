"""Cleanup: removes old versions, orphan forks and dropped tables, but no version that a branch shows or pins."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import timedelta
from functools import cache

from omnigraphdb.commit.guard import drift
from omnigraphdb.commit.liveness import find_drift
from omnigraphdb.commit.locks import SCHEMA_APPLY, LockKey, lock_key
from omnigraphdb.display import Displayable, Report, count_of, format_bytes, tabulate
from omnigraphdb.engine.attempt import wait_for_schema_change
from omnigraphdb.engine.maintenance.adjacency_files import drop_stale_adjacency
from omnigraphdb.engine.maintenance.clocks import refuse_skew
from omnigraphdb.engine.maintenance.manifest_versions import reclaim_manifest
from omnigraphdb.engine.maintenance.operation import refuse_pending
from omnigraphdb.engine.maintenance.orphans import (
    ACTIVITY,
    staging_loads,
    sweep_forks,
    sweep_scratch,
)
from omnigraphdb.engine.maintenance.retention import (
    CommitTime,
    Live,
    PinnedStates,
    Retention,
    parse_retention,
)
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError, StorageError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName, OperationId, TableKey, Version
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.records import CommitKind, graph_branch, lance_branch
from omnigraphdb.manifest.table_history import TableIncarnation
from omnigraphdb.pipeline.progress import OnProgress, ignore_progress, track_tables
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.values import Reclaimed
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleaned(Value):
    """The versions and forks of one table that cleanup removed, or would remove.

    `dropped` means the whole table, because no branch shows it any more.
    """

    table_key: TableKey
    versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    dropped: bool = False
    error: str | None = field(default=None, metadata=wire(omit=True))

    def with_reclaimed(self, reclaimed: Reclaimed) -> "TableCleaned":
        """Add the versions of the main table or of one fork."""
        return replace(
            self,
            versions_removed=self.versions_removed + reclaimed.versions,
            bytes_removed=self.bytes_removed + reclaimed.bytes,
        )

    def with_error(self, error: str) -> "TableCleaned":
        """Add an error."""
        return replace(self, error=error if self.error is None else f"{self.error}; {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport(Displayable, Value):
    """The versions that cleanup removed, by table, or would remove when it was not confirmed.

    `manifest` counts old versions of the manifest, on all branches. `scratch_removed` names loads that never ended and
    whose scratch files were removed; `jobs_removed` names jobs that died.
    """

    uri: str
    tables: tuple[TableCleaned, ...]
    manifest: TableCleaned
    confirmed: bool
    scratch_removed: tuple[str, ...] = ()
    jobs_removed: tuple[str, ...] = ()
    actor: str | None = field(default=None, metadata=wire("actor_id"))

    def _report(self) -> Report:
        """List the removed versions of each table."""
        cleaned = (*self.tables, self.manifest)
        versions = sum(table.versions_removed for table in cleaned)
        size = format_bytes(sum(table.bytes_removed for table in cleaned))
        done = "removed" if self.confirmed else "would be removed; pass confirm=True to remove them"
        return Report(
            title=f"cleanup: {count_of(versions, 'version')}, {size} {done}",
            grids=(tabulate(cleaned, "table_key", "versions_removed", "bytes_removed", "error"),),
        )


def cleanup(
    engine: Engine,
    *,
    keep: int | None = None,
    older_than: timedelta | None = None,
    confirm: bool = False,
    actor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> CleanupReport:
    """Remove the versions that no rule keeps and no branch pins; without `confirm`, report them only."""
    engine.require_writable("cleanup")
    for name in sorted(engine.manifest.rows.branch_names()):
        engine.require_here(BranchName(name), "cleanup")
    retention = parse_retention(engine, keep, older_than)
    refuse_skew(engine)
    refuse_pending(engine, "cleanup")
    wait_for_schema_change(engine, "cleanup")
    pinned = PinnedStates(engine)
    fail(Failpoint.CLEANUP_SEEN)
    _refuse_drift(engine, pinned.live)
    cleaning = _Cleaning(
        engine=engine, pinned=pinned, retention=retention, dry_run=not confirm, kept={}
    )
    tables = tuple(
        cleaning.clean_table(table)
        for table in track_tables(on_progress, "cleanup", _list_tables(engine))
    )
    manifest = cleaning.clean_manifest()
    scratch = sweep_scratch(engine, retention.scratch_age_us, dry_run=not confirm)
    if confirm:
        # Cleanup makes no commit, so that only the log names its actor.
        removed_count = sum(table.versions_removed for table in (*tables, manifest))
        _log.info("cleanup.done", actor=actor, versions=removed_count)
    return CleanupReport(
        uri=engine.uri,
        tables=tables,
        manifest=manifest,
        confirmed=confirm,
        scratch_removed=scratch,
        jobs_removed=engine.jobs.sweep(dry_run=not confirm),
        actor=actor,
    )


def preview_cleanup(
    engine: Engine, keep: int | None, older_than: timedelta | None
) -> CleanupReport:
    """Report the versions of tables that cleanup would remove.

    Take no locks and wait for no writer, so that a reader may call this function.
    """
    cleaning = _Cleaning(
        engine=engine,
        pinned=PinnedStates(engine),
        retention=parse_retention(engine, keep, older_than),
        dry_run=True,
        kept={},
    )
    tables = tuple(cleaning.clean_table(table) for table in _list_tables(engine))
    manifest = TableCleaned(table_key=TableKey(MANIFEST))
    return CleanupReport(uri=engine.uri, tables=tables, manifest=manifest, confirmed=False)


def _refuse_drift(engine: Engine, live: Live) -> None:
    """Refuse while a HEAD is past its pin and no live writer explains it."""
    entries = [(MAIN, entry) for entry in live[MAIN].snapshot.entries.values()]
    entries += [
        (branch, entry)
        for branch, live_branch in live.items()
        for entry in live_branch.snapshot.owned()
    ]
    for branch, entry in entries:
        try:
            drifted = find_drift(engine.committer, branch, entry)
        except OmniError:
            if not _is_gone(engine, live, entry.at.branch):
                raise
            continue
        if drifted is not None and not engine.recovery.undo_late(branch, entry.table_key):
            raise drift(engine.committer.sidecars, entry.table_key, entry.at.branch, *drifted)


def _is_gone(engine: Engine, live: Live, fork: str | None) -> bool:
    """Whether another process deleted the branch of a fork since the snapshots were read; the fork goes with it."""
    if fork is None:
        return False
    branch = graph_branch(fork)
    return engine.manifest.is_gone(branch, live[branch].snapshot.branch_incarnation)


def _list_tables(engine: Engine) -> list[TableIncarnation]:
    """List every table that main shows or showed, once: a renamed table has two keys and one path."""
    by_key = engine.manifest.current(MAIN).table_history.by_key
    incarnations = [table for tables in by_key.values() for table in tables]
    # The visible incarnation of a path comes last, and wins.
    by_path = {
        incarnation.path: incarnation
        for incarnation in sorted(incarnations, key=lambda incarnation: incarnation.is_visible)
    }
    return sorted(
        by_path.values(), key=lambda incarnation: (incarnation.table_key, incarnation.incarnation)
    )


# ---- one table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleaning:
    """One cleanup: its rules, the states that it must spare, and the versions of each cleaned table that its rules keep."""

    engine: Engine
    pinned: PinnedStates
    retention: Retention
    dry_run: bool
    kept: dict[tuple[str, str | None], frozenset[Version]]

    def clean_table(self, table: TableIncarnation) -> TableCleaned:
        """Clean one table; an error is part of the report, and cleanup goes on with the other tables."""
        engine, live = self.engine, self.pinned.live
        report = TableCleaned(table_key=table.table_key)
        try:
            if not _is_shown(table, live):
                return self._remove_dropped_table(table)
            if not engine.store.tables.exists(table.path):
                return report
        except OmniError as error:
            return report.with_error(str(error))
        snapshots = {branch: live_branch.snapshot for branch, live_branch in live.items()}
        swept = sweep_forks(engine, table.table_key, table.path, snapshots, dry_run=self.dry_run)
        report = replace(report, forks_removed=swept.forks, bytes_removed=swept.bytes)
        for problem in swept.errors:
            report = report.with_error(problem)
        for fork in (None, *_list_forks(table, live)):
            try:
                report = report.with_reclaimed(self._reclaim_versions(table, fork))
            except OmniError as error:
                if not _is_gone(engine, live, fork):
                    message = str(error) if fork is None else f"fork '{fork}': {error}"
                    report = report.with_error(message)
        return report

    def _reclaim_versions(self, table: TableIncarnation, fork: str | None) -> Reclaimed:
        """Remove versions under the lock of the table, by the current pins: branches come and go while cleanup runs."""
        tables = self.engine.store.tables
        with self._lock(lock_key(table.table_key, fork)):
            fail(Failpoint.CLEANUP_TABLE)
            self.pinned.look_again()
            is_kept = self.pinned.keeps(table.path, fork)
            versions = tables.versions(table.path, fork)
            old = self.retention.list_removable(versions, self._commit_time(table, fork))
            # Lance keeps the version that a fork was made from, and removes files that only it has.
            forks = tables.forks(table.path).values()
            forked_versions = {ref.parent_version for ref in forks if ref.parent == fork}
            unpinned = [
                version
                for version in old
                if version not in forked_versions and not is_kept(version)
            ]
            reclaimed = tables.reclaim(table.path, unpinned, branch=fork, dry_run=self.dry_run)
            kept_by_rule = frozenset(info.version for info in versions).difference(old)
            self.kept[table.path, fork] = kept_by_rule
            if fork is None and not self.dry_run:
                left = {info.version for info in versions}.difference(unpinned)
                drop_stale_adjacency(self.engine, table.path, frozenset(left))
            return reclaimed

    @contextmanager
    def _lock(self, *keys: LockKey) -> Iterator[None]:
        """Hold locks while no load writes files; a preview removes nothing and needs no locks."""
        if self.dry_run:
            yield
            return
        with self.engine.committer.locks.acquire(list(keys), ACTIVITY):
            _refuse_loads(self.engine)
            yield

    def _commit_time(self, table: TableIncarnation, fork: str | None) -> CommitTime:
        """Return a function that finds the time of the commit that published a version, by its operation."""
        engine = self.engine

        @cache
        def read_times() -> Mapping[OperationId | None, int]:
            lineage = engine.manifest.current(graph_branch(fork)).lineage
            return {commit.operation_id: commit.created_at for commit in lineage.commits}

        def committed_us(version: Version) -> int | None:
            before, times = Version(version - 1), read_times()
            transactions = engine.store.tables.transactions(table.path, fork, before, version)
            operations = (
                transaction.operation_id
                for transaction in transactions
                if transaction.operation_id is not None
            )
            return next((times[operation] for operation in operations if operation in times), None)

        return committed_us

    # ---- dropped tables

    def _remove_dropped_table(self, table: TableIncarnation) -> TableCleaned:
        """Remove a table that no live branch shows, once it was dropped before the cutoff of the retention."""
        engine = self.engine
        report = TableCleaned(table_key=table.table_key)
        with self._lock(SCHEMA_APPLY, lock_key(table.table_key, None)):
            fail(Failpoint.CLEANUP_TABLE)
            self.pinned.look_again()
            if self.pinned.shows(table.path):
                return report
            if not self.retention.allows_drop(_last_schema_change_us(engine)):
                return report
            self.kept[table.path, None] = frozenset()
            exists = engine.store.tables.exists(table.path)
            if not exists and not engine.store.objects.exists(table.path):
                return report
            versions = len(engine.store.tables.versions(table.path)) if exists else 0
            freed_bytes = sum(engine.store.tables.sizes(table.path).values()) if exists else 0
            if not self.dry_run:
                engine.store.tables.delete_table(table.path)
        return replace(report, versions_removed=versions, bytes_removed=freed_bytes, dropped=True)

    # ---- the manifest

    def clean_manifest(self) -> TableCleaned:
        """Remove old versions of the manifest on every branch; after an error on a branch, clean the others."""
        report = TableCleaned(table_key=TableKey(MANIFEST))
        for branch in self.pinned.live:
            try:
                reclaimed = reclaim_manifest(
                    self.engine, branch, self.pinned, self.kept, dry_run=self.dry_run
                )
                report = report.with_reclaimed(reclaimed)
            except OmniError as error:
                if not _is_gone(self.engine, self.pinned.live, lance_branch(branch)):
                    report = report.with_error(f"branch '{branch}': {error}")
        return report


def _is_shown(table: TableIncarnation, live: Live) -> bool:
    return any(
        entry.at.path == table.path
        for branch in live.values()
        for entry in branch.snapshot.entries.values()
    )


def _list_forks(table: TableIncarnation, live: Live) -> Iterator[str]:
    """List the forks of a table that live branches own."""
    for branch in sorted(live):
        if any(entry.at.path == table.path for entry in live[branch].snapshot.owned()):
            yield branch


def _refuse_loads(engine: Engine) -> None:
    loads = staging_loads(engine)
    if loads:
        raise StorageError(
            f"a load is writing files ('{loads[0]}'); nothing was removed, run cleanup after it"
        )


def _last_schema_change_us(engine: Engine) -> int:
    """Return the time of the last schema change: no table was dropped later."""
    commits = engine.manifest.current(MAIN).lineage.commits
    changes = [c.created_at for c in commits if c.kind is CommitKind.SCHEMA_APPLY]
    return max(changes, default=0)
