"""What manual maintenance refuses to start with."""

from omnigraph.commit.liveness import is_interrupted
from omnigraph.commit.locks import HeldLocks
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import RecoveryRequired


def refuse_pending(engine: Engine, operation: str, held_locks: HeldLocks | None = None) -> None:
    """Wait for live writers, and refuse while an interrupted write is pending: its tables are not what they seem.

    `hold` are locks of the caller.
    """
    held = () if held_locks is None else tuple(held_locks.locks)
    for sidecar in engine.committer.sidecars.pending():
        if is_interrupted(engine.committer, sidecar, held):
            raise RecoveryRequired(
                sidecar.operation_id,
                f"{operation} has to wait: the interrupted {sidecar.writer_kind} {sidecar.operation_id} on "
                f"{', '.join(sidecar.table_keys) or 'the schema'} is not settled; nothing was changed, "
                "run `omnigraph recovery run` or reopen the graph read-write",
            )
