"""Forks nobody owns: what an interrupted first write or branch delete left on a table."""

from collections.abc import Iterator, Mapping

from omnigraph.commit.locks import lock_key
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName, TableKey
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.records import graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.locks.holders import Activity
from omnigraph.values import dataclass

ACTIVITY = Activity("cleanup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The forks of one table that went, or would go, with their bytes, and what stood in the way of others."""

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
) -> Swept:
    """Drop the forks of a table that no live branch places it on, and files of forks whose ref is gone.

    A failure spares the others.
    """
    gone: list[str] = []
    errors: list[str] = []
    weights: Mapping[str | None, int] = {}
    try:
        weights = engine.store.tables.sizes(path)
        for branch in _candidates(engine, path, weights, live):
            try:
                if dry_run or _drop_orphan(engine, table_key, path, branch):
                    gone.append(branch)
            except OmniError as error:
                errors.append(f"fork '{branch}': {error}")
    except OmniError as error:
        errors.append(f"its forks could not be listed: {error}")
    freed = sum(weights.get(branch, 0) for branch in gone)
    return Swept(forks=tuple(gone), bytes=freed, errors=tuple(errors))


def _candidates(
    engine: Engine,
    path: str,
    weights: Mapping[str | None, int],
    live: Mapping[BranchName, Snapshot],
) -> Iterator[str]:
    """Forks that no live branch owns, with a ref or without, children before their parents."""
    found = {*engine.store.tables.forks(path), *(name for name in weights if name is not None)}
    for name in sorted(found, key=lambda one: (-len(one), one)):
        snapshot = live.get(graph_branch(name))
        owned = snapshot is not None and any(e.at.path == path for e in snapshot.owned())
        if name != SCHEMA_APPLY_LOCK and not owned:
            yield name


def _drop_orphan(engine: Engine, table_key: TableKey, path: str, branch: str) -> bool:
    """Judge a fork once more, under its turn and from a fresh read, and drop it only as an orphan."""
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
                raise StorageError("whose it is could not be read; it was kept")
