"""Reports of a server about its graph as the values that a graph at hand gives: indexes, issues, recoveries."""

from collections.abc import Mapping
from typing import Any

from omnigraph.api.reports import Examination, IndexReport, IndexState, IndexStatus, Issue
from omnigraph.api.results import RecoveryAudit, RecoverySidecar
from omnigraph.recovery.audit import RecoveryKind, TableOutcome
from omnigraph.runtime import datetime_of
from omnigraph.storage.values import IndexKind

Body = Mapping[str, Any]


def read_indexes(body: Body) -> IndexReport:
    """Read how far indexes cover their tables."""
    return IndexReport(
        indexes=tuple(
            IndexStatus(
                table_key=one["table_key"],
                column=one["column"],
                kind=IndexKind(one["kind"]),
                state=IndexState(one["state"]),
                rows_indexed=one["rows_indexed"],
                rows=one["rows"],
                reason=one.get("reason"),
            )
            for one in body["indexes"]
        ),
        built=body["built"],
    )


def read_examination(body: Body) -> Examination:
    """Read the issues of a graph."""
    return Examination(Issue(**one) for one in body["findings"])


def read_recovery(body: Body) -> RecoveryAudit:
    """Read one recovery."""
    return RecoveryAudit(
        recovery_kind=RecoveryKind(body["recovery_kind"]),
        operation_id=body["operation_id"],
        writer_kind=body["sidecar_writer_kind"],
        for_actor=body["recovery_for_actor"],
        commit=body["graph_commit_id"],
        tables=tuple(TableOutcome(**one) for one in body["tables"]),
        created_at=datetime_of(body["created_at"]),
    )


def read_pending(body: Body) -> RecoverySidecar:
    """Read one pending operation."""
    return RecoverySidecar(
        operation_id=body["operation_id"],
        writer_kind=body["writer_kind"],
        branch=body["branch"],
        actor=body["actor_id"],
        started_at=body["started_at"],
        tables=tuple(body["tables"]),
        schema_version=body["schema_version"],
        forecast=body.get("forecast"),
        problem=body.get("problem"),
        holder=body.get("holder"),
    )
