"""The record of recoveries: one row per settled operation, whatever was interrupted how often."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from omnigraph.commit.sidecar import Sidecar, TableOutcome
from omnigraph.ids import CommitId, OperationId, TableKey, Version
from omnigraph.values import dataclass

__all__ = [
    "Audit",
    "AuditRow",
    "RecoveryKind",
    "TableOutcome",
    "outcomes_json",
    "outcomes_of",
    "row_of",
]


class RecoveryKind(StrEnum):
    """How an operation was settled; the stored spelling only ever grows."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    DISCARDED = "Discarded"
    """An operator gave it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One settled operation."""

    commit: CommitId
    kind: RecoveryKind
    for_actor: str | None
    operation_id: OperationId
    writer_kind: str
    tables: tuple[TableOutcome, ...]
    created_at: int


class Audit(Protocol):
    """Where recoveries are recorded."""

    def record(self, row: AuditRow) -> None:
        """Add a row unless the operation has one."""
        ...

    def rows(self) -> tuple[AuditRow, ...]:
        """Every row, oldest first."""
        ...

    def rolled_back(self) -> frozenset[OperationId]:
        """The operations that were rolled back: nothing of them may ever become visible."""
        ...


def row_of(
    sidecar: Sidecar,
    commit: CommitId,
    kind: RecoveryKind,
    outcomes: Sequence[TableOutcome],
    created_at: int,
) -> AuditRow:
    """The row of a settled sidecar."""
    return AuditRow(
        commit=commit,
        kind=kind,
        for_actor=sidecar.actor,
        operation_id=sidecar.operation_id,
        writer_kind=str(sidecar.writer_kind),
        tables=tuple(outcomes),
        created_at=created_at,
    )


def outcomes_json(row: AuditRow) -> str:
    """The outcomes as they are stored."""
    return json.dumps([outcome.to_dict() for outcome in row.tables])


def outcomes_of(text: str) -> tuple[TableOutcome, ...]:
    """Read stored outcomes."""
    return tuple(
        TableOutcome(
            table_key=TableKey(o["table_key"]),
            from_version=Version(int(o["from_version"])),
            to_version=Version(int(o["to_version"])),
        )
        for o in json.loads(text)
    )
