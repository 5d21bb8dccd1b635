"""The first write of a table on a branch: give the branch a line of its own."""

from omnigraph.commit.guard import covered_by
from omnigraph.commit.plan import TableWrite, WritePlan
from omnigraph.commit.sidecar import Sidecars
from omnigraph.errors import (
    ForkExists,
    InternalError,
    ManifestConflict,
    ReadSetConflict,
    RecoveryRequired,
)
from omnigraph.failpoints import Failpoint, fail
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.manifest import Manifest
from omnigraph.storage.tables import TableAt, Tables


def fork_table(
    tables: Tables, manifest: Manifest, sidecars: Sidecars, write: TableWrite, plan: WritePlan
) -> TableAt:
    """Fork a table at its pin; what a dead writer left under the same name is cleared once."""
    if write.fork is None:
        raise InternalError(f"{write.table_key} has no branch to fork to")
    try:
        return _created(tables, write.base, write.fork)
    except ForkExists as error:
        fail(Failpoint.FORK_CLASSIFY)
        _refuse_or_clear(tables, manifest, sidecars, write, plan, error)
    try:
        return _created(tables, write.base, write.fork)
    except ForkExists as error:
        raise ReadSetConflict(f"the fork of {write.table_key} to '{write.fork}'") from error


def _created(tables: Tables, base: TableAt, branch: str) -> TableAt:
    forked = tables.fork(base, branch)
    fail(Failpoint.FORK_CREATED)
    return forked


def _refuse_or_clear(
    tables: Tables,
    manifest: Manifest,
    sidecars: Sidecars,
    write: TableWrite,
    plan: WritePlan,
    found: ForkExists,
) -> None:
    """Only a fork that is provably nobody's is removed."""
    branch = found.branch
    owner = covered_by(sidecars, write.table_key, branch)
    if owner is not None and owner.operation_id != plan.operation_id:
        raise RecoveryRequired(
            owner.operation_id,
            f"branch '{branch}' of {write.table_key} belongs to the interrupted {owner.writer_kind} "
            f"{owner.operation_id}; nothing was written, reopen the graph read-write",
        )
    match fork_status(manifest, write.base.path, plan.branch):
        case ForkStatus.LEGITIMATE:
            raise ManifestConflict(write.table_key, write.base.version, write.base.version)
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
