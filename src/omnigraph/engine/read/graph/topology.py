"""Topology: one edge table with the nodes at both ends, and the adjacencies that are built from it."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.names import ROW_ID
from omnigraph.compile.checked import Direction
from omnigraph.engine.read import costs
from omnigraph.engine.read.columns.entities import Entities
from omnigraph.engine.read.columns.layout import Layout, LayoutChange, compare_layouts
from omnigraph.engine.read.columns.row_ids import ABSENT, RowIds
from omnigraph.engine.read.graph.adjacency import (
    Adjacency,
    Ends,
    NeighbourUnit,
    Slots,
    add_edges,
    compress,
    drop_dangling,
    join_ends,
    make_slots,
    remove_edges,
)
from omnigraph.engine.read.graph.edge_ends import (
    SOURCE,
    TARGET,
    EdgeReader,
    cached_node_ids,
    contained_in,
    find_deleted,
    find_lost_nodes,
    no_ends,
    read_node_ids,
)
from omnigraph.errors import NotFoundError
from omnigraph.manifest.snapshot import Entry
from omnigraph.storage.arrow import column
from omnigraph.storage.values import IndexKind
from omnigraph.values import dataclass

_PATCH_PART = 16
"""An adjacency is patched if the added and moved edges are fewer than one in this many."""


_GONE_MAX = 1_000
"""Up to so many deleted edges are removed one by one; with more of them the adjacency is built again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAdjacency:
    """An adjacency and the layouts it was built from; `dangling` if an end of some edge did not exist.

    `entry` is a version of the edge table with the layout `edges`.
    """

    adjacency: Adjacency
    entry: Entry | None
    edges: Layout
    sources: Layout
    targets: Layout
    dangling: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One edge table; each adjacency is built when it is first walked."""

    edges: Entities
    sources: Entities
    targets: Entities

    def adjacency(self, direction: Direction, unit: NeighbourUnit) -> Adjacency:
        """The adjacency of all nodes in a direction."""
        key, family = self._names(direction, unit)
        held: CachedAdjacency | None = self.edges.cache.peek(key)
        if held is not None:
            return held.adjacency
        previous = self.edges.cache.latest(family)
        kept: CachedAdjacency = self.edges.cache.get(
            key,
            lambda: self._patch(previous, direction, unit) or self._build(direction, unit),
            lambda one: one.adjacency.nbytes,
            family,
        )
        return kept.adjacency

    def cached(self, direction: Direction, unit: NeighbourUnit) -> Adjacency | None:
        """The adjacency of all nodes in a direction, if cached."""
        found: CachedAdjacency | None = self.edges.cache.peek(self._names(direction, unit)[0])
        return None if found is None else found.adjacency

    def is_near(self, direction: Direction, unit: NeighbourUnit) -> bool:
        """Whether an adjacency is cached, or can be patched from a cached one."""
        key, family = self._names(direction, unit)
        if self.edges.cache.peek(key) is not None:
            return True
        previous = self.edges.cache.latest(family)
        return previous is not None and self._can_patch(previous)

    def _names(self, direction: Direction, unit: NeighbourUnit) -> tuple[object, object]:
        kind = ("adjacency", direction, unit)
        layouts = (self.edges.layout, self.sources.layout, self.targets.layout)
        return (*layouts, *kind), (self.edges.layout.path, *kind)

    # ---- from the whole table

    def _build(self, direction: Direction, unit: NeighbourUnit) -> CachedAdjacency:
        # The ends are cached, because the other direction may be walked next.
        ends, dangling = drop_dangling(self.ends.read_all().ends)
        return self._keep(
            compress(self._slots(direction), ends.oriented(direction), unit), dangling
        )

    @property
    def ends(self) -> EdgeReader:
        """The reader of its edges by their ends."""
        return EdgeReader(edges=self.edges, sources=self.sources, targets=self.targets)

    def _keep(self, adjacency: Adjacency, dangling: bool) -> CachedAdjacency:
        return CachedAdjacency(
            adjacency=adjacency,
            entry=self.edges.entry,
            edges=self.edges.layout,
            sources=self.sources.layout,
            targets=self.targets.layout,
            dangling=dangling,
        )

    def _slots(self, direction: Direction) -> Slots:
        return make_slots(self.near(direction).row_offsets)

    def near(self, direction: Direction) -> Entities:
        """The nodes from which a walk in a direction starts."""
        return self.targets if direction is Direction.IN else self.sources

    def far(self, direction: Direction) -> Entities:
        """The nodes to which a walk in a direction leads."""
        return self.sources if direction is Direction.IN else self.targets

    # ---- from the adjacency of an earlier version

    def _patch(
        self, previous: CachedAdjacency | None, direction: Direction, unit: NeighbourUnit
    ) -> CachedAdjacency | None:
        if previous is None or not self._can_patch(previous):
            return None
        slots, adjacency = self._slots(direction), previous.adjacency
        if not slots.extends(adjacency.slots):
            return None
        try:
            more, gone = self._find_moved_edges(
                previous, compare_layouts(previous.edges, self.edges.layout)
            )
        except NotFoundError:
            # Cleanup has removed the earlier version.
            return None
        if len(gone.edges):
            adjacency = self._remove_deleted(adjacency, gone, direction, unit)
        whole, dangling = drop_dangling(more)
        if len(whole.edges) or slots.size != adjacency.slots.size:
            adjacency = add_edges(adjacency, slots, whole.oriented(direction))
        return self._keep(adjacency, dangling)

    def _can_patch(self, previous: CachedAdjacency) -> bool:
        """Whether few edges were added, deleted or rewritten since."""
        change = compare_layouts(previous.edges, self.edges.layout)
        moved = sum(fragment.rows for fragment in (*change.lost, *change.fresh))
        return (
            not previous.dangling
            and moved * _PATCH_PART <= self.edges.layout.rows
            and change.gone <= _GONE_MAX
            and _keeps_nodes(self.sources, previous.sources)
            and _keeps_nodes(self.targets, previous.targets)
        )

    def _find_moved_edges(
        self, previous: CachedAdjacency, change: LayoutChange
    ) -> tuple[Ends, Ends]:
        """Find the added and the deleted edges; edges that were only rewritten are neither.

        A compaction rewrites edges unchanged; they keep their row ids.
        """
        fresh = self.ends.read_fragments(change.fresh)
        if not change.lost:
            return fresh, self._find_deleted_edges(previous, change)
        assert previous.entry is not None, "a layout with fragments has an entry"
        before = self.ends.read_fragments(change.lost, previous.entry)
        gone = before.keep(~contained_in(before, fresh))
        return fresh.keep(~contained_in(fresh, before)), join_ends(
            [gone, self._find_deleted_edges(previous, change)]
        )

    def _find_deleted_edges(self, previous: CachedAdjacency, change: LayoutChange) -> Ends:
        """Find the edges that were deleted in place since, with their former ends."""
        if not change.thinned:
            return no_ends()
        before = Entities(self.edges.type, previous.entry, self.edges.tables, self.edges.cache)
        deleted = find_deleted(self.edges.tables, previous.entry, self.edges.entry, change)
        offsets = [before.layout.starts[old] + found for old, found in deleted.items()]
        edges = before.row_offsets.at(np.concatenate(offsets))
        rows = before.table.take(pa.array(edges.astype(np.uint64)), (SOURCE, TARGET))
        return Ends(
            near=self.sources.row_ids_of(column(rows, SOURCE)),
            far=self.targets.row_ids_of(column(rows, TARGET)),
            edges=edges,
        )

    def _remove_deleted(
        self, adjacency: Adjacency, gone: Ends, direction: Direction, unit: NeighbourUnit
    ) -> Adjacency:
        """Remove edges; a pair stays if another edge connects it."""
        ends = gone.oriented(direction)
        if unit is NeighbourUnit.PAIR:
            still = self.local(ends.near, direction, NeighbourUnit.PAIR)
            ends = ends.keep(~still.connected(ends.near, ends.far))
        return remove_edges(adjacency, ends)

    # ---- hops through indexes

    def hop_cost(self, nodes: int, direction: Direction) -> float:
        """Estimate the cost of a hop from some nodes through the indexes, including the rows that no index covers."""
        edges = nodes * len(self.edges) // max(len(self.near(direction)), 1)
        ways = _split_directions(direction)
        uncovered = sum(self.edges.uncovered_rows(_name(one), IndexKind.BTREE) for one in ways)
        return len(ways) * costs.hop(edges, len(self.edges)) + uncovered * costs.SCANNED_ROW

    def local(self, nodes: RowIds, direction: Direction, unit: NeighbourUnit) -> Adjacency:
        """Build the adjacency of some nodes through the indexes of the edge table."""
        known = np.unique(nodes[nodes != ABSENT])
        slots = Slots(0, len(known), known)
        parts = [self._look_up_edges(known, one) for one in _split_directions(direction)]
        ends, _ = drop_dangling(_join_both_ways(parts))
        return compress(slots, ends, unit)

    def _look_up_edges(self, known: RowIds, direction: Direction) -> Ends:
        name, other = _name(direction), _name(_TURNED[direction])
        texts = self.near(direction).id_texts(known)
        if not len(self.edges) or not len(known):
            nothing = np.empty(0, dtype=np.int64)
            return Ends(near=nothing, far=nothing, edges=nothing)
        rows = self.edges.table.lookup(name, texts, (SOURCE, TARGET), row_id=True)
        offsets = pc.index_in(column(rows, name), value_set=texts).to_numpy(zero_copy_only=False)
        return Ends(
            near=known[offsets.astype(np.int64)],
            far=self.far(direction).row_ids_of(column(rows, other)),
            edges=column(rows, ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64),
        )


_TURNED = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}


def _name(direction: Direction) -> str:
    return TARGET if direction is Direction.IN else SOURCE


def _split_directions(direction: Direction) -> tuple[Direction, ...]:
    return (Direction.OUT, Direction.IN) if direction is Direction.BOTH else (direction,)


def _join_both_ways(parts: list[Ends]) -> Ends:
    """Join the edges found from both ends; a loop occurs once."""
    if len(parts) == 1:
        return parts[0]
    out, back = parts
    return join_ends([out, back.keep(back.near != back.far)])


def _keeps_nodes(nodes: Entities, before: Layout) -> bool:
    """Whether every node of an earlier layout still exists, with the same row id and id."""
    if all(fragment in nodes.layout.starts for fragment in before.fragments):
        return True
    former = cached_node_ids(nodes, before)
    return former is not None and not len(find_lost_nodes(former, read_node_ids(nodes)))
