"""Cleanup: old versions, orphan forks and dropped tables go, never anything that is visible or pinned somewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from omnigraph.commit.guard import drift
from omnigraph.commit.liveness import find_drift
from omnigraph.commit.locks import SCHEMA_APPLY, lock_key
from omnigraph.engine.attempt import wait_for_schema_change
from omnigraph.engine.maintenance.floors import Floors, live_snapshots
from omnigraph.engine.maintenance.orphans import ACTIVITY, sweep_forks
from omnigraph.engine.maintenance.refusals import refuse_pending
from omnigraph.engine.maintenance.retention import Committed, Retention, retention
from omnigraph.engine.maintenance.scratch import staging_loads, sweep_scratch
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, TableKey, Version
from omnigraph.manifest.records import CommitKind, graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.table_history import TableIncarnation
from omnigraph.storage.tables import Reclaimed
from omnigraph.values import dataclass

Live = Mapping[BranchName, Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleaned:
    """What cleanup removed of one table, or would; `dropped`: all of it, since no branch shows it any more."""

    table_key: TableKey
    versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    dropped: bool = False
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["forks_removed"] = list(self.forks_removed)
        return {name: value for name, value in facts.items() if value is not None}

    def plus(self, reclaimed: Reclaimed) -> "TableCleaned":
        """With versions of one more line."""
        return replace(
            self,
            versions_removed=self.versions_removed + reclaimed.versions,
            bytes_removed=self.bytes_removed + reclaimed.bytes,
        )

    def but(self, error: str) -> "TableCleaned":
        """With one more thing that could not be done."""
        return replace(self, error=error if self.error is None else f"{self.error}; {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What cleanup removed, or would: of every table, and scratch files of loads that never ended."""

    tables: tuple[TableCleaned, ...]
    scratch: tuple[str, ...] = ()


def cleanup(
    engine: Engine,
    *,
    keep: int | None = None,
    older_than: timedelta | None = None,
    confirm: bool = False,
) -> Cleaned:
    """Remove what no rule keeps and nothing pins; without `confirm`, say what would go."""
    engine.require_writable("cleanup")
    for name in sorted(engine.manifest.rows.branch_names()):
        engine.require_here(BranchName(name), "cleanup")
    chosen = retention(engine, keep, older_than)
    refuse_pending(engine, "cleanup")
    wait_for_schema_change(engine, "cleanup")
    live = live_snapshots(engine)
    fail(Failpoint.CLEANUP_SEEN)
    _refuse_drift(engine, live)
    floors = Floors(engine)
    tables = tuple(
        _clean_table(engine, life, live, floors, chosen, dry_run=not confirm)
        for life in _places(engine)
    )
    scratch = sweep_scratch(engine, chosen.scratch_age_us, dry_run=not confirm)
    return Cleaned(tables=tables, scratch=scratch)


def _refuse_drift(engine: Engine, live: Live) -> None:
    """Refuse while a HEAD is past its pin and no live writer explains it."""
    entries = [(MAIN, entry) for entry in live[MAIN].entries.values()]
    entries += [(branch, entry) for branch, shown in live.items() for entry in shown.owned()]
    for branch, entry in entries:
        try:
            found = find_drift(engine.committer, branch, entry)
        except OmniError:
            if not _is_gone(engine, live, entry.at.branch):
                raise
            continue
        if found is not None and not engine.recovery.undo_late(branch, entry.table_key):
            raise drift(engine.committer.sidecars, entry.table_key, entry.at.branch, *found)


def _is_gone(engine: Engine, live: Live, line: str | None) -> bool:
    """Whether another process deleted a branch since it was looked at; its forks go with it."""
    if line is None:
        return False
    branch = graph_branch(line)
    return engine.manifest.is_gone(branch, live[branch].branch_incarnation)


def _places(engine: Engine) -> list[TableIncarnation]:
    """Every place that tables of main have or had, once: a renamed table has two names and one place."""
    by_key = engine.manifest.current(MAIN).table_history.by_key
    table_history = [life for found in by_key.values() for life in found]
    # The name a place has now comes last, and stays.
    shown = {life.path: life for life in sorted(table_history, key=lambda life: life.is_visible)}
    return sorted(shown.values(), key=lambda life: (life.table_key, life.incarnation))


# ---- one table


