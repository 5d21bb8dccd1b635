"""Optimize: compaction, index coverage and manifest folding; no row changes."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import partial

from omnigraphdb.catalog.model import TableType
from omnigraphdb.commit.liveness import Drift, find_drift
from omnigraphdb.commit.plan import (
    BuildIndexes,
    ClearSettings,
    CompactFragments,
    IndexChoice,
    ReleaseSegments,
    Step,
    TableWrite,
    WriteOptions,
    mint_header,
)
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.commit.stage import StageWorkers, stage_commit
from omnigraphdb.display import Displayable, Report, count_of, tabulate
from omnigraphdb.engine.maintenance.adjacency_files import store_adjacencies
from omnigraphdb.engine.maintenance.indexes import list_pending_indexes
from omnigraphdb.engine.maintenance.operation import (
    Writes,
    for_each_table,
    refuse_pending,
    run_maintenance,
)
from omnigraphdb.engine.results import Commit, spell_engine
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite
from omnigraphdb.errors import (
    ConflictError,
    InternalError,
    ManifestConflict,
    OmniError,
    ReadSetConflict,
)
from omnigraphdb.ids import MAIN, TableKey
from omnigraphdb.limits import ADJACENCY_DRIVER_BYTES_MAX, OPTIMIZE_ROUNDS_MAX
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import OnProgress, ignore_progress
from omnigraphdb.storage.tables import Workers
from omnigraphdb.storage.values import Staged, StagedKind
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_log = get_logger(__name__)


class Skipped(StrEnum):
    """The reason why optimize skipped a table."""

    DRIFT = "drift_needs_repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimized(Value):
    """The fragments that optimize rewrote in one table, and the indexes that it did not build."""

    table_key: TableKey
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: Skipped | None = field(default=None, metadata=wire(omit=True))
    manifest_version: int | None = field(default=None, metadata=wire(omit=True))
    head_version: int | None = field(default=None, metadata=wire(omit=True))
    pending_indexes: tuple[dict[str, str], ...] = ()
    """The `property` and the `reason` of each index that was not built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport(Displayable, Value):
    """The work of optimize, by table; it changes no row, so that `commit` is None."""

    uri: str
    tables: tuple[TableOptimized, ...]
    commit: Commit | None = None
    engine: str = "local"
    """The engine that rewrote fragments and built indexes: this process, or Spark."""
    reason: str = "Spark was not asked for"

    def _report(self) -> Report:
        """List the rewritten fragments of each table."""
        names = ("table_key", "fragments_removed", "fragments_added", "committed", "skipped")
        done = sum(table.committed for table in self.tables)
        return Report(
            title=f"optimize: {done} of {count_of(len(self.tables), 'table')} rewritten",
            facts=spell_engine(self.engine, self.reason),
            grids=(tabulate(self.tables, *names),),
        )


Reports = tuple[TableOptimized, ...]


def optimize(
    engine: Engine,
    *,
    actor: str | None = None,
    workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
) -> OptimizeReport:
    """Compact every table of main, bring its indexes up to date, fold the manifest; all in one publish."""
    engine.require_writable("optimize")
    refuse_pending(engine, "optimize")
    done = _publish(engine, _find_drifted(engine), actor, workers, on_progress)
    _fold(engine)
    view = engine.view(MAIN)
    # With workers elsewhere this process is the driver of Spark.
    bytes_max = None if workers is None else ADJACENCY_DRIVER_BYTES_MAX
    store_adjacencies(engine, view.snapshot.entries, bytes_max)
    staged = {} if done.committed is None else done.committed.staged
    tables = tuple(
        _report(engine, view, report, staged.get(report.table_key)) for report in done.outcome
    )
    return OptimizeReport(uri=engine.uri, tables=tables)


def _prepare(
    engine: Engine,
    view: View,
    drifted: Mapping[TableKey, Drift],
    workers: Workers | None,
    on_progress: OnProgress,
) -> tuple[Writes, Reports]:
    """Examine every table, and stage the first commit of each table that needs commits.

    Tables with drift are skipped, because the drift is the work of another program.
    """
    entries = list(_entries(view))
    reports = tuple(_report_drift(entry, drifted.get(entry.table_key)) for entry, _ in entries)
    pairs_without_drift = [pair for pair in entries if pair[0].table_key not in drifted]
    writes = for_each_table(
        engine,
        lambda pair: _write(engine, *pair, workers),
        pairs_without_drift,
        phase="optimize",
        on_progress=on_progress,
    )
    return tuple(write for write in writes if write is not None), reports


