"""What a process does that publishes beside others; importable, so that fresh processes can run it."""

from omnigraphdb.errors import ManifestConflict, PublishContention
from omnigraphdb.ids import MAIN, CommitId, TableKey, Version
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.store import open_store
from omnigraphdb.storage.values import TableAt

TRIES_MAX = 100


def publish_many(uri: str, table: str, times: int, actor: str) -> tuple[int, int]:
    """Move one table `times` versions on, re-reading after a conflict; give lost pins and lost budgets."""
    store = open_store(uri)
    manifest = Manifest(rows=store.manifest, runtime=SYSTEM, publish_locks=store.locks)
    conflicts = contention = 0
    for _ in range(times):
        for _ in range(TRIES_MAX):
            try:
                publish(manifest, _next(manifest, TableKey(table), actor))
                break
            except ManifestConflict:
                conflicts += 1
            except PublishContention:
                contention += 1
        else:
            raise AssertionError("never got through")
    return conflicts, contention


def _next(manifest: Manifest, table: TableKey, actor: str) -> Change:
    entry = manifest.current(MAIN).snapshot.entries[table]
    at = TableAt(path=entry.at.path, branch=None, version=Version(entry.version + 1))
    return Change(
        branch=MAIN,
        updates=(Update(table_key=table, at=at, row_count=entry.row_count + 1),),
        expected={table: entry.version},
        draft=Draft(commit=CommitId(SYSTEM.new_id()), kind=CommitKind.MUTATION, actor=actor),
    )