def _clean_table(
    engine: Engine,
    life: TableIncarnation,
    live: Live,
    floors: Floors,
    chosen: Retention,
    *,
    dry_run: bool,
) -> TableCleaned:
    """Clean one table; what fails here is told, and the other tables go on."""
    told = TableCleaned(table_key=life.table_key)
    try:
        if not _is_shown(life, live):
            return _remove_dropped_table(engine, life, chosen, dry_run=dry_run)
        if not engine.store.tables.exists(life.path):
            return told
    except OmniError as error:
        return told.but(str(error))
    swept = sweep_forks(engine, life.table_key, life.path, live, dry_run=dry_run)
    told = replace(told, forks_removed=swept.forks, bytes_removed=swept.bytes)
    for problem in swept.errors:
        told = told.but(problem)
    for line in _lines(life, live):
        try:
            told = told.plus(_reclaim_versions(engine, life, line, floors, chosen, dry_run=dry_run))
        except OmniError as error:
            if not _is_gone(engine, live, line):
                told = told.but(str(error) if line is None else f"fork '{line}': {error}")
    return told


def _is_shown(life: TableIncarnation, live: Live) -> bool:
    return any(
        e.at.path == life.path for snapshot in live.values() for e in snapshot.entries.values()
    )


def _lines(life: TableIncarnation, live: Live) -> Iterator[str | None]:
    """The main line of a table, and the fork of every live branch that has one."""
    yield None
    for branch in sorted(live):
        if any(entry.at.path == life.path for entry in live[branch].owned()):
            yield branch


def _reclaim_versions(
    engine: Engine,
    life: TableIncarnation,
    line: str | None,
    floors: Floors,
    chosen: Retention,
    *,
    dry_run: bool,
) -> Reclaimed:
    """Remove versions under the table's turn, by what is pinned now: branches come and go while cleanup runs."""
    with engine.committer.locks.acquire([lock_key(life.table_key, line)], ACTIVITY):
        fail(Failpoint.CLEANUP_TABLE)
        _refuse_loads(engine)
        pinned = floors.pinned_versions(life.path, line)
        versions = engine.store.tables.versions(life.path, line)
        old = chosen.removable(versions, _committed(engine, life, line))
        names = [version for version in old if version not in pinned]
        return engine.store.tables.reclaim(life.path, names, branch=line, dry_run=dry_run)


def _committed(engine: Engine, life: TableIncarnation, line: str | None) -> Committed:
    """Tell the time of the commit that brought a version, by the operation that its transaction names."""
    lineage = engine.manifest.current(graph_branch(line)).lineage
    times = {commit.operation_id: commit.created_at for commit in lineage.commits}

    def committed_us(version: Version) -> int | None:
        made = engine.store.tables.transactions(life.path, line, Version(version - 1), version)
        known = (one.operation_id for one in made if one.operation_id is not None)
        return next((times[one] for one in known if one in times), None)

    return committed_us


def _refuse_loads(engine: Engine) -> None:
    loads = staging_loads(engine)
    if loads:
        raise StorageError(
            f"a load is writing files ('{loads[0]}'); nothing was removed, run cleanup after it"
        )


# ---- tables that are gone


def _remove_dropped_table(
    engine: Engine, life: TableIncarnation, chosen: Retention, *, dry_run: bool
) -> TableCleaned:
    """Remove all of a table that no live branch shows, once nobody within the retention can have seen it."""
    told = TableCleaned(table_key=life.table_key)
    keys = [SCHEMA_APPLY, lock_key(life.table_key, None)]
    with engine.committer.locks.acquire(keys, ACTIVITY):
        fail(Failpoint.CLEANUP_TABLE)
        _refuse_loads(engine)
        if _is_shown(life, live_snapshots(engine)) or not chosen.lets_go(_last_change_us(engine)):
            return told
        there = engine.store.tables.exists(life.path)
        if not there and not engine.store.objects.exists(life.path):
            return told
        versions = len(engine.store.tables.versions(life.path)) if there else 0
        freed = sum(engine.store.tables.sizes(life.path).values()) if there else 0
        if not dry_run:
            engine.store.tables.delete_table(life.path)
    return replace(told, versions_removed=versions, bytes_removed=freed, dropped=True)


def _last_change_us(engine: Engine) -> int:
    """When the schema was changed last: no table was dropped later."""
    commits = engine.manifest.current(MAIN).lineage.commits
    changes = [c.created_at for c in commits if c.kind is CommitKind.SCHEMA_APPLY]
    return max(changes, default=0)
