"""The lock of a schema change: one at a time, and nobody else writes meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.commit.locks import SCHEMA_APPLY, HeldLocks
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import SchemaApplyConflict
from omnigraph.failpoints import Failpoint, fail
from omnigraph.manifest.branches import (
    is_schema_locked,
    list_branches,
    lock_schema,
    refuse_during_schema_apply,
    unlock_schema,
)
from omnigraph.storage.locks.holders import Activity

ACTIVITY = Activity(str(WriterKind.SCHEMA_APPLY))


@contextmanager
def schema_lock(engine: Engine) -> Iterator[HeldLocks]:
    """Hold the graph for a schema change; the lock is released however the block ends."""
    _refuse_running(engine)
    with engine.committer.locks.acquire([SCHEMA_APPLY], ACTIVITY) as held_locks:
        lock_schema(engine.manifest, engine.store.tables)
        try:
            fail(Failpoint.SCHEMA_LOCKED)
            _refuse_branches(engine)
            yield held_locks
        finally:
            unlock_schema(engine.manifest)


def _refuse_running(engine: Engine) -> None:
    """Refuse at once while another schema change runs; one that was killed does not count."""
    if is_schema_locked(engine.manifest):
        engine.recovery.drop_dead_schema_lock()
        refuse_during_schema_apply(engine.manifest.rows.branches(), "schema apply")


def _refuse_branches(engine: Engine) -> None:
    names = [branch.name for branch in list_branches(engine.manifest)[1:]]
    if names:
        raise SchemaApplyConflict(
            f"schema apply: the branches {', '.join(names)} exist, and only main may; no changes were made",
            details={"branches": names},
            hint="merge or delete them first",
        )
