"""Indexes: which ones the schema asks for, which are there, and building what is missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.commit.plan import Step, TableWrite, WritePlan
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.attempt import attempt
from omnigraph.engine.engine import Engine
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import CommitKind, lance_branch
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.tables import IndexKind, IndexSpec, Table


class IndexState(StrEnum):
    """How far an index is."""

    READY = "ready"
    PARTIAL = "partial"
    PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """One index the schema asks for."""

    table_key: TableKey
    column: str
    kind: IndexKind
    state: IndexState
    rows_indexed: int
    rows: int
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """Every index the schema asks for, and how many this call built."""

    indexes: tuple[IndexStatus, ...]
    built: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {"indexes": [one.to_dict() for one in self.indexes], "built": self.built}


# ---- which


def wanted(type_: TableType) -> tuple[IndexSpec, ...]:
    """The indexes of a type: ids and ends always, single-column intents of nodes by their type."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    found = dict.fromkeys(("id", *ends), IndexKind.BTREE)
    if isinstance(type_, NodeType):
        for group in type_.indices:
            kind = kind_of(type_.properties[group.columns[0]].type)
            if len(group.columns) == 1 and kind is not None:
                found[group.columns[0]] = kind
    return tuple(IndexSpec(column=c, kind=k) for c, k in found.items())


def kind_of(type_: PropertyType) -> IndexKind | None:
    """The index a property type can have."""
    if type_.is_vector:
        return IndexKind.VECTOR
    if not type_.is_plain:
        return None
    free_text = type_.scalar is Scalar.STRING and not type_.is_enum
    return IndexKind.TEXT if free_text else IndexKind.BTREE


def missing(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """The indexes that can be built now and are not there."""
    return tuple(
        spec
        for spec in wanted(type_)
        if not is_present(spec, table) and untrainable(spec, table) is None
    )


def is_present(spec: IndexSpec, table: Table) -> bool:
    """Whether there is such an index, whatever it covers."""
    return any((one.column, one.kind) == (spec.column, spec.kind) for one in table.indices())


def untrainable(spec: IndexSpec, table: Table) -> str | None:
    """Why an index cannot be built yet: a vector index needs a vector to learn from."""
    if spec.kind is not IndexKind.VECTOR or table.has_values(spec.column):
        return None
    return "no row has a vector yet"


# ---- status


def index_status(engine: Engine, branch: BranchName = MAIN) -> IndexReport:
    """Say how far every index is, without building any."""
    return IndexReport(
        indexes=tuple(_status(engine, engine.view(branch_name(branch, "index status"))))
    )


def _status(engine: Engine, view: View) -> Iterator[IndexStatus]:
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entry(key)
        table = engine.store.tables.open(entry.at)
        for spec in wanted(type_):
            yield _one(spec, key, table, entry.row_count)


def _one(spec: IndexSpec, key: TableKey, table: Table, rows: int) -> IndexStatus:
    uncovered = set(table.uncovered(spec.column, spec.kind))
    indexed = sum(one.rows for one in table.fragments() if one.id not in uncovered)
    state, reason = IndexState.READY, None
    if not is_present(spec, table):
        state, reason, indexed = IndexState.PENDING, untrainable(spec, table), 0
    elif uncovered:
        state, reason = IndexState.PARTIAL, f"{len(uncovered)} fragments are newer than the index"
    return IndexStatus(
        table_key=key,
        column=spec.column,
        kind=spec.kind,
        state=state,
        rows_indexed=indexed,
        rows=rows,
        reason=reason,
    )


# ---- build


def ensure_indices(
    engine: Engine,
    branch: BranchName = MAIN,
    *,
    actor: str | None = None,
    tables: Sequence[TableKey] | None = None,
) -> IndexReport:
    """Build every missing index, all of one table in one commit, all tables in one publish."""
    engine.require_writable("ensure indices")
    target = branch_name(branch, "ensure indices")
    operation, commit = OperationId(engine.runtime.new_id()), CommitId(engine.runtime.new_id())
    built = 0

    def prepared(view: View) -> WritePlan | None:
        nonlocal built
        work = list(_work(engine, view, tables))
        built = sum(len(specs) for _, specs in work)
        if not work:
            return None
        return WritePlan(
            kind=WriterKind.ENSURE_INDICES,
            commit_kind=CommitKind.ENSURE_INDICES,
            branch=target,
            actor=actor,
            operation_id=operation,
            commit_id=commit,
            tables=tuple(_write(entry, specs) for entry, specs in work),
            maintenance=True,
        )

    attempt(engine, target, prepared)
    return IndexReport(indexes=index_status(engine, target).indexes, built=built)


def _work(
    engine: Engine, view: View, tables: Sequence[TableKey] | None
) -> Iterator[tuple[Entry, tuple[IndexSpec, ...]]]:
    """Tables with rows that miss an index; those a branch inherits keep using their owner's."""
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entry(key)
        is_own = entry.at.branch == lance_branch(view.branch)
        if not entry.row_count or not is_own or (tables is not None and key not in tables):
            continue
        specs = missing(type_, engine.store.tables.open(entry.at))
        if specs:
            yield entry, specs


def _write(entry: Entry, specs: tuple[IndexSpec, ...]) -> TableWrite:
    step: Step = lambda tables, at: tables.stage_indices(at, specs)  # noqa: E731 - a step is a function
    return TableWrite(table_key=entry.table_key, base=entry.at, strict=False, steps=(step,))
