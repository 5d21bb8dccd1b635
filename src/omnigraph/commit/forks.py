"""The first write of a table on a branch: fork the table."""

from collections.abc import Iterable

from omnigraph.commit.guard import require_pin
from omnigraph.commit.plan import TableWrite
from omnigraph.errors import ForkExists, InternalError, ReadSetConflict
from omnigraph.failpoints import Failpoint, fail
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import graph_branch
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import TableAt


def fork_table(tables: Tables, manifest: Manifest, write: TableWrite) -> TableAt:
    """Fork a table at its pin; what nobody owns under the same name is cleared once."""
    if write.fork is None:
        raise InternalError(f"{write.table_key} has no branch to fork to")
    try:
        return _create_fork(tables, write.base, write.fork)
    except ForkExists as error:
        fail(Failpoint.FORK_CLASSIFY)
        _refuse_or_clear(tables, manifest, write, error)
    try:
        return _create_fork(tables, write.base, write.fork)
    except ForkExists as error:
        raise ReadSetConflict(f"the fork of {write.table_key} to '{write.fork}'") from error


def drop_forks(tables: Tables, forks: Iterable[TableAt]) -> None:
    """Remove forks that their own writer made and nobody adopted."""
    for fork in forks:
        if fork.branch is not None:
            tables.drop_fork(fork.path, fork.branch)


def _create_fork(tables: Tables, base: TableAt, branch: str) -> TableAt:
    forked = tables.fork(base, branch)
    fail(Failpoint.FORK_CREATED)
    return forked


def _refuse_or_clear(
    tables: Tables, manifest: Manifest, write: TableWrite, found: ForkExists
) -> None:
    """Only a fork that is provably nobody's is removed: no manifest places it, no pending operation names it."""
    branch = found.branch
    match fork_status(manifest, write.base.path, graph_branch(branch)):
        case ForkStatus.LEGITIMATE:
            require_pin(write, manifest.current(graph_branch(branch)).snapshot)
            raise ReadSetConflict(f"the owner of {write.table_key} on '{branch}'")
        case ForkStatus.INDETERMINATE:
            raise ReadSetConflict(
                f"whether '{branch}' still owns {write.table_key} could not be verified: it"
            )
        case ForkStatus.ORPHAN:
            fail(Failpoint.FORK_RECLAIM)
            if found.has_ref:
                tables.drop_fork(write.base.path, branch)
            else:
                tables.drop_tree(write.base.path, branch)
