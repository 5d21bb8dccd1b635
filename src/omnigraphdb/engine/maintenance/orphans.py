"""Orphans: forks that an interrupted first write or branch deletion left, and scratch files of loads that died."""

import json
import math
from collections.abc import Iterator, Mapping

from omnigraphdb.commit.locks import lock_key
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError, StorageError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import HEARTBEAT_SECONDS
from omnigraphdb.manifest.forks import ForkStatus, fork_status
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.manifest.records import graph_branch
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.storage.layout import STAGING_DIR
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.locks.store_clock import StoreClock
from omnigraphdb.values import dataclass

ACTIVITY = Activity("cleanup")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedForks:
    """The forks of one table that cleanup removed, or would remove, with their bytes, and the errors of other forks."""

    forks: tuple[str, ...] = ()
    bytes: int = 0
    errors: tuple[str, ...] = ()


def sweep_forks(
    engine: Engine,
    table_key: TableKey,
    path: str,
    live: Mapping[BranchName, Snapshot],
    *,
    dry_run: bool,
) -> RemovedForks:
    """Drop the forks of a table that no live branch uses, and the files of forks whose ref is gone.

    If one fork cannot be dropped, the others still are.
    """
    removed: list[str] = []
    errors: list[str] = []
    sizes: Mapping[str | None, int] = {}
    try:
        sizes = engine.store.tables.sizes(path)
        for branch in _find_candidates(engine, path, sizes, live):
            try:
                if dry_run or _drop_orphan(engine, table_key, path, branch):
                    removed.append(branch)
            except OmniError as error:
                errors.append(f"fork '{branch}': {error}")
    except OmniError as error:
        errors.append(f"its forks could not be listed: {error}")
    freed = sum(sizes.get(branch, 0) for branch in removed)
    return RemovedForks(forks=tuple(removed), bytes=freed, errors=tuple(errors))


def _find_candidates(
    engine: Engine,
    path: str,
    sizes: Mapping[str | None, int],
    live: Mapping[BranchName, Snapshot],
) -> Iterator[str]:
    """Find the forks that no live branch owns, with a ref or without, children before their parents."""
    forks = {*engine.store.tables.forks(path), *(name for name in sizes if name is not None)}
    for name in sorted(forks, key=lambda fork: (-len(fork), fork)):
        snapshot = live.get(graph_branch(name))
        owned = snapshot is not None and any(entry.at.path == path for entry in snapshot.owned())
        if name != SCHEMA_APPLY_LOCK and not owned:
            yield name


def _drop_orphan(engine: Engine, table_key: TableKey, path: str, branch: str) -> bool:
    """Check a fork again, under its lock and from a fresh read, and drop it only if it is an orphan."""
    with engine.committer.locks.acquire([lock_key(table_key, branch)], ACTIVITY):
        fail(Failpoint.CLEANUP_FORK)
        match fork_status(engine.manifest, path, graph_branch(branch)):
            case ForkStatus.ORPHAN:
                if branch in engine.store.tables.forks(path):
                    engine.store.tables.drop_fork(path, branch)
                else:
                    engine.store.tables.drop_tree(path, branch)
                return True
            case ForkStatus.LEGITIMATE:
                return False
            case ForkStatus.INDETERMINATE:
                raise StorageError("its owner cannot be read; it was kept")


# ---- scratch files


def staging_loads(engine: Engine) -> tuple[str, ...]:
    """List the loads whose heartbeat says that they write files; a heartbeat that cannot be read counts."""
    return tuple(path for path, left in _heartbeats(engine) if left > 0)


def sweep_scratch(engine: Engine, age_us: int, *, dry_run: bool) -> tuple[str, ...]:
    """Remove scratch files and heartbeats of loads that were silent for at least `age_us`; return their operations."""
    # A heartbeat that has not expired is never older than the age, for any age that the caller asks for.
    silent = [path for path, left in _heartbeats(engine) if left < -age_us]
    if not dry_run:
        for path in silent:
            # The heartbeat is removed last: the next cleanup finds the files by it.
            engine.store.objects.delete_prefix(path.removesuffix(".json"))
            engine.store.objects.delete(path)
    return tuple(path.removeprefix(f"{STAGING_DIR}/").removesuffix(".json") for path in silent)


def _heartbeats(engine: Engine) -> Iterator[tuple[str, float]]:
    """List heartbeats, and the microseconds until each expires; negative after it has expired."""
    paths = engine.store.objects.list(STAGING_DIR)
    if not paths:
        return
    is_distant = engine.store.root.is_distant
    # No other machine's wall clock decides that a load is dead: the store dates each renewal.
    now = _store_us(engine) if is_distant else engine.runtime.now_us()
    for path in paths:
        stored = engine.store.objects.read_versioned(path)
        if stored is None:
            continue
        expires = _expiry(stored.text)
        if is_distant and expires < math.inf:
            expires = stored.changed_us + HEARTBEAT_SECONDS * 1_000_000
        yield path, expires - now


def _store_us(engine: Engine) -> int:
    return StoreClock(engine.store.objects, engine.runtime).now_us()


def _expiry(text: str) -> float:
    try:
        return float(json.loads(text)["expires_us"])
    except (ValueError, LookupError, TypeError):
        return math.inf
