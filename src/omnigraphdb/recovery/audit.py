"""The audit of recoveries: one stored row per ended operation, however often its recovery was interrupted."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import pyarrow as pa

from omnigraphdb.commit.sidecar import Sidecar, TableOutcome
from omnigraphdb.errors import RowContention, TableExists
from omnigraphdb.ids import CommitId, OperationId, TableKey, Version
from omnigraphdb.limits import PUBLISH_RETRIES_MAX
from omnigraphdb.manifest.records import PRIMARY_KEY
from omnigraphdb.storage.rows import Rows
from omnigraphdb.values import dataclass

__all__ = ["AUDIT_KEY", "Audit", "AuditRow", "RecoveryKind", "TableOutcome", "row_of"]

AUDIT_KEY: Final = "operation_id"
AUDIT_SCHEMA: Final = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field(AUDIT_KEY, pa.string(), nullable=False, metadata={PRIMARY_KEY: b"true"}),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes_json", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)


class RecoveryKind(StrEnum):
    """The way in which recovery ended an operation; the set of stored spellings only ever grows."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    DISCARDED = "Discarded"
    """An operator discarded it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One ended operation."""

    commit: CommitId
    kind: RecoveryKind
    for_actor: str | None
    operation_id: OperationId
    writer_kind: str
    tables: tuple[TableOutcome, ...]
    created_at: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The small keyed table of recoveries; the first recovery creates it."""

    table: Rows

    def record(self, *rows: AuditRow) -> None:
        """Add rows of operations without a row; two recoverers leave one row for each operation."""
        for _ in range(1 + PUBLISH_RETRIES_MAX):
            recorded = {row.operation_id for row in self.rows()}
            missing = [row for row in rows if row.operation_id not in recorded]
            if not missing:
                return
            try:
                self._add(missing)
                return
            except (RowContention, TableExists):
                continue
        raise RowContention("the audit of recoveries", None, 0)

    def _add(self, missing: Sequence[AuditRow]) -> None:
        rows = pa.Table.from_pylist([_encode_row(row) for row in missing], schema=AUDIT_SCHEMA)
        if not self.table.exists():
            self.table.create(rows, metadata={}, config={})
            return
        image = self.table.load(None)
        if PRIMARY_KEY not in (image.rows.schema.field(AUDIT_KEY).metadata or {}):
            # Earlier releases did not mark the key; without the mark two recoverers could leave two rows.
            image = self.table.annotate_key(image)
        self.table.swap(image, rows)

    def rows(self) -> tuple[AuditRow, ...]:
        """List every row, oldest first."""
        if not self.table.exists():
            return ()
        rows = self.table.load(None).rows
        position = rows.schema.get_field_index("created_at")
        plain = rows.set_column(position, "created_at", rows["created_at"].cast(pa.int64()))
        return tuple(sorted((_decode_row(row) for row in plain.to_pylist()), key=_age))

    def rolled_back(self) -> frozenset[OperationId]:
        """List the operations that were rolled back: nothing of them may ever become visible."""
        matches = (row for row in self.rows() if row.kind is RecoveryKind.ROLLED_BACK)
        return frozenset(row.operation_id for row in matches)


def _age(row: AuditRow) -> tuple[int, str]:
    return (row.created_at, row.operation_id)


def _encode_row(row: AuditRow) -> dict[str, object]:
    return {
        "graph_commit_id": row.commit,
        "recovery_kind": str(row.kind),
        "recovery_for_actor": row.for_actor,
        AUDIT_KEY: row.operation_id,
        "sidecar_writer_kind": row.writer_kind,
        "per_table_outcomes_json": _outcomes_json(row),
        "created_at": row.created_at,
    }


def _decode_row(row: dict[str, object]) -> AuditRow:
    actor = row["recovery_for_actor"]
    return AuditRow(
        commit=CommitId(str(row["graph_commit_id"])),
        kind=RecoveryKind(str(row["recovery_kind"])),
        for_actor=None if actor is None else str(actor),
        operation_id=OperationId(str(row[AUDIT_KEY])),
        writer_kind=str(row["sidecar_writer_kind"]),
        tables=_outcomes_of(str(row["per_table_outcomes_json"])),
        created_at=int(str(row["created_at"])),
    )


def row_of(
    sidecar: Sidecar,
    commit: CommitId,
    kind: RecoveryKind,
    outcomes: Sequence[TableOutcome],
    created_at: int,
) -> AuditRow:
    """Make the row of an operation that recovery ended."""
    return AuditRow(
        commit=commit,
        kind=kind,
        for_actor=sidecar.actor,
        operation_id=sidecar.operation_id,
        writer_kind=str(sidecar.writer_kind),
        tables=tuple(outcomes),
        created_at=created_at,
    )


def _outcomes_json(row: AuditRow) -> str:
    """Encode the outcomes as they are stored."""
    return json.dumps([outcome.to_dict() for outcome in row.tables])


def _outcomes_of(text: str) -> tuple[TableOutcome, ...]:
    """Decode stored outcomes."""
    return tuple(
        TableOutcome(
            table_key=TableKey(o["table_key"]),
            from_version=Version(int(o["from_version"])),
            to_version=Version(int(o["to_version"])),
        )
        for o in json.loads(text)
    )
