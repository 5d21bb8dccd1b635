"""The first write of a table on a branch: fork the table."""

from dataclasses import replace

from omnigraphdb.commit.guard import require_pin
from omnigraphdb.commit.plan import TableWrite
from omnigraphdb.errors import ForkExists, InternalError, ReadSetConflict
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.manifest.forks import ForkStatus, fork_status, is_at_fork_point
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import graph_branch
from omnigraphdb.storage.locks.table import RequireLocks
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt


def fork_table(
    tables: Tables, manifest: Manifest, write: TableWrite, require_locks: RequireLocks
) -> TableAt:
    """Fork a table at its pin. A fork that nobody owns is taken over where it stands there, and else cleared once."""
    if write.fork is None:
        raise InternalError(f"{write.table_key} has no branch to fork to")
    require_locks()
    try:
        return _create_fork(tables, write.base, write.fork)
    except ForkExists as error:
        fail(Failpoint.FORK_CLASSIFY)
        _require_orphan(manifest, write, error.branch)
        if error.has_ref and is_at_fork_point(tables, write.base, error.branch):
            return replace(write.base, branch=error.branch)
        _clear_fork(tables, write.base, error, require_locks)
    try:
        return _create_fork(tables, write.base, write.fork)
    except ForkExists as error:
        raise ReadSetConflict(f"the fork of {write.table_key} to '{write.fork}'") from error


def _create_fork(tables: Tables, base: TableAt, branch: str) -> TableAt:
    forked = tables.fork(base, branch)
    fail(Failpoint.FORK_CREATED)
    return forked


def _require_orphan(manifest: Manifest, write: TableWrite, branch: str) -> None:
    """Refuse a fork that is not provably an orphan: a manifest places it. The caller looked for pending operations."""
    match fork_status(manifest, write.base.path, graph_branch(branch)):
        case ForkStatus.LEGITIMATE:
            require_pin(write, manifest.current(graph_branch(branch)).snapshot)
            raise ReadSetConflict(f"the owner of {write.table_key} on '{branch}'")
        case ForkStatus.INDETERMINATE:
            raise ReadSetConflict(
                f"whether '{branch}' still owns {write.table_key} could not be verified: it"
            )
        case ForkStatus.ORPHAN:
            pass


def _clear_fork(
    tables: Tables, base: TableAt, fork: ForkExists, require_locks: RequireLocks
) -> None:
    """Remove the files that a former branch of the name, or an interrupted write of an earlier release, left."""
    fail(Failpoint.FORK_RECLAIM)
    require_locks()
    if fork.has_ref:
        tables.drop_fork(base.path, fork.branch)
    else:
        tables.drop_tree(base.path, fork.branch)
