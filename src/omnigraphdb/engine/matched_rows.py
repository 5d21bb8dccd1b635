"""The rows that a strict write matched: the write may be prepared again while no row of them changed or was removed."""

from collections.abc import Iterator
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import LAST_UPDATED
from omnigraphdb.commit.plan import TableWrite, WritePlan
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.errors import ManifestConflict
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.manifest.lineage import Lineage
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Tables


def require_matched_rows(tables: Tables, first: View, plan: WritePlan, current: View) -> None:
    """Refuse to prepare a plan again when the rows that it would replace or remove changed after the plan read them.

    `first` is the view the plan was prepared on. An update or a delete conflicts with a change of its rows, an
    overwrite with any change of its type. A merge compares rows itself whenever it is prepared.
    """
    for write in _list_strict_writes(plan):
        entry = current.snapshot.entries.get(write.table_key)
        if entry is not None and entry.at == write.base:
            continue
        if entry is None or _is_changed(tables, first, write, current):
            actual = Version(0) if entry is None else entry.version
            raise ManifestConflict(write.table_key, write.base.version, actual)


def _list_strict_writes(plan: WritePlan) -> Iterator[TableWrite]:
    if plan.kind is not WriterKind.BRANCH_MERGE:
        yield from (write for write in plan.tables if write.strict)


def _is_changed(tables: Tables, first: View, write: TableWrite, current: View) -> bool:
    if write.delta is None or write.delta.replaces:
        return _is_named_since(first, current.lineage, write.table_key)
    ids = write.delta.touched
    before = tables.open(write.base).lookup("id", ids, ["id"])
    after = tables.open(current.snapshot.entry(write.table_key).at).lookup(
        "id", column(before, "id"), [LAST_UPDATED]
    )
    # A row that was removed and inserted again was updated last by its insert.
    return after.num_rows != before.num_rows or _has_newer(after, write.base.version)


def _has_newer(rows: pa.Table, version: Version) -> bool:
    return bool(pc.any(pc.greater(rows[LAST_UPDATED], version)).as_py())


def _is_named_since(first: View, lineage: Lineage, table: TableKey) -> bool:
    """Whether a commit since a view names the table; maintenance makes no commit."""
    newest_first = reversed(lineage.commits)
    newer = takewhile(lambda commit: commit.id != first.commit, newest_first)
    return any(table in commit.tables for commit in newer)
