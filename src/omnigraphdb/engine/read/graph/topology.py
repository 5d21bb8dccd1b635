"""Topology: one edge table with the nodes at both ends, and the adjacencies that are built from it."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.layout import Layout, LayoutChange, compare_layouts
from omnigraphdb.engine.read.columns.row_ids import ABSENT, RowIds
from omnigraphdb.engine.read.graph.adjacency import (
    Adjacency,
    Ends,
    NeighbourUnit,
    Slots,
    add_edges,
    compress,
    count_targets,
    drop_dangling,
    join_ends,
    list_pairs,
    make_slots,
    remove_edges,
    reverse_pairs,
)
from omnigraphdb.engine.read.graph.adjacency_file import (
    FILE_EDGE_BYTES,
    FILE_NAME,
    CachedAdjacency,
    decode_adjacency,
    encode_adjacency,
)
from omnigraphdb.engine.read.graph.adjacency_parts import EDGE_BYTES, build_in_parts
from omnigraphdb.engine.read.graph.edge_ends import (
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
from omnigraphdb.errors import NotFoundError
from omnigraphdb.limits import (
    ADJACENCY_FILE_ROWS_MIN,
    HELD_PART,
    LOOKUP_VALUES_MAX,
)
from omnigraphdb.logs import get_logger
from omnigraphdb.pipeline.memory import release_freed
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.values import IndexKind
from omnigraphdb.values import dataclass

_log = get_logger(__name__)

_PATCH_PART = 16
"""An adjacency is patched if the added and moved edges are fewer than one in this many."""
_TEXT_BYTES = 128
"""The bytes of an edge while its ends are looked up: ids and integers; each part hashes the ids of all nodes once."""
_GONE_MAX = 1_000
"""Up to so many deleted edges are removed one by one; with more of them the adjacency is built again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One edge table; each adjacency is built when it is first walked."""

    edges: Entities
    sources: Entities
    targets: Entities

    def adjacency(self, direction: Direction, unit: NeighbourUnit) -> Adjacency:
        """Return the adjacency of all nodes in a direction."""
        key, family = self._names(direction, unit)
        cached: CachedAdjacency | None = self.edges.cache.peek(key)
        if cached is not None:
            return cached.adjacency
        previous = self.edges.cache.latest(family)
        stored = None if self._is_patchable(previous) else self._find_stored(unit)
        if stored is not None and direction is Direction.OUT:
            return stored.adjacency

        def make() -> CachedAdjacency:
            if stored is not None:
                return self._reverse(stored, direction)
            return self._patch(previous, direction, unit) or self._build(direction, unit)

        loaded: CachedAdjacency = self.edges.cache.get(
            key, make, lambda built: built.adjacency.nbytes, family
        )
        return loaded.adjacency

    def cached(self, direction: Direction, unit: NeighbourUnit) -> Adjacency | None:
        """Return the adjacency of all nodes in a direction, if cached."""
        cached: CachedAdjacency | None = self.edges.cache.peek(self._names(direction, unit)[0])
        return None if cached is None else cached.adjacency

    def counted(self, direction: Direction, unit: NeighbourUnit) -> Adjacency | None:
        """Count the neighbours of all nodes against the direction of edges, if the outward adjacency is stored.

        The result is an adjacency without targets: only its degrees may be asked for.
        """
        if direction is not Direction.IN or unit is not NeighbourUnit.PAIR:
            return None
        out = self._find_stored(unit)
        if out is None:
            return None
        return self.edges.cache.get(
            (self._names(direction, unit)[0], "counted"),
            lambda: count_targets(out.adjacency, self._slots(direction)),
            lambda counts: counts.nbytes,
        )

    def is_near(self, direction: Direction, unit: NeighbourUnit) -> bool:
        """Whether an adjacency is cached, or can be patched from a cached one."""
        key, family = self._names(direction, unit)
        if self.edges.cache.peek(key) is not None:
            return True
        return self._is_patchable(self.edges.cache.latest(family))

    def _is_patchable(self, previous: CachedAdjacency | None) -> bool:
        return previous is not None and self._can_patch(previous)

    def _names(self, direction: Direction, unit: NeighbourUnit) -> tuple[object, object]:
        kind = ("adjacency", direction, unit)
        layouts = (self.edges.layout, self.sources.layout, self.targets.layout)
        return (*layouts, *kind), (self.edges.layout.path, *kind)

    # ---- from the whole table

    def _build(self, direction: Direction, unit: NeighbourUnit) -> CachedAdjacency:
        if len(self.edges) * EDGE_BYTES > self.edges.cache.bytes_max:
            return self._build_in_parts(direction, unit)
        # The ends are cached, because the other direction may be walked next.
        ends, dangling = drop_dangling(self.ends.read_all().ends)
        return self._keep(
            compress(self._slots(direction), ends.oriented(direction), unit), dangling
        )

    def _build_in_parts(self, direction: Direction, unit: NeighbourUnit) -> CachedAdjacency:
        """Build an adjacency whose edges do not fit in the cache: they are read and sorted part by part."""
        bytes_max, dangling = self.edges.cache.bytes_max, False

        def read() -> Iterator[Ends]:
            nonlocal dangling
            for ends in self.ends.stream(max(bytes_max // _TEXT_BYTES, LOOKUP_VALUES_MAX + 1)):
                complete, has_dropped = drop_dangling(ends)
                dangling = dangling or has_dropped
                yield complete.oriented(direction)
                # Allocators keep freed memory, so that every part would come on top of the part before.
                del ends, complete
                release_freed()

        built = build_in_parts(self._slots(direction), read(), unit, bytes_max)
        release_freed()
        return self._keep(built, dangling)

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
        """Return the nodes from which a walk in a direction starts."""
        return self.targets if direction is Direction.IN else self.sources

    def far(self, direction: Direction) -> Entities:
        """Return the nodes to which a walk in a direction leads."""
        return self.sources if direction is Direction.IN else self.targets

    # ---- from the file of the table

    def store(self) -> int:
        """Store the outward adjacency in the file of the table, unless the present file serves; return its bytes."""
        if len(self.edges) < ADJACENCY_FILE_ROWS_MIN or self._find_stored(NeighbourUnit.PAIR):
            return 0
        data = encode_adjacency(self._build(Direction.OUT, NeighbourUnit.PAIR))
        self.edges.tables.write_attached_file(self.edges.layout.path, FILE_NAME, data)
        return len(data)

    def has_stored(self, unit: NeighbourUnit) -> bool:
        """Whether the file of the table serves; it is read, and its adjacency cached."""
        return self._find_stored(unit) is not None

    def _find_stored(self, unit: NeighbourUnit) -> CachedAdjacency | None:
        """Find the outward adjacency of pairs by the file of the table, if this version differs little from it."""
        if unit is not NeighbourUnit.PAIR or len(self.edges) < ADJACENCY_FILE_ROWS_MIN:
            return None
        key, family = self._names(Direction.OUT, unit)
        cache, missing = self.edges.cache, (key, "no file")
        cached: CachedAdjacency | None = cache.peek(key)
        if cached is not None or cache.peek(missing):
            return cached
        stored = self._read_stored()
        current = (
            stored
            if stored is None or self._is_of(stored)
            else self._patch(stored, Direction.OUT, unit)
        )
        if current is None:
            cache.keep(missing, True, 100)
            return None
        return cache.get(key, lambda: current, lambda loaded: loaded.adjacency.nbytes, family)

    def _read_stored(self) -> CachedAdjacency | None:
        path = self.edges.layout.path
        size = FILE_EDGE_BYTES * (len(self.edges) + len(self.sources))
        mapped = size > self.edges.cache.bytes_max // HELD_PART
        data = self.edges.tables.read_attached_file(path, FILE_NAME, mapped=mapped)
        if data is None:
            return None
        stored = decode_adjacency(data, self.edges.cache, mapped=mapped)
        if stored is None or stored.edges.path != path:
            # The file only repeats the table, so that a reader does without it.
            _log.warning("adjacency_file.refused", table=path)
            record(Cost.ADJACENCY_FILES_REFUSED)
            return None
        record(Cost.ADJACENCY_FILES_READ)
        return stored

    def _is_of(self, cached: CachedAdjacency) -> bool:
        """Whether an adjacency was built from exactly these versions."""
        mine = self.edges.layout, self.sources.layout, self.targets.layout
        return mine == (cached.edges, cached.sources, cached.targets)

    def _reverse(self, out: CachedAdjacency, direction: Direction) -> CachedAdjacency:
        """Make the adjacency of another direction from the outward one; no id is read."""
        slots = self._slots(direction)
        if direction is Direction.IN:
            return self._keep(reverse_pairs(out.adjacency, slots), out.dangling)
        pairs = list_pairs(out.adjacency).oriented(direction)
        return self._keep(compress(slots, pairs, NeighbourUnit.PAIR), out.dangling)

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
            added, deleted = self._find_moved_edges(
                previous, compare_layouts(previous.edges, self.edges.layout)
            )
        except NotFoundError:
            # Cleanup has removed the earlier version.
            return None
        if len(deleted.edges):
            adjacency = self._remove_deleted(adjacency, deleted, direction, unit)
        complete, dangling = drop_dangling(added)
        if len(complete.edges) or slots.size != adjacency.slots.size:
            adjacency = add_edges(adjacency, slots, complete.oriented(direction))
        return self._keep(adjacency, dangling)

    def _can_patch(self, previous: CachedAdjacency) -> bool:
        """Whether few edges were added, deleted or rewritten since."""
        change = compare_layouts(previous.edges, self.edges.layout)
        changed_rows = sum(fragment.rows for fragment in (*change.lost, *change.fresh))
        return (
            not previous.dangling
            and changed_rows * _PATCH_PART <= self.edges.layout.rows
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
        removed = before.keep(~contained_in(before, fresh))
        return fresh.keep(~contained_in(fresh, before)), join_ends(
            [removed, self._find_deleted_edges(previous, change)]
        )

    def _find_deleted_edges(self, previous: CachedAdjacency, change: LayoutChange) -> Ends:
        """Find the edges that were deleted in place since, with their former ends."""
        if not change.thinned:
            return no_ends()
        before = Entities(self.edges.type, previous.entry, self.edges.tables, self.edges.cache)
        deleted = find_deleted(self.edges.tables, previous.entry, self.edges.entry, change)
        offsets = [
            before.layout.starts[old] + fragment_offsets
            for old, fragment_offsets in deleted.items()
        ]
        edges = before.row_offsets.at(np.concatenate(offsets))
        rows = before.table.take(pa.array(edges.astype(np.uint64)), (SOURCE, TARGET))
        return Ends(
            near=self.sources.row_ids_of(column(rows, SOURCE)),
            far=self.targets.row_ids_of(column(rows, TARGET)),
            edges=edges,
        )

    def _remove_deleted(
        self, adjacency: Adjacency, deleted: Ends, direction: Direction, unit: NeighbourUnit
    ) -> Adjacency:
        """Remove edges; a pair stays if another edge connects it."""
        ends = deleted.oriented(direction)
        if unit is NeighbourUnit.PAIR:
            still = self.local(ends.near, direction, NeighbourUnit.PAIR)
            ends = ends.keep(~still.connected(ends.near, ends.far))
        return remove_edges(adjacency, ends)

    # ---- hops through indexes

    def hop_cost(self, nodes: int, direction: Direction) -> float:
        """Estimate the cost of a hop from some nodes through the indexes, including the rows that no index covers."""
        edges = nodes * len(self.edges) // max(len(self.near(direction)), 1)
        ways = _split_directions(direction)
        uncovered = sum(self.edges.uncovered_rows(_name(way), IndexKind.BTREE) for way in ways)
        return len(ways) * costs.hop(edges, len(self.edges)) + uncovered * costs.SCANNED_ROW

    def local(self, nodes: RowIds, direction: Direction, unit: NeighbourUnit) -> Adjacency:
        """Build the adjacency of some nodes through the indexes of the edge table."""
        distinct_nodes = np.unique(nodes[nodes != ABSENT])
        slots = Slots(0, len(distinct_nodes), distinct_nodes)
        parts = [self._look_up_edges(distinct_nodes, way) for way in _split_directions(direction)]
        ends, _ = drop_dangling(_join_both_ways(parts))
        return compress(slots, ends, unit)

    def _look_up_edges(self, nodes: RowIds, direction: Direction) -> Ends:
        name, other = _name(direction), _name(_TURNED[direction])
        texts = self.near(direction).id_texts(nodes)
        if not len(self.edges) or not len(nodes):
            nothing = np.empty(0, dtype=np.int64)
            return Ends(near=nothing, far=nothing, edges=nothing)
        rows = self.edges.table.lookup(name, texts, (SOURCE, TARGET), row_id=True)
        offsets = pc.index_in(column(rows, name), value_set=texts).to_numpy(zero_copy_only=False)
        return Ends(
            near=nodes[offsets.astype(np.int64)],
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
    if former is None:
        return _keeps_moved_nodes(nodes, before)
    return not len(find_lost_nodes(former, read_node_ids(nodes)))


def _keeps_moved_nodes(nodes: Entities, before: Layout) -> bool:
    """Whether all rows that fragments of an earlier layout lost since are elsewhere now, with the same row ids.

    A row id is given once in the history of a fragment, so that its row has the same id wherever it is.
    """
    change = compare_layouts(before, nodes.layout)
    if change.lost or change.gone > _GONE_MAX or nodes.entry is None:
        return False
    table = nodes.tables.open(nodes.entry.at)
    deleted = table.deleted([new.id for _, new in change.thinned])
    addresses = [
        (np.uint64(fragment) << np.uint64(32)) | offsets.astype(np.uint64)
        for fragment, offsets in deleted.items()
    ]
    row_ids = table.row_ids(pa.array(np.concatenate(addresses))).to_numpy(zero_copy_only=False)
    return not (nodes.row_offsets.of(row_ids.astype(np.int64)) == ABSENT).any()