def _write(
    engine: Engine, entry: Entry, type_: TableType, workers: Workers | None
) -> TableWrite | None:
    """Plan the commits that a table needs; the first commit that has something to do is staged outside the locks."""
    steps = _steps(type_, after_compaction=False)
    for number, step in enumerate(steps):
        staged = stage_commit(engine.store.tables, entry.at, step, StageWorkers(workers)).staged
        if staged is not None:
            return TableWrite(
                table_key=entry.table_key,
                base=entry.at,
                strict=False,
                staged=staged,
                steps=_steps(type_, after_compaction=True)[number + 1 :],
            )
    return None


def _steps(type_: TableType, *, after_compaction: bool) -> tuple[Step, ...]:
    """Remove settings that delete versions, compact, complete the indexes: in this order."""
    indexes = BuildIndexes(type_, IndexChoice.INCOMPLETE, after_compaction=after_compaction)
    return ClearSettings(), ReleaseSegments(), CompactFragments(), indexes


def _publish(
    engine: Engine,
    drifted: Mapping[TableKey, Drift],
    actor: str | None,
    workers: Workers | None,
    on_progress: OnProgress,
) -> CompletedWrite[Reports]:
    """Commit, and begin anew if a program that takes no locks committed between two commits of this operation.

    The operation has rolled its commits back by then, so that the next round does not see them as drift.
    """
    last: ConflictError = ReadSetConflict("the set of tables")
    prepare = partial(_prepare, engine, drifted=drifted, workers=workers, on_progress=on_progress)
    for _ in range(OPTIMIZE_ROUNDS_MAX):
        header = mint_header(
            engine.runtime, WriterKind.OPTIMIZE, CommitKind.OPTIMIZE, WriteOptions(actor=actor)
        )
        try:
            return run_maintenance(engine, header, MAIN, prepare, "optimize", workers, on_progress)
        except ManifestConflict as error:
            last = error
            _log.warning("optimize.repeated", reason=str(error))
    raise last


def _entries(view: View) -> Iterator[tuple[Entry, TableType]]:
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is not None:
            yield entry, type_


# ---- one table


def _find_drifted(engine: Engine) -> Mapping[TableKey, Drift]:
    """Compare every HEAD with its pin before any lock is held, because the comparison waits for live writers."""
    drifted: dict[TableKey, Drift] = {}
    for entry, _ in _entries(engine.view(MAIN)):
        drift = find_drift(engine.committer, MAIN, entry)
        if drift is None or engine.recovery.undo_late(MAIN, entry.table_key):
            continue
        if drift.head < drift.pin:
            raise InternalError(
                f"{entry.table_key} is pinned at {drift.pin}, its newest version is {drift.head}; nothing was written"
            )
        drifted[entry.table_key] = drift
    return drifted


def _report_drift(entry: Entry, drift: Drift | None) -> TableOptimized:
    return TableOptimized(
        table_key=entry.table_key,
        skipped=None if drift is None else Skipped.DRIFT,
        manifest_version=entry.version,
        head_version=entry.version if drift is None else drift.head,
    )


def _report(
    engine: Engine, view: View, report: TableOptimized, staged: tuple[Staged, ...] | None
) -> TableOptimized:
    """Complete the report of an examined table; `staged` are its commits, None when it needed none."""
    if report.skipped is not None:
        return report
    rewrites = [commit for commit in staged or () if commit.kind is StagedKind.COMPACTION]
    left = list_pending_indexes(engine, view, (report.table_key,))
    return replace(
        report,
        committed=staged is not None,
        fragments_removed=sum(rewrite.fragments_removed for rewrite in rewrites),
        fragments_added=sum(rewrite.fragments_added for rewrite in rewrites),
        manifest_version=None,
        head_version=None,
        pending_indexes=tuple(
            {"property": index.column, "reason": index.reason or ""} for index in left
        ),
    )


# ---- the manifest


def _fold(engine: Engine) -> None:
    """Fold the manifest and the lineage tables of older graphs; readers use their HEADs, so that nothing is published."""
    legacy = engine.manifest.legacy
    older = () if legacy is None else (legacy.commits, legacy.actors)
    try:
        with engine.manifest.lock_branch(MAIN):
            folded = [engine.manifest.fold(MAIN, whole=True)]
            folded += [rows.fold(None, whole=True) for rows in older if rows.exists()]
    except OmniError as error:
        _log.warning("manifest.fold_failed", branch=MAIN, reason=str(error))
        return
    if any(folded):
        engine.manifest.heads.drop(MAIN)
