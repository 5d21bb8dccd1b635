"""Optimise: compaction, index coverage and manifest folding, without changing a row."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from omnigraph.catalog.model import TableType
from omnigraph.commit.plan import Step, TableWrite
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.engine import Engine
from omnigraph.engine.upkeep.indices import pending
from omnigraph.engine.upkeep.refusals import refuse_pending
from omnigraph.engine.upkeep.wanted import incomplete
from omnigraph.engine.upkeep.work import Writes, each, maintenance
from omnigraph.errors import InternalError, OmniError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, TableKey
from omnigraph.logs import get_logger
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.tables import Staged, TableAt, Tables

_log = get_logger(__name__)


class Skipped(StrEnum):
    """Why a table was left as it is."""

    DRIFT = "drift_needs_repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimized:
    """What optimising did to one table."""

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

    def add(self, staged: Staged | None) -> Staged | None:
        """Count what a staged rewrite will do."""
        if staged is not None:
            self.removed += staged.fragments_removed
            self.added += staged.fragments_added
        return staged


def optimize(engine: Engine, *, actor: str | None = None) -> tuple[TableOptimized, ...]:
    """Compact every table of main, bring its indexes up to date, fold the manifest; all in one publish."""
    engine.require_writable("optimize")
    refuse_pending(engine, "optimize")
    operation = maintenance(engine, WriterKind.OPTIMIZE, CommitKind.OPTIMIZE, MAIN, actor)
    reports: dict[TableKey, TableOptimized] = {}
    counted: dict[TableKey, _Counts] = {}

    def prepared(view: View) -> Writes:
        reports.clear()
        counted.clear()
        entries = list(_entries(view))
        reports.update({entry.table_key: _looked(engine, entry) for entry, _ in entries})
        sound = [one for one in entries if reports[one[0].table_key].skipped is None]
        counted.update({entry.table_key: _Counts() for entry, _ in sound})
        found = each(engine, lambda one: _write(engine, *one, counted[one[0].table_key]), sound)
        return tuple(write for write in found if write is not None)

    published = operation.run(prepared, "optimize")
    _fold(engine)
    done = published.state.snapshot.pins if published is not None else {}
    view = engine.view(MAIN)
    return tuple(
        _report(engine, view, report, counted.get(key), committed=_moved(report, done.get(key)))
        for key, report in reports.items()
    )


def _entries(view: View) -> Iterator[tuple[Entry, TableType]]:
    for key, type_ in view.catalog.tables.items():
        entry = view.snapshot.entries.get(key)
        if entry is not None:
            yield entry, type_


# ---- one table


def _looked(engine: Engine, entry: Entry) -> TableOptimized:
    """Compare HEAD with the pin; drift is somebody else's work, which is not optimised away."""
    head = engine.store.tables.head(entry.at.path, entry.at.branch)
    if head < entry.version:
        raise InternalError(
            f"{entry.table_key} is pinned at {entry.version}, its newest version is {head}; nothing was written"
        )
    return TableOptimized(
        table_key=entry.table_key,
        skipped=Skipped.DRIFT if head > entry.version else None,
        manifest_version=entry.version,
        head_version=head,
    )


def _write(engine: Engine, entry: Entry, type_: TableType, counts: _Counts) -> TableWrite | None:
    """The commits a table needs; the first that has something to do is staged outside the turns."""
    steps = _steps(type_, counts)
    for number, step in enumerate(steps):
        staged = step(engine.store.tables, entry.at)
        if staged is not None:
            return TableWrite(
                table_key=entry.table_key,
                base=entry.at,
                strict=False,
                staged=staged,
                steps=steps[number + 1 :],
            )
    return None


def _steps(type_: TableType, counts: _Counts) -> tuple[Step, ...]:
    """No setting that deletes versions, few fragments, complete indexes: in this order."""

    def settle(tables: Tables, at: TableAt) -> Staged | None:
        return tables.stage_settings(at)

    def release(tables: Tables, at: TableAt) -> Staged | None:
        return tables.stage_release(at)

    def compact(tables: Tables, at: TableAt) -> Staged | None:
        return counts.add(tables.stage_compaction(at))

    def index(tables: Tables, at: TableAt) -> Staged | None:
        fail(Failpoint.OPTIMIZE_COMPACTED)
        specs = incomplete(type_, tables.open(at)) if tables.open(at).count() else ()
        return tables.stage_indices(at, specs) if specs else None

    return settle, release, compact, index


def _moved(report: TableOptimized, version: int | None) -> bool:
    return report.skipped is None and version is not None and version != report.manifest_version


def _report(
    engine: Engine,
    view: View,
    report: TableOptimized,
    counts: _Counts | None,
    *,
    committed: bool,
) -> TableOptimized:
    if report.skipped is not None or counts is None:
        return report
    left = pending(engine, view, (report.table_key,))
    return replace(
        report,
        committed=committed,
        fragments_removed=counts.removed if committed else 0,
        fragments_added=counts.added if committed else 0,
        manifest_version=None,
        head_version=None,
        pending_indexes=tuple({"property": o.column, "reason": o.reason or ""} for o in left),
    )


# ---- the manifest


def _fold(engine: Engine) -> None:
    """Fold the manifest, and the lineage tables of older graphs; they are read at HEAD, nothing is published."""
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
