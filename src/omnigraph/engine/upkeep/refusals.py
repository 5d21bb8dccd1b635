"""What upkeep by hand must know before it starts, and refuses to start without."""

from collections.abc import Mapping

from omnigraph.engine.engine import Engine
from omnigraph.errors import OmniError, RecoveryRequired, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.snapshot import Snapshot


def refuse_pending(engine: Engine, operation: str) -> None:
    """Refuse while an interrupted write is pending: its tables are not what they seem."""
    for sidecar in engine.desk.sidecars.pending():
        raise RecoveryRequired(
            sidecar.operation_id,
            f"{operation} has to wait: the {sidecar.writer_kind} {sidecar.operation_id} on "
            f"{', '.join(sidecar.table_keys) or 'the schema'} is not settled; nothing was changed, "
            "run `omnigraph recovery run` or reopen the graph read-write",
        )


def live_snapshots(engine: Engine) -> Mapping[BranchName, Snapshot]:
    """What every live branch shows, read fresh; all of them or a refusal, since any may pin any version."""
    names = [BranchName(n) for n in engine.manifest.rows.branches() if n != SCHEMA_APPLY_LOCK]
    found: dict[BranchName, Snapshot] = {}
    unreadable: list[str] = []
    for branch in (MAIN, *sorted(names)):
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            found[branch] = engine.manifest.load(branch).snapshot
        except OmniError as error:
            unreadable.append(f"'{branch}' ({error})")
    if unreadable:
        raise StorageError(
            f"what these branches show could not be read, so that nothing may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )
    return found
