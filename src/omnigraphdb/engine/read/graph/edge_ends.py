"""The ends of all edges of a table version; ends in fragments that an earlier version has are copied, not read."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.engine.read.columns.entities import ID, Entities
from omnigraphdb.engine.read.columns.layout import (
    CachedColumn,
    Layout,
    LayoutChange,
    compare_layouts,
)
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    Mask,
    RowIds,
    indices_of,
    no_row_ids,
)
from omnigraphdb.engine.read.columns.row_offsets import RowOffsets
from omnigraphdb.engine.read.graph.adjacency import Ends, join_ends
from omnigraphdb.engine.read.renamed_table import RenamedTable
from omnigraphdb.errors import NotFoundError
from omnigraphdb.limits import LOOKUP_VALUES_MAX
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import FragmentInfo, Offsets
from omnigraphdb.values import dataclass

SOURCE, TARGET = "src", "dst"
_MOVED_PART = 2
"""Ends are copied if fewer than one in this many stands in a fragment that is new; two versions are compared likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIds:
    """The row ids and the ids of all nodes of a layout, in column order."""

    layout: Layout
    row_offsets: RowOffsets
    ids: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeEnds:
    """The ends of every edge of a layout, in column order; -1 for an end that does not exist, `dangling` if there is one."""

    entry: Entry | None
    edges: Layout
    sources: Layout
    targets: Layout
    ends: Ends
    dangling: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeReader:
    """One edge table with the nodes at both ends."""

    edges: Entities
    sources: Entities
    targets: Entities

    def read_all(self) -> EdgeEnds:
        """Read the ends of all edges through the cache."""
        layouts = (self.edges.layout, self.sources.layout, self.targets.layout)
        family = (self.edges.layout.path, "ends")
        previous: EdgeEnds | None = self.edges.cache.latest(family)
        return self.edges.cache.get(
            (*layouts, "ends"),
            lambda: self._keep(
                self._extend(previous) or self.read_fragments(self.edges.layout.fragments)
            ),
            lambda edge_ends: edge_ends.ends.nbytes,
            family,
        )

    def read_fragments(self, fragments: Sequence[FragmentInfo], at: Entry | None = None) -> Ends:
        """Read the edges of some fragments by their ends, of this version or of another one."""
        if not fragments:
            return no_ends()
        table: Table | RenamedTable = (
            self.edges.table if at is None else self.edges.tables.open(at.at)
        )
        parts = [fragment.id for fragment in fragments]
        rows = table.read((SOURCE, TARGET), row_id=True, fragments=parts)
        edges = column(rows, ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64)
        near, far = column(rows, SOURCE), column(rows, TARGET)
        if len(edges) <= LOOKUP_VALUES_MAX:
            return Ends(
                near=self.sources.row_ids_of(near), far=self.targets.row_ids_of(far), edges=edges
            )
        with ThreadPoolExecutor(1) as executor:
            sources = executor.submit(self.sources.row_ids_of, near)
            targets = self.targets.row_ids_of(far)
            return Ends(near=sources.result(), far=targets, edges=edges)

    def stream(self, batch_rows: int) -> Iterator[Ends]:
        """Read the ends of all edges part by part; nothing is cached."""
        assert self.edges.entry is not None, "a table that did not exist has no edges"
        table = self.edges.tables.open(self.edges.entry.at)
        batches = table.scan((SOURCE, TARGET), row_id=True, batch_rows=batch_rows, bounded=True)
        sources, targets = self.sources.id_finder(), self.targets.id_finder()
        for rows in _gather_rows(batches, batch_rows):
            yield Ends(
                near=sources(column(rows, SOURCE)),
                far=targets(column(rows, TARGET)),
                edges=column(rows, ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64),
            )

    def _keep(self, ends: Ends) -> EdgeEnds:
        return EdgeEnds(
            entry=self.edges.entry,
            edges=self.edges.layout,
            sources=self.sources.layout,
            targets=self.targets.layout,
            ends=ends,
            dangling=bool((ends.near == ABSENT).any() or (ends.far == ABSENT).any()),
        )

    # ---- from an earlier version

    def _extend(self, previous: EdgeEnds | None) -> Ends | None:
        """Copy the ends of earlier edges and read the others; None if too many must be read, or a node was replaced."""
        if previous is None or previous.dangling:
            return None
        change = compare_layouts(previous.edges, self.edges.layout)
        if _MOVED_PART * sum(fragment.rows for fragment in change.fresh) > self.edges.layout.rows:
            return None
        gone_sources = self._find_gone(self.sources, previous.sources)
        gone_targets = self._find_gone(self.targets, previous.targets)
        if gone_sources is None or gone_targets is None:
            return None
        try:
            deleted = find_deleted(self.edges.tables, previous.entry, self.edges.entry, change)
        except NotFoundError:
            # Cleanup has removed the earlier version.
            return None
        fresh = self.read_fragments(change.fresh)
        # Only former ends are cleared: in another incarnation of a branch, a new node may have the row id of a lost one.
        former = Ends(
            near=_clear(previous.ends.near, gone_sources),
            far=_clear(previous.ends.far, gone_targets),
            edges=previous.ends.edges,
        )
        former_edges = replace(previous, ends=former)
        return join_ends(list(_lay_out(former_edges, self.edges.layout, change, deleted, fresh)))

    def _find_gone(self, nodes: Entities, before: Layout) -> RowIds | None:
        """Find the nodes that no longer exist; None if one of them was replaced by another node of the same id."""
        former, now = cached_node_ids(nodes, before), read_node_ids(nodes)
        if before is nodes.layout:
            return no_row_ids()
        if former is None:
            return None
        lost_offsets = find_lost_nodes(former, now)
        replaced = pc.is_in(now.ids, value_set=former.ids.take(indices_of(lost_offsets)))
        if len(lost_offsets) and pc.any(replaced, min_count=0).as_py():
            return None
        return former.row_offsets.at(lost_offsets)


