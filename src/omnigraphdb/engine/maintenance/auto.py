"""Automatic maintenance: after a commit the writer compacts and indexes its tables; a failure never fails the write."""

from collections.abc import Hashable, Iterable

from omnigraphdb.catalog.model import TableType
from omnigraphdb.commit.locks import HeldLocks, lock_key
from omnigraphdb.commit.plan import (
    ANONYMOUS,
    BuildIndexes,
    CompactFragments,
    IndexChoice,
    TableWrite,
    mint_header,
)
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.commit.stage import stage_commit
from omnigraphdb.engine.maintenance.operation import commit_maintenance
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import (
    AUTO_COMPACT_BYTES_MAX,
    AUTO_COMPACT_ROWS_MAX,
    SMALL_FRAGMENTS_MAX,
)
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.records import CommitKind, lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import FragmentInfo

_log = get_logger(__name__)

_ACTIVITY = Activity(str(WriterKind.OPTIMIZE))


def maintain_touched(engine: Engine, branch: BranchName, tables: Iterable[TableKey]) -> None:
    """Maintain the tables of a commit that was just published, one after the other, where that is due."""
    if engine.settings.maintenance == "off":
        return
    head = engine.manifest.heads.get(branch)
    if head is None:
        return
    for table in tables:
        entry = head.snapshot.entries.get(table)
        if entry is not None and entry.at.branch == lance_branch(branch):
            _maintain_table(engine, branch, entry)


def _maintain_table(engine: Engine, branch: BranchName, entry: Entry) -> None:
    try:
        count = engine.store.tables.open(entry.at).fragment_count()
        if engine.fragment_counts.is_due(_watch_key(entry), count):
            _compact_table(engine, branch, entry.table_key)
    except OmniError as error:
        # The write is committed already; recovery completes maintenance that failed half-way.
        _log.warning("maintenance.failed", table=entry.table_key, branch=branch, reason=str(error))
        engine.recovery.note_own_failure(error)


def _compact_table(engine: Engine, branch: BranchName, table_key: TableKey) -> None:
    """Compact small fragments unless another writer holds the lock: the next writer will do it."""
    key = lock_key(table_key, lance_branch(branch))
    with engine.committer.locks.try_acquire([key], _ACTIVITY) as held_locks:
        if held_locks is not None:
            _compact_locked(engine, branch, table_key, held_locks)


def _compact_locked(
    engine: Engine, branch: BranchName, table_key: TableKey, held_locks: HeldLocks
) -> None:
    view = engine.view(branch)
    entry = view.snapshot.entries.get(table_key)
    type_ = view.catalog.tables.get(table_key)
    if entry is None or type_ is None or entry.at.branch != lance_branch(branch):
        return
    write = _write(engine.store.tables, entry, type_)
    if write is None:
        engine.fragment_counts.note(
            _watch_key(entry), engine.store.tables.open(entry.at).fragment_count()
        )
        return
    header = mint_header(engine.runtime, WriterKind.OPTIMIZE, CommitKind.OPTIMIZE, ANONYMOUS)
    published = commit_maintenance(engine, header, view, (write,), held_locks)
    after = published.state.snapshot.entry(table_key)
    engine.fragment_counts.note(
        _watch_key(after), engine.store.tables.open(after.at).fragment_count()
    )


def _write(tables: Tables, entry: Entry, type_: TableType) -> TableWrite | None:
    table = tables.open(entry.at)
    rows_max = _rows_max(table.fragments())
    if rows_max is None:
        return None
    staged = stage_commit(tables, entry.at, CompactFragments(rows_max)).staged
    if staged is None:
        return None
    return TableWrite(
        table_key=entry.table_key,
        base=entry.at,
        strict=False,
        staged=staged,
        # Few uncovered rows are scanned in no time; an index is extended once they are worth a segment.
        steps=(BuildIndexes(type_, IndexChoice.WORTHWHILE, after_compaction=True),),
    )


def _rows_max(fragments: Iterable[FragmentInfo]) -> int | None:
    """Return the size below which fragments are rewritten now; None if too few are small enough."""
    small = [fragment for fragment in fragments if fragment.physical_rows < AUTO_COMPACT_ROWS_MAX]
    rows = sum(fragment.physical_rows for fragment in small)
    size = sum(fragment.bytes for fragment in small)
    if len(small) <= SMALL_FRAGMENTS_MAX:
        return None
    # Of wide rows, only as many are rewritten as the bound on bytes allows.
    allowed = (
        AUTO_COMPACT_ROWS_MAX
        if size <= AUTO_COMPACT_BYTES_MAX
        else rows * AUTO_COMPACT_BYTES_MAX // size
    )
    return allowed if sum(fragment.physical_rows < allowed for fragment in small) > 1 else None


def _watch_key(entry: Entry) -> Hashable:
    return entry.at.path, entry.at.branch, entry.branch_incarnation
