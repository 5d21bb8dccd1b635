"""Indexes: how far each one is, and building those that are missing."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import Any

from omnigraph.commit.plan import Step, TableWrite
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.maintenance.files import table_digests
from omnigraph.engine.maintenance.operation import Writes, each, maintenance
from omnigraph.engine.maintenance.wanted_indexes import (
    list_absent_indexes,
    list_wanted_indexes,
    missing,
    untrainable,
)
from omnigraph.engine.maintenance.workers import open_local_workers
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.limits import INDEX_ROWS_MIN
from omnigraph.logs import get_logger
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import CommitKind, lance_branch
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.tables import IndexInfo, IndexKind, IndexSpec, Table, Workers
from omnigraph.values import dataclass

_log = get_logger(__name__)


class IndexState(StrEnum):
    """How far an index is."""

    READY = "ready"
    PARTIAL = "partial"
    PENDING = "pending"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """One index the schema asks for: which rows it covers, and why not all of them."""

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


# ---- status


def index_status(engine: Engine, branch: BranchName = MAIN) -> IndexReport:
    """Say how far every index is, without building any; the files of those that are there are looked at."""
    view = engine.view(branch_name(branch, "index status"))
    check_indices(engine, view)
    return IndexReport(indexes=tuple(_statuses(engine, view)))


def check_indices(engine: Engine, view: View) -> None:
    """Compare the files of every index with what was noted; reads and builds know the damaged ones afterwards."""
    noted = table_digests(engine.manifest.current(view.branch))
    for entry in view.snapshot.entries.values():
        engine.store.tables.check_indices(entry.at, noted.get(entry.at.path, {}))


def pending(engine: Engine, view: View, tables: Sequence[TableKey]) -> tuple[IndexStatus, ...]:
    """The indexes of tables with rows that are not there."""
    found = _statuses(engine, view, tables)
    return tuple(one for one in found if one.state is IndexState.PENDING and one.rows)


def _statuses(
    engine: Engine, view: View, tables: Sequence[TableKey] | None = None
) -> Iterator[IndexStatus]:
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is None or (tables is not None and key not in tables):
            continue
        table = engine.store.tables.open(entry.at)
        there = {(one.column, one.kind): one for one in table.indices()}
        for spec in list_wanted_indexes(type_):
            yield _status(spec, entry, table, there.get((spec.column, spec.kind)))


def _status(spec: IndexSpec, entry: Entry, table: Table, known: IndexInfo | None) -> IndexStatus:
    uncovered = set(table.uncovered(spec.column, spec.kind))
    indexed = sum(one.rows for one in table.fragments() if one.id not in uncovered)
    state, reason = IndexState.READY, None
    if known is None:
        state, reason, indexed = IndexState.PENDING, _why(spec, entry, table), 0
    elif known.damage is not None:
        state, reason = IndexState.DAMAGED, known.damage
    elif uncovered:
        state, reason = IndexState.PARTIAL, f"{len(uncovered)} fragments are newer than the index"
    return IndexStatus(
        table_key=entry.table_key,
        column=spec.column,
        kind=spec.kind,
        state=state,
        rows_indexed=indexed,
        rows=entry.row_count,
        reason=reason,
    )


def _why(spec: IndexSpec, entry: Entry, table: Table) -> str:
    if not entry.row_count:
        return "the table is empty"
    return untrainable(spec, table) or "it was not built yet"


# ---- build


def ensure_indices(
    engine: Engine,
    branch: BranchName = MAIN,
    *,
    actor: str | None = None,
    workers: Workers | None = None,
) -> IndexReport:
    """Build every missing or damaged index, all of one table in one commit, all tables in one publish."""
    engine.require_writable("ensure indices")
    target = branch_name(branch, "ensure indices")
    check_indices(engine, engine.view(target))
    built = _ensure(engine, target, actor, None, workers)
    return IndexReport(indexes=index_status(engine, target).indexes, built=built)


def index_after_load(
    engine: Engine,
    branch: BranchName,
    tables: Sequence[TableKey],
    actor: str | None,
    workers: Workers | None = None,
) -> tuple[str, ...]:
    """Build what a bulk write left missing, and name what still is: a failure here never fails the write.

    Small tables are left out: an index is never asked there, and building ten of them takes longer than the write.
    """
    try:
        large = _lacking(engine, branch, tables)
        if large and _ensure(engine, branch, actor, large, workers):
            large = _lacking(engine, branch, tables)
    except OmniError as error:
        _log.warning("indices.pending", branch=branch, tables=list(tables), reason=str(error))
        engine.recovery.own_up(error)
        return tuple(f"{table}.id" for table in tables)
    return tuple(f"{table}.{spec.column}" for table, specs in large.items() for spec in specs)


def _lacking(
    engine: Engine, branch: BranchName, tables: Sequence[TableKey]
) -> dict[TableKey, tuple[IndexSpec, ...]]:
    """The indexes that large tables do not have, trainable or not."""
    known = engine.manifest.heads.get(branch) or engine.manifest.current(branch)
    catalog = engine.contracts.current().catalog
    found: dict[TableKey, tuple[IndexSpec, ...]] = {}
    for key in tables:
        entry = known.snapshot.entry(key)
        if entry.row_count >= INDEX_ROWS_MIN:
            specs = list_absent_indexes(catalog.tables[key], engine.store.tables.open(entry.at))
            found |= {key: specs} if specs else {}
    return found


def _ensure(
    engine: Engine,
    target: BranchName,
    actor: str | None,
    tables: Collection[TableKey] | None,
    workers: Workers | None,
) -> int:
    operation = maintenance(
        engine, WriterKind.ENSURE_INDICES, CommitKind.ENSURE_INDICES, target, actor
    )
    built = 0

    def prepared(lent: Workers, view: View) -> Writes:
        nonlocal built
        work = list(_work(engine, view, tables))
        built = sum(len(specs) for _, specs in work)
        return tuple(
            each(engine, lambda one: _write(engine, view, *one, lent), work, _estimate_cost)
        )

    with nullcontext(workers) if workers is not None else open_local_workers(engine) as lent:
        operation.run(partial(prepared, lent), "ensure indices")
    return built


def _estimate_cost(work: tuple[Entry, tuple[IndexSpec, ...]]) -> int:
    """About how long it takes to build the indexes of a table, one against another."""
    entry, specs = work
    return entry.row_count * len(specs)


def _work(
    engine: Engine, view: View, tables: Collection[TableKey] | None
) -> Iterator[tuple[Entry, tuple[IndexSpec, ...]]]:
    """Tables with rows that miss a usable index; those that a branch shows of main keep using main's."""
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is None or not entry.row_count or (tables is not None and key not in tables):
            continue
        if entry.at.branch is None and lance_branch(view.branch) is not None:
            continue
        specs = missing(type_, engine.store.tables.open(entry.at))
        if specs:
            yield entry, specs


def _write(
    engine: Engine, view: View, entry: Entry, specs: tuple[IndexSpec, ...], workers: Workers
) -> TableWrite:
    """Build outside the turns; a table of another branch is forked first, and built on then."""
    branch = lance_branch(view.branch)
    if entry.at.branch == branch:
        staged = engine.store.tables.stage_indices(entry.at, specs, workers)
        return TableWrite(table_key=entry.table_key, base=entry.at, strict=False, staged=staged)
    build: Step = lambda tables, at: tables.stage_indices(at, specs, workers)  # noqa: E731 - a step is a function
    return TableWrite(
        table_key=entry.table_key, base=entry.at, strict=False, steps=(build,), fork=branch
    )