def _gather_rows(batches: pa.RecordBatchReader, rows: int) -> Iterator[pa.Table]:
    """Join the batches of small fragments: finding ids takes as long for few of them as for many."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(part.num_rows for part in gathered) >= rows:
            yield pa.Table.from_batches(gathered)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered)


def no_ends() -> Ends:
    """Return the ends of no edge."""
    return Ends(near=no_row_ids(), far=no_row_ids(), edges=no_row_ids())


def _lay_out(
    previous: EdgeEnds,
    layout: Layout,
    change: LayoutChange,
    deleted: Mapping[FragmentInfo, Integers],
    fresh: Ends,
) -> Iterator[Ends]:
    """Slice the former and the fresh ends in the order of a layout."""
    before = {new: old for old, new in change.thinned}
    used = 0
    yield no_ends()
    for fragment in layout.fragments:
        old = before.get(fragment, fragment)
        start = previous.edges.starts.get(old)
        if start is None:
            yield fresh.keep(slice(used, used + fragment.rows))
            used += fragment.rows
            continue
        part = previous.ends.keep(slice(start, start + old.rows))
        yield part if old is fragment else part.keep(_without(old.rows, deleted[old]))


def _without(rows: int, deleted: Integers) -> Mask:
    mask = np.ones(rows, dtype=bool)
    mask[deleted] = False
    return mask


def _clear(row_ids: RowIds, lost: RowIds) -> RowIds:
    """Replace nodes that no longer exist by -1."""
    return np.where(np.isin(row_ids, lost), ABSENT, row_ids) if len(lost) else row_ids


# ---- which nodes


def read_node_ids(nodes: Entities) -> NodeIds:
    """Read the row ids and the ids of all nodes."""
    return NodeIds(layout=nodes.layout, row_offsets=nodes.row_offsets, ids=nodes.whole(ID))


def cached_node_ids(nodes: Entities, layout: Layout) -> NodeIds | None:
    """Return the row ids and the ids of all nodes of another layout, if cached."""
    row_offsets: RowOffsets | None = nodes.cache.peek((layout, "row_offsets"))
    ids: CachedColumn | None = (
        nodes.cache.peek((layout, "column", nodes.fields[ID])) if len(nodes) else None
    )
    if row_offsets is None or ids is None:
        return None
    return NodeIds(layout=layout, row_offsets=row_offsets, ids=ids.values)


def find_lost_nodes(before: NodeIds, now: NodeIds) -> Integers:
    """Find the former nodes that do not exist with the same row id and the same id: their former offsets."""
    lost = [part for part in before.layout.fragments if part not in now.layout.starts]
    if not lost:
        return no_row_ids()
    starts = before.layout.starts
    offsets = np.concatenate(
        [np.arange(starts[part], starts[part] + part.rows, dtype=np.int64) for part in lost]
    )
    current_offsets = now.row_offsets.of(before.row_offsets.at(offsets))
    same_ids = pc.equal(
        before.ids.take(indices_of(offsets)), now.ids.take(indices_of(current_offsets))
    )
    return np.asarray(offsets[~pc.fill_null(same_ids, False).to_numpy(zero_copy_only=False)])


# ---- which edges


def compare_ends(tables: Tables, before: EdgeEnds, now: EdgeEnds) -> tuple[Ends, Ends] | None:
    """Find the edges whose rows are gone and the edges whose rows are new; None if most rows were written anew.

    Edges that were only rewritten, by a compaction or with other properties, are both.
    """
    change = compare_layouts(before.edges, now.edges)
    if (
        _MOVED_PART * sum(fragment.rows for fragment in (*change.lost, *change.fresh))
        > now.edges.rows
    ):
        return None
    try:
        deleted = find_deleted(tables, before.entry, now.entry, change)
    except NotFoundError:
        # Cleanup has removed the earlier version.
        return None
    lost_offsets = [_list_offsets(before.edges, fragment) for fragment in change.lost]
    lost_offsets += [before.edges.starts[old] + offsets for old, offsets in deleted.items()]
    fresh_offsets = [_list_offsets(now.edges, fragment) for fragment in change.fresh]
    return _pick(before, lost_offsets), _pick(now, fresh_offsets)


def _list_offsets(layout: Layout, fragment: FragmentInfo) -> Integers:
    start = layout.starts[fragment]
    return np.arange(start, start + fragment.rows, dtype=np.int64)


def _pick(edge_ends: EdgeEnds, offsets: Sequence[Integers]) -> Ends:
    return edge_ends.ends.keep(np.concatenate([no_row_ids(), *offsets]))


def find_deleted(
    tables: Tables, before: Entry | None, now: Entry | None, change: LayoutChange
) -> Mapping[FragmentInfo, Integers]:
    """Find the rows that were deleted in place, by former fragment: their offsets among its live rows."""
    if not change.thinned or before is None or now is None:
        return {}
    fragments = [old.id for old, _ in change.thinned]
    deleted_before, deleted_now = (
        tables.open(entry.at).deleted(fragments) for entry in (before, now)
    )
    return {
        old: _live_offsets(
            np.setdiff1d(deleted_now[old.id], deleted_before[old.id]), deleted_before[old.id]
        )
        for old, _ in change.thinned
    }


def contained_in(some: Ends, others: Ends) -> Mask:
    """Mark the edges that `others` contain, with the same row id and the same ends."""
    if not len(some.edges) or not len(others.edges):
        return np.zeros(len(some.edges), dtype=bool)
    order = np.argsort(others.edges, kind="stable")
    offsets = np.searchsorted(others.edges, some.edges, sorter=order)
    candidates = others.keep(order[np.minimum(offsets, len(order) - 1)])
    same_ends = (candidates.near == some.near) & (candidates.far == some.far)
    return np.asarray(same_ends & (candidates.edges == some.edges))


def _live_offsets(offsets: Offsets, deleted: Offsets) -> Integers:
    """Convert physical offsets to offsets among the rows that are not deleted."""
    return np.asarray(offsets - np.searchsorted(deleted, offsets), dtype=np.int64)
