"""Inserts that were prepared on an earlier state of their tables, and that are still right on the current one."""

from collections.abc import Iterator
from dataclasses import replace

from omnigraphdb.catalog.model import NodeType
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.commit.plan import TableWrite, WritePlan
from omnigraphdb.engine.writer import GroupView
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import StagedKind

_NEW_ROWS = frozenset({DeltaKind.INSERT, DeltaKind.APPEND, DeltaKind.MERGE})


def keep_inserts(
    tables: Tables, first: View, plan: WritePlan, current: GroupView
) -> WritePlan | None:
    """Give the plan of a write that only inserts, moved to the current state; None if the write must be prepared again.

    A new node is right on every state without its id, unless its type has unique properties. Edges rely on rows of other
    tables, and so does every write with a read set that moved.
    """
    if current.accepted is not first.accepted or not _has_unmoved_read_set(plan, current):
        return None
    kept_writes = tuple(_keep_writes(tables, plan, current))
    return replace(plan, tables=kept_writes) if len(kept_writes) == len(plan.tables) else None


def _has_unmoved_read_set(plan: WritePlan, current: View) -> bool:
    pins = current.snapshot.pins
    return all(pins.get(table) == version for table, version in plan.read_set.items())


def _keep_writes(tables: Tables, plan: WritePlan, current: GroupView) -> Iterator[TableWrite]:
    """List the writes that can be kept, on the current versions."""
    for write in plan.tables:
        entry = current.snapshot.entries.get(write.table_key)
        if entry is None or not _adds_nodes_alone(write):
            return
        assert write.delta is not None, "rows that are not in memory join no group"
        assert write.staged is not None, "a member is staged before it joins"
        is_same_line = (entry.at.path, entry.at.branch) == (write.base.path, write.base.branch)
        if is_same_line and current.ids.has_none_of(entry, write.delta.ids):
            moved_append = tables.move_append(write.staged, entry.at)
            yield replace(write, base=entry.at, staged=moved_append)


def _adds_nodes_alone(write: TableWrite) -> bool:
    delta, staged = write.delta, write.staged
    if delta is None or staged is None or staged.kind is not StagedKind.APPEND:
        return False
    is_plain = delta.kind in _NEW_ROWS and not len(delta.deleted)
    return is_plain and isinstance(delta.type, NodeType) and not delta.type.unique
