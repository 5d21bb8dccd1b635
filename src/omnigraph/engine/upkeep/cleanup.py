"""Cleanup: old table versions and orphan forks go, never anything that is visible or pinned somewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from omnigraph.commit.guard import drift
from omnigraph.commit.queues import queue_key
from omnigraph.engine.engine import Engine
from omnigraph.engine.upkeep.floors import live_snapshots, pinned_versions, staging_loads
from omnigraph.engine.upkeep.orphans import Swept, sweep_forks
from omnigraph.engine.upkeep.refusals import refuse_pending
from omnigraph.errors import OmniError, StorageError, UserInputError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, TableKey, Version
from omnigraph.manifest.lives import Life
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables import Reclaimed, VersionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which versions stay: the newest `keep`, and those made after `cutoff_us`; what either keeps is kept."""

    keep: int | None
    cutoff_us: int | None

    def removable(self, versions: tuple[VersionInfo, ...]) -> Iterator[Version]:
        """The versions that neither rule keeps; the newest is never among them."""
        last = max(self.keep or 1, 1)
        for info in versions[: max(len(versions) - last, 0)]:
            if self.cutoff_us is None or info.created_us < self.cutoff_us:
                yield info.version


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleaned:
    """What cleanup removed of one table, or would."""

    table_key: TableKey
    versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["forks_removed"] = list(self.forks_removed)
        return {name: value for name, value in facts.items() if value is not None}


def cleanup(
    engine: Engine,
    *,
    keep: int | None = None,
    older_than: timedelta | None = None,
    confirm: bool = False,
) -> tuple[TableCleaned, ...]:
    """Remove table versions that no rule keeps and nothing pins; without `confirm`, say what would go."""
    engine.require_writable("cleanup")
    retention = _retention(engine, keep, older_than)
    refuse_pending(engine, "cleanup")
    live = live_snapshots(engine)
    _refuse_drift(engine, live[MAIN])
    lives = [
        life for found in engine.manifest.current(MAIN).lives.by_key.values() for life in found
    ]
    return tuple(
        _cleaned(engine, life, live, retention, dry_run=not confirm)
        for life in sorted(lives, key=lambda life: (life.table_key, life.incarnation))
    )


def _retention(engine: Engine, keep: int | None, older_than: timedelta | None) -> Retention:
    if keep is None and older_than is None:
        raise UserInputError(
            "cleanup needs to know what to keep; nothing was removed",
            hint="give keep (versions per table), older_than (an age), or both",
        )
    if keep is not None and keep < 1:
        raise UserInputError(
            f"cleanup keeps at least 1 version of each table, not {keep}; nothing was removed"
        )
    if older_than is not None and older_than < timedelta(0):
        raise UserInputError(f"an age cannot be {older_than}; nothing was removed")
    age = None if older_than is None else older_than // timedelta(microseconds=1)
    return Retention(keep=keep, cutoff_us=None if age is None else engine.runtime.now_us() - age)


def _refuse_drift(engine: Engine, snapshot: Snapshot) -> None:
    for entry in snapshot.entries.values():
        head = engine.store.tables.head(entry.at.path, entry.at.branch)
        if head != entry.version:
            raise drift(engine.desk.sidecars, entry.table_key, entry.at.branch, entry.version, head)


# ---- one table


def _cleaned(
    engine: Engine,
    life: Life,
    live: Mapping[BranchName, Snapshot],
    retention: Retention,
    *,
    dry_run: bool,
) -> TableCleaned:
    """Clean one table; what fails here is told, and the other tables go on."""
    if not engine.store.tables.exists(life.path):
        return TableCleaned(table_key=life.table_key)
    swept = sweep_forks(engine, life.table_key, life.path, live, dry_run=dry_run)
    try:
        with engine.desk.queues.hold([queue_key(life.table_key, None)]):
            reclaimed = _reclaimed(engine, life, retention, dry_run=dry_run)
    except OmniError as error:
        return _report(life, swept, Reclaimed(versions=0, bytes=0), str(error))
    return _report(life, swept, reclaimed, None)


def _reclaimed(engine: Engine, life: Life, retention: Retention, *, dry_run: bool) -> Reclaimed:
    """Remove versions under the table's turn, by what is pinned now: branches come and go while cleanup runs."""
    fail(Failpoint.CLEANUP_TABLE)
    loads = staging_loads(engine)
    if loads:
        raise StorageError(
            f"a load is writing files ('{loads[0]}'); nothing was removed, run cleanup after it"
        )
    pinned = pinned_versions(engine, life.path)
    versions = engine.store.tables.versions(life.path)
    chosen = [version for version in retention.removable(versions) if version not in pinned]
    return engine.store.tables.reclaim(life.path, chosen, dry_run=dry_run)


def _report(life: Life, swept: Swept, reclaimed: Reclaimed, error: str | None) -> TableCleaned:
    errors = (*swept.errors, *((error,) if error else ()))
    return TableCleaned(
        table_key=life.table_key,
        versions_removed=reclaimed.versions,
        bytes_removed=reclaimed.bytes,
        forks_removed=swept.forks,
        error="; ".join(errors) or None,
    )
