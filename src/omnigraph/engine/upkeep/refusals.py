"""What upkeep by hand refuses to start with."""

from omnigraph.commit.liveness import is_interrupted
from omnigraph.commit.queues import HeldLocks
from omnigraph.engine.engine import Engine
from omnigraph.errors import RecoveryRequired


def refuse_pending(engine: Engine, operation: str, hold: HeldLocks | None = None) -> None:
    """Wait for live writers, and refuse while an interrupted write is pending: its tables are not what they seem.

    `hold` are locks of the caller.
    """
    held = () if hold is None else tuple(hold.locks)
    for sidecar in engine.desk.sidecars.pending():
        if is_interrupted(engine.desk, sidecar, held):
            raise RecoveryRequired(
                sidecar.operation_id,
                f"{operation} has to wait: the interrupted {sidecar.writer_kind} {sidecar.operation_id} on "
                f"{', '.join(sidecar.table_keys) or 'the schema'} is not settled; nothing was changed, "
                "run `omnigraph recovery run` or reopen the graph read-write",
            )
