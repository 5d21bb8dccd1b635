"""What upkeep by hand refuses to start with."""

from omnigraph.engine.engine import Engine
from omnigraph.errors import RecoveryRequired


def refuse_pending(engine: Engine, operation: str) -> None:
    """Refuse while an interrupted write is pending: its tables are not what they seem."""
    for sidecar in engine.desk.sidecars.pending():
        raise RecoveryRequired(
            sidecar.operation_id,
            f"{operation} has to wait: the {sidecar.writer_kind} {sidecar.operation_id} on "
            f"{', '.join(sidecar.table_keys) or 'the schema'} is not settled; nothing was changed, "
            "run `omnigraph recovery run` or reopen the graph read-write",
        )
