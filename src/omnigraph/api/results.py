"""What the calls of a graph return: frozen values with a wire form."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from omnigraph.catalog.border import public_rows
from omnigraph.catalog.diff.steps import Step
from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import json_column
from omnigraph.engine.results import Commit as Commit
from omnigraph.ids import MAIN
from omnigraph.recovery.audit import AuditRow, RecoveryKind, TableOutcome
from omnigraph.recovery.discard import UNKNOWN
from omnigraph.recovery.discard import DiscardedRecovery as DiscardedRecovery
from omnigraph.recovery.sweep import Pending
from omnigraph.runtime import datetime_of, us_of
from omnigraph.values import dataclass

ROWS_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A live branch: its head, and the branch it was made from (None for main)."""

    name: str
    head: str | None
    parent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {"name": self.name, "head": self.head, "parent": self.parent}

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """What a mutation did; `commit` is None when nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None
    commit: Commit | None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What a load did; `tables` counts input records per table key."""

    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    tables: Mapping[str, int]
    actor: str | None
    commit: Commit | None
    engine: str = "local"
    reason: str = ""
    """Why that engine ran."""
    pending_indexes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def total_rows(self) -> int:
        """Input records of all tables."""
        return sum(self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "tables": [{"table_key": k, "rows_loaded": n} for k, n in self.tables.items()],
            "total_rows": self.total_rows,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "engine": self.engine,
            "reason": self.reason,
            "pending_indexes": list(self.pending_indexes),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplyResult:
    """What applying a schema did; `commit` is None when there was nothing to change."""

    uri: str
    steps: tuple[Step, ...]
    manifest_version: int
    actor: str | None
    commit: Commit | None
    supported: bool = True
    warnings: tuple[str, ...] = ()
    pending_indexes: tuple[str, ...] = ()

    @property
    def applied(self) -> bool:
        """Whether the schema changed."""
        return self.commit is not None

    @property
    def step_count(self) -> int:
        """How many steps were taken."""
        return len(self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "supported": self.supported,
            "applied": self.applied,
            "step_count": self.step_count,
            "manifest_version": self.manifest_version,
            "steps": [step.to_dict() for step in self.steps],
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "warnings": list(self.warnings),
            "pending_indexes": list(self.pending_indexes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySidecar:
    """A pending operation, and what recovery would do with it; one that cannot be read has only a `problem`.

    A `live` one is not interrupted: its writer, `holder`, will end it.
    """

    operation_id: str
    writer_kind: str
    branch: str
    actor: str | None
    started_at: str | None
    tables: tuple[str, ...]
    schema_version: int | None
    forecast: str | None = None
    problem: str | None = None
    holder: Mapping[str, Any] | None = None

    @property
    def live(self) -> bool:
        """Whether its writer lives."""
        return self.holder is not None

    @classmethod
    def of(cls, pending: Pending) -> Self:
        """The public view of a sidecar."""
        sidecar = pending.sidecar
        if sidecar is None:
            return cls(
                operation_id=pending.operation_id,
                writer_kind=UNKNOWN,
                branch=MAIN,
                actor=None,
                started_at=None,
                tables=(),
                schema_version=None,
                problem=pending.problem,
            )
        return cls(
            operation_id=sidecar.operation_id,
            writer_kind=str(sidecar.writer_kind),
            branch=sidecar.branch or MAIN,
            actor=sidecar.actor,
            started_at=sidecar.started_at,
            tables=sidecar.table_keys,
            schema_version=sidecar.schema_version,
            forecast=None if pending.decision is None else str(pending.decision),
            problem=pending.problem,
            holder=None if pending.holder is None else pending.holder.to_dict(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form; what is not known is left out."""
        body = {
            "operation_id": self.operation_id,
            "writer_kind": self.writer_kind,
            "branch": self.branch,
            "actor_id": self.actor,
            "started_at": self.started_at,
            "tables": list(self.tables),
            "schema_version": self.schema_version,
        }
        more = {"forecast": self.forecast, "problem": self.problem, "holder": self.holder}
        return body | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAudit:
    """A settled operation: what became of it, and the commit that says so."""

    recovery_kind: RecoveryKind
    operation_id: str
    writer_kind: str
    for_actor: str | None
    commit: str
    tables: tuple[TableOutcome, ...]
    created_at: datetime

    @classmethod
    def of(cls, row: AuditRow) -> Self:
        """The public view of a recorded recovery."""
        return cls(
            recovery_kind=row.kind,
            operation_id=row.operation_id,
            writer_kind=row.writer_kind,
            for_actor=row.for_actor,
            commit=row.commit,
            tables=row.tables,
            created_at=datetime_of(row.created_at),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "recovery_kind": str(self.recovery_kind),
            "operation_id": self.operation_id,
            "sidecar_writer_kind": self.writer_kind,
            "recovery_for_actor": self.for_actor,
            "graph_commit_id": self.commit,
            "tables": [outcome.to_dict() for outcome in self.tables],
            "created_at": us_of(self.created_at),
        }


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """Rows of a query: Arrow inside, other shapes on demand."""

    query_name: str
    branch: str
    snapshot: str | None
    commit: str | None
    found: pa.Table | pa.RecordBatch = field(repr=False)
    """The rows in the form of storage; `table` is what is handed out."""
    types: tuple[PropertyType, ...] = field(repr=False)

    @cached_property
    def table(self) -> pa.Table:
        """Typed columns."""
        is_table = isinstance(self.found, pa.Table)
        return public_rows(self.found if is_table else pa.Table.from_batches([self.found]))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the query."""
        return list(self.found.schema.names)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as JSON-shaped values."""
        return self._records(wire=False)

    def _records(self, *, wire: bool) -> list[dict[str, Any]]:
        shown = [
            json_column(column, type_, wire=wire)
            for column, type_ in zip(self.found.columns, self.types, strict=True)
        ]
        return _records(self.columns, shown) if shown else [{} for _ in range(len(self))]

    def to_arrow(self) -> pa.Table:
        """Typed columns."""
        return self.table

    def to_list(self) -> list[dict[str, Any]]:
        """Rows as Python values: dates are dates."""
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    def to_pandas(self) -> Any:
        """A pandas DataFrame; integers with NULLs among them stay integers, in pandas' own nullable types."""
        import pandas

        frame = self.table.to_pandas()
        for name in self.columns:
            column = self.table[name]
            if column.null_count and pa.types.is_integer(column.type):
                # NumPy has no NULL for integers, and as floats the large ones would be others.
                frame[name] = pandas.api.types.pandas_dtype(_nullable(column.type)).__from_arrow__(
                    column
                )
        return frame

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        import polars

        return polars.from_arrow(self.table)

    def to_csv(self) -> str:
        """CSV that `load` reads back: nothing for NULL, `""` for an empty text, JSON for a list; no final line break."""
        shown = [
            map(_csv_cell, json_column(column, type_, wire=not type_.is_list))
            for column, type_ in zip(self.found.columns, self.types, strict=True)
        ]
        header = ",".join(map(_csv_cell, self.columns))
        return "\n".join([header, *map(",".join, zip(*shown, strict=True))])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches, one after the other."""
        yield from self.table.to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.found.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        target = {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}
        return {
            "query_name": self.query_name,
            "target": target,
            "row_count": len(self),
            "columns": self.columns,
            "rows": self._records(wire=True),
            "graph_commit_id": self.commit,
        }

    def __repr__(self) -> str:
        head = f"<{self.query_name}: {len(self)} rows on {self.branch}>"
        lines = [head, " | ".join(self.columns)]
        shown = self.table.slice(0, ROWS_SHOWN_MAX)
        lines += [" | ".join(str(value) for value in row.values()) for row in shown.to_pylist()]
        if len(self) > ROWS_SHOWN_MAX:
            lines.append(f"… {len(self) - ROWS_SHOWN_MAX} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        def cells(values: Any, tag: str) -> str:
            return "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values)

        shown = self.table.slice(0, ROWS_SHOWN_MAX).to_pylist()
        body = "".join(f"<tr>{cells(row.values(), 'td')}</tr>" for row in shown)
        more = f"<p>{len(self)} rows</p>"
        return f"<table><thead><tr>{cells(self.columns, 'th')}</tr></thead><tbody>{body}</tbody></table>{more}"


def _records(names: list[str], columns: list[list[Any]]) -> list[dict[str, Any]]:
    """Columns as rows; those of few columns, which most results are, are written out: that is three times as fast."""
    match names:
        case [a]:
            return [{a: one} for one in columns[0]]
        case [a, b]:
            return [{a: one, b: two} for one, two in zip(*columns, strict=True)]
        case [a, b, c]:
            return [{a: one, b: two, c: three} for one, two, three in zip(*columns, strict=True)]
        case _:
            return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


_QUOTED = re.compile(r'[,"\r\n]')


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def _nullable(stored: pa.DataType) -> str:
    """What pandas calls an integer that may be missing: `Int64`, `UInt32`, …"""
    return str(stored).replace("uint", "UInt").replace("int", "Int")
