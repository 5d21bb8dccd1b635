"""Indexes: the status of each one, and the building of missing indexes."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import field
from enum import StrEnum

from omnigraphdb.commit.plan import BuildIndexes, TableWrite, WriteOptions, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.commit.stage import StageWorkers, stage_commit
from omnigraphdb.commit.wanted_indexes import (
    list_absent_indexes,
    list_missing_indexes,
    list_wanted_indexes,
    why_untrainable,
)
from omnigraphdb.display import Displayable, Report, count_of, tabulate
from omnigraphdb.engine.maintenance.operation import (
    Writes,
    for_each_table,
    open_local_workers,
    run_maintenance,
)
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, BranchName, TableKey
from omnigraphdb.limits import INDEX_ROWS_MIN
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.manifest.records import CommitKind, lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import table_digests
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import OnProgress, ignore_progress
from omnigraphdb.storage.tables import Table, Workers
from omnigraphdb.storage.values import IndexInfo, IndexKind, IndexSpec
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_log = get_logger(__name__)


class IndexState(StrEnum):
    """The part of its table that an index covers."""

    READY = "ready"
    PARTIAL = "partial"
    PENDING = "pending"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus(Value):
    """An index that the schema asks for: the rows that it covers, and the reason if it does not cover all rows."""

    table_key: TableKey
    column: str
    kind: IndexKind
    state: IndexState
    rows_indexed: int
    rows: int
    reason: str | None = field(default=None, metadata=wire(omit=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport(Displayable, Value):
    """Every index that the schema asks for, and the number that this call built."""

    indexes: tuple[IndexStatus, ...]
    built: int = 0

    def _report(self) -> Report:
        """List the indexes and the part of its table that each covers."""
        names = ("table_key", "column", "kind", "state", "rows_indexed", "rows", "reason")
        built = f", {self.built} built now" if self.built else ""
        title = count_of(len(self.indexes), "index", "indexes") + built
        return Report(title=title, grids=(tabulate(self.indexes, *names),))


# ---- status


def index_status(engine: Engine, branch: BranchName = MAIN) -> IndexReport:
    """Report the status of every index, without building any; the files of existing ones are checked."""
    view = engine.view(branch_name(branch, "index status"))
    check_indices(engine, view)
    return IndexReport(indexes=tuple(list_statuses(engine, view)))


def check_indices(engine: Engine, view: View) -> None:
    """Compare the files of every index with their recorded digests; later reads and builds know the damaged indexes."""
    digests = table_digests(engine.manifest.current(view.branch))
    for entry in view.snapshot.entries.values():
        engine.store.tables.check_indices(entry.at, digests.get(entry.at.path, {}))


def list_pending_indexes(
    engine: Engine, view: View, tables: Sequence[TableKey]
) -> tuple[IndexStatus, ...]:
    """List the missing indexes of tables that have rows."""
    statuses = list_statuses(engine, view, tables)
    return tuple(
        status for status in statuses if status.state is IndexState.PENDING and status.rows
    )


def list_statuses(
    engine: Engine, view: View, tables: Sequence[TableKey] | None = None
) -> Iterator[IndexStatus]:
    """List the status of every index that the schema asks for, in all tables or in some."""
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is None or (tables is not None and key not in tables):
            continue
        table = engine.store.tables.open(entry.at)
        indexes = {(index.column, index.kind): index for index in table.indices()}
        for spec in list_wanted_indexes(type_):
            yield _status(spec, entry, table, indexes.get((spec.column, spec.kind)))


def _status(spec: IndexSpec, entry: Entry, table: Table, index: IndexInfo | None) -> IndexStatus:
    uncovered = set(table.uncovered(spec.column, spec.kind))
    indexed = sum(fragment.rows for fragment in table.fragments() if fragment.id not in uncovered)
    state, reason = IndexState.READY, None
    if index is None:
        state, reason, indexed = IndexState.PENDING, _why_pending(spec, entry, table), 0
    elif index.damage is not None:
        state, reason = IndexState.DAMAGED, index.damage
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


def _why_pending(spec: IndexSpec, entry: Entry, table: Table) -> str:
    if not entry.row_count:
        return "the table is empty"
    return why_untrainable(spec, table) or "it was not built yet"


# ---- build


def ensure_indices(
    engine: Engine,
    branch: BranchName = MAIN,
    *,
    actor: str | None = None,
    workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
) -> IndexReport:
    """Build every missing or damaged index, all of one table in one commit, all tables in one publish."""
    engine.require_writable("ensure indices")
    target = branch_name(branch, "ensure indices")
    check_indices(engine, engine.view(target))
    built = _build_missing(engine, target, actor, None, workers, on_progress)
    return IndexReport(indexes=index_status(engine, target).indexes, built=built)


def index_after_load(
    engine: Engine,
    branch: BranchName,
    tables: Sequence[TableKey],
    actor: str | None,
    workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
    *,
    rows_max: int | None = None,
) -> tuple[str, ...]:
    """Build the indexes that a bulk write left missing, and name those still missing; an error never fails the write.

    Small tables get no index: no query would use it, and building ten of them takes longer than the write. Tables with
    more rows than `rows_max` get their indexes from maintenance.
    """
    try:
        absent = _find_absent_indexes(engine, branch, tables)
        tables_to_index = _drop_larger(engine, branch, absent, rows_max)
        if tables_to_index and _build_missing(
            engine, branch, actor, tables_to_index, workers, on_progress
        ):
            absent = _find_absent_indexes(engine, branch, tables)
    except OmniError as error:
        _log.warning("indices.pending", branch=branch, tables=list(tables), reason=str(error))
        engine.recovery.note_own_failure(error)
        return tuple(f"{table}.id" for table in tables)
    return tuple(f"{table}.{spec.column}" for table, specs in absent.items() for spec in specs)


def index_after_schema_change(
    engine: Engine,
    actor: str | None,
    workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
) -> tuple[str, ...]:
    """Build the indexes of a new schema, and name the missing ones; an error never fails the schema change."""
    try:
        report = ensure_indices(engine, actor=actor, workers=workers, on_progress=on_progress)
    except OmniError as error:
        _log.warning("schema.indexes_pending", reason=str(error))
        engine.recovery.note_own_failure(error)
        report = index_status(engine)
    absent = (
        status for status in report.indexes if status.state is IndexState.PENDING and status.rows
    )
    return tuple(f"{status.table_key}.{status.column}" for status in absent)


def find_buildable_indexes(
    engine: Engine, branch: BranchName, pending: Collection[str]
) -> tuple[str, ...]:
    """Find the pending indexes of large tables that can be built now; a vector index waits for enough vectors."""
    head = engine.manifest.heads.get(branch) or engine.manifest.current(branch)
    catalog = engine.contracts.current().catalog
    keys = sorted({TableKey(name.rpartition(".")[0]) for name in pending})
    entries = [head.snapshot.entry(key) for key in keys]
    missing = {
        f"{entry.table_key}.{spec.column}"
        for entry in entries
        if entry.row_count >= INDEX_ROWS_MIN
        for spec in list_missing_indexes(
            catalog.tables[entry.table_key], engine.store.tables.open(entry.at)
        )
    }
    return tuple(name for name in pending if name in missing)


def _find_absent_indexes(
    engine: Engine, branch: BranchName, tables: Sequence[TableKey]
) -> dict[TableKey, tuple[IndexSpec, ...]]:
    """Find the indexes that large tables do not have, trainable or not."""
    head = engine.manifest.heads.get(branch) or engine.manifest.current(branch)
    catalog = engine.contracts.current().catalog
    absent: dict[TableKey, tuple[IndexSpec, ...]] = {}
    for key in tables:
        entry = head.snapshot.entry(key)
        if entry.row_count >= INDEX_ROWS_MIN:
            specs = list_absent_indexes(catalog.tables[key], engine.store.tables.open(entry.at))
            absent |= {key: specs} if specs else {}
    return absent


def _drop_larger(
    engine: Engine, branch: BranchName, tables: Collection[TableKey], rows_max: int | None
) -> list[TableKey]:
    head = engine.manifest.heads.get(branch) or engine.manifest.current(branch)
    return [
        key for key in tables if rows_max is None or head.snapshot.entry(key).row_count <= rows_max
    ]


def _build_missing(
    engine: Engine,
    target: BranchName,
    actor: str | None,
    tables: Collection[TableKey] | None,
    workers: Workers | None,
    on_progress: OnProgress,
) -> int:
    """Build the missing indexes; return their number."""
    kind, commit_kind = WriterKind.ENSURE_INDICES, CommitKind.ENSURE_INDICES
    header = mint_header(engine.runtime, kind, commit_kind, WriteOptions(actor=actor))
    with (
        nullcontext(workers) if workers is not None else open_local_workers(engine) as open_workers
    ):

        def prepare(view: View) -> tuple[Writes, int]:
            work = list(_find_work(engine, view, tables))
            writes = for_each_table(
                engine,
                lambda table_work: _write(engine, view, *table_work, open_workers),
                work,
                _estimate_cost,
                phase="index",
                on_progress=on_progress,
            )
            return tuple(writes), sum(len(specs) for _, specs in work)

        return run_maintenance(
            engine, header, target, prepare, "ensure indices", open_workers, on_progress
        ).outcome


def _estimate_cost(work: tuple[Entry, tuple[IndexSpec, ...]]) -> int:
    """Estimate how long the indexes of a table take to build, relative to other tables."""
    entry, specs = work
    return entry.row_count * len(specs)


def _find_work(
    engine: Engine, view: View, tables: Collection[TableKey] | None
) -> Iterator[tuple[Entry, tuple[IndexSpec, ...]]]:
    """Find the tables with rows that lack a usable index; a table that a branch has not forked uses the indexes of main."""
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is None or not entry.row_count or (tables is not None and key not in tables):
            continue
        if entry.at.branch is None and lance_branch(view.branch) is not None:
            continue
        specs = list_missing_indexes(type_, engine.store.tables.open(entry.at))
        if specs:
            yield entry, specs


def _write(
    engine: Engine, view: View, entry: Entry, specs: tuple[IndexSpec, ...], workers: Workers
) -> TableWrite:
    """Build outside the locks; a table of another branch is forked first and indexed afterwards."""
    branch = lance_branch(view.branch)
    step = BuildIndexes(view.catalog.tables[entry.table_key], specs)
    if entry.at.branch != branch:
        return TableWrite(
            table_key=entry.table_key, base=entry.at, strict=False, steps=(step,), fork=branch
        )
    helpers = StageWorkers(maintenance=workers)
    staged = stage_commit(engine.store.tables, entry.at, step, helpers).staged
    return TableWrite(table_key=entry.table_key, base=entry.at, strict=False, staged=staged)
