"""Optimize: compaction, index coverage and manifest folding; no row changes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from omnigraph.catalog.model import TableType
from omnigraph.commit.liveness import Drift, find_drift
from omnigraph.commit.plan import Step, TableWrite, mint_header
from omnigraph.commit.sidecar import WriterKind
from omnigraph.commit.wanted_indexes import list_incomplete_indexes
from omnigraph.engine.maintenance.indexes import list_pending_indexes
from omnigraph.engine.maintenance.operation import (
    Writes,
    for_each_table,
    refuse_pending,
    run_maintenance,
)
from omnigraph.engine.results import Commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import (
    ConflictError,
    InternalError,
    ManifestConflict,
    OmniError,
    ReadSetConflict,
)
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, TableKey
from omnigraph.limits import OPTIMIZE_ROUNDS_MAX
from omnigraph.logs import get_logger
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.tables import Tables, Workers
from omnigraph.storage.values import Staged, TableAt
from omnigraph.values import dataclass

_log = get_logger(__name__)


class Skipped(StrEnum):
    """Why optimize skipped a table."""

    DRIFT = "drift_needs_repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimized:
    """What optimize did to one table."""

    table_key: TableKey
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: Skipped | None = None
    manifest_version: int | None = None
    head_version: int | None = None
    pending_indexes: tuple[dict[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["pending_indexes"] = list(self.pending_indexes)
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(slots=True)
class _Counts:
    """How the fragments of one table change over its commits."""

    removed: int = 0
    added: int = 0
    is_planned: bool = False

    def add(self, staged: Staged | None) -> Staged | None:
        """Count the fragments that a staged rewrite removes and adds."""
        if staged is not None:
            self.removed += staged.fragments_removed
            self.added += staged.fragments_added
        return staged


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What optimising did, by table; it changes no row, so that `commit` is None."""

    uri: str
    tables: tuple[TableOptimized, ...]
    commit: Commit | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "tables": [one.to_dict() for one in self.tables],
            "commit": None if self.commit is None else self.commit.to_dict(),
        }


def optimize(
    engine: Engine, *, actor: str | None = None, workers: Workers | None = None
) -> OptimizeReport:
    """Compact every table of main, bring its indexes up to date, fold the manifest; all in one publish."""
    engine.require_writable("optimize")
    refuse_pending(engine, "optimize")
    run = _Run(_find_drifted(engine), {}, {}, workers)
    _publish(engine, run, actor)
    _fold(engine)
    view = engine.view(MAIN)
    tables = tuple(
        _report(engine, view, report, run.counts.get(key)) for key, report in run.reports.items()
    )
    return OptimizeReport(uri=engine.uri, tables=tables)


@dataclass(frozen=True, slots=True)
class _Run:
    """The outcome of the last attempt, by table; tables with drift are skipped, because the drift is the work of somebody else."""

    drifted: Mapping[TableKey, Drift]
    reports: dict[TableKey, TableOptimized]
    counts: dict[TableKey, _Counts]
    workers: Workers | None

    def prepare(self, engine: Engine, view: View) -> Writes:
        """Examine every table and stage the first commit of those that need one."""
        self.reports.clear()
        self.counts.clear()
        sound: list[tuple[Entry, TableType]] = []
        for entry, type_ in _entries(view):
            drift = self.drifted.get(entry.table_key)
            self.reports[entry.table_key] = _report_drift(entry, drift)
            if drift is None:
                sound.append((entry, type_))
                self.counts[entry.table_key] = _Counts()
        writes = for_each_table(engine, lambda one: self._write(engine, *one), sound)
        return tuple(write for write in writes if write is not None)

    def _write(self, engine: Engine, entry: Entry, type_: TableType) -> TableWrite | None:
        """Plan the commits that a table needs; the first one that has something to do is staged outside the locks."""
        counts = self.counts[entry.table_key]
        steps = _steps(type_, entry.at, counts, self.workers)
        for number, step in enumerate(steps):
            staged = step(engine.store.tables, entry.at)
            if staged is not None:
                counts.is_planned = True
                return TableWrite(
                    table_key=entry.table_key,
                    base=entry.at,
                    strict=False,
                    staged=staged,
                    steps=steps[number + 1 :],
                )
        return None


def _publish(engine: Engine, run: _Run, actor: str | None) -> None:
    """Commit, and begin anew if a program that takes no locks committed between two of our commits.

    The operation has rolled its commits back by then, so that the next round does not see them as drift.
    """
    last: ConflictError = ReadSetConflict("the set of tables")
    for _ in range(OPTIMIZE_ROUNDS_MAX):
        header = mint_header(engine.runtime, WriterKind.OPTIMIZE, CommitKind.OPTIMIZE, actor)
        try:
            run_maintenance(
                engine, header, MAIN, lambda view: (run.prepare(engine, view), None), "optimize"
            )
            return
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


def _steps(
    type_: TableType, base: TableAt, counts: _Counts, workers: Workers | None
) -> tuple[Step, ...]:
    """Remove settings that delete versions, compact, complete the indexes: in this order."""

    def reset_settings(tables: Tables, at: TableAt) -> Staged | None:
        return tables.stage_settings(at)

    def release(tables: Tables, at: TableAt) -> Staged | None:
        return tables.stage_release(at)

    def compact(tables: Tables, at: TableAt) -> Staged | None:
        return counts.add(tables.stage_compaction(at, workers=workers))

    def index(tables: Tables, at: TableAt) -> Staged | None:
        if at != base:
            fail(Failpoint.OPTIMIZE_COMPACTED)
        table = tables.open(at)
        specs = list_incomplete_indexes(type_, table) if table.count() else ()
        return tables.stage_indices(at, specs, workers) if specs else None

    return reset_settings, release, compact, index


def _report(
    engine: Engine,
    view: View,
    report: TableOptimized,
    counts: _Counts | None,
) -> TableOptimized:
    if counts is None:
        return report
    pending = list_pending_indexes(engine, view, (report.table_key,))
    return replace(
        report,
        committed=counts.is_planned,
        fragments_removed=counts.removed,
        fragments_added=counts.added,
        manifest_version=None,
        head_version=None,
        pending_indexes=tuple({"property": o.column, "reason": o.reason or ""} for o in pending),
    )


# ---- the manifest


def _fold(engine: Engine) -> None:
    """Fold the manifest and the lineage tables of older graphs; readers use their HEADs, so that nothing is published."""
    tables = [engine.manifest.rows]
    legacy = engine.manifest.legacy
    try:
        if legacy is not None:
            tables += [rows for rows in (legacy.commits, legacy.actors) if rows.exists()]
        folded = [rows.fold(None) for rows in tables]
    except OmniError as error:
        _log.warning("manifest.fold_failed", branch=MAIN, reason=str(error))
        return
    if any(folded):
        engine.manifest.heads.drop(MAIN)
