"""Steps: the edges that a walk may take from some nodes, of one or several types, under a condition."""

from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np

from omnigraphdb.catalog.mixed import is_mixed, split_types
from omnigraphdb.compile.checked import Const, Direction, HopBound, Now, ParamRef
from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.compile.plan.operators import Expand, FindPaths
from omnigraphdb.compile.plan.visit import Change, Fixed, change_part
from omnigraphdb.engine.cached.traversal import Mode
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.mixed_entities import tag
from omnigraphdb.engine.read.columns.row_ids import ABSENT, RowIds
from omnigraphdb.engine.read.graph.adjacency import (
    Adjacency,
    Ends,
    NeighbourUnit,
    Slots,
    compress,
    join_ends,
    make_slots,
)
from omnigraphdb.engine.read.graph.topology import Topology
from omnigraphdb.engine.read.operators.filter import holds
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import QueryError
from omnigraphdb.values import dataclass

_MEMORY, _INDEXES = "adjacency in memory", "index hops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The edges of a walk in one direction; `hops` is the greatest number of its hops.

    Edges of several types carry the numbers of their types, as edges of a mixed variable do.
    """

    edge: str
    topologies: tuple[Topology, ...]
    """The topologies of the edge types."""
    direction: Direction
    hops: int
    reader: Reader
    walked: str | None = None
    where: tuple[Test, ...] = ()

    @property
    def near(self) -> Entities:
        """The nodes from which the walk starts."""
        return self.topologies[0].near(self.direction)

    @property
    def is_plain(self) -> bool:
        """Whether every edge of one type may be walked."""
        return not self.where and not is_mixed(self.edge)

    def reversed(self) -> "Steps":
        """Return the same edges, walked the other way."""
        opposites = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}
        return replace(self, direction=opposites.get(self.direction, self.direction))

    def of(self, nodes: RowIds, unit: NeighbourUnit) -> Adjacency:
        """Return the edges that may be walked from some nodes, perhaps also other edges."""
        if (adjacency := self.in_memory(unit)) is not None:
            return adjacency
        if all(
            self._should_use_indexes(topology, unit, len(nodes)) for topology in self.topologies
        ):
            self.reader.note(_INDEXES)
            return self._look_up(nodes, unit)
        self.reader.note(_MEMORY)
        return self._whole(unit)

    def in_memory(self, unit: NeighbourUnit) -> Adjacency | None:
        """Return all edges that may be walked, if they are in memory and may be taken from there."""
        if self.reader.traversal.mode is Mode.INDEXED:
            return None
        if (cached := self._cached(unit)) is not None:
            self.reader.note(_MEMORY)
        return cached

    def describe(self, unit: NeighbourUnit) -> str:
        """Describe how the first hop from a single node would be walked."""
        mode, topologies = self.reader.traversal.mode, self.topologies
        if mode is Mode.INDEXED:
            return _INDEXES
        if mode is Mode.CSR or all(
            topology.is_near(self.direction, unit) for topology in topologies
        ):
            return _MEMORY
        if all(
            topology.hop_cost(1, self.direction) < len(topology.edges) * costs.EDGE_ROW
            for topology in topologies
        ):
            return (
                f"index hops from up to {self.reader.traversal.frontier_max} nodes, else adjacency"
            )
        return "adjacency, to be read"

    def _should_use_indexes(self, topology: Topology, unit: NeighbourUnit, frontier: int) -> bool:
        """Whether to use the indexes of the edge table instead of an adjacency in memory."""
        match self.reader.traversal.mode:
            case Mode.CSR:
                return False
            case Mode.INDEXED:
                return True
            case Mode.AUTO:
                pass
        bounds = self.reader.traversal
        if frontier > bounds.frontier_max or self.hops > bounds.hops_max:
            return False
        if topology.is_near(self.direction, unit):
            return False
        cost = topology.hop_cost(frontier, self.direction)
        if self._is_file_worth(topology, cost) and topology.has_stored(unit):
            return False
        key = (topology.edges.layout, "hops", self.direction, unit)
        spent = topology.edges.cache.spend(key, cost)
        return spent + cost < len(topology.edges) * costs.EDGE_ROW

    def _is_file_worth(self, topology: Topology, cost: float) -> bool:
        """Whether reading the file of an edge type costs less than hops; it says nothing about conditions."""
        return self.is_plain and cost + costs.COLD_HOP >= costs.stored(len(topology.edges))

    def counted(self, frontier: int, unit: NeighbourUnit) -> Adjacency | None:
        """Return the numbers of neighbours alone, if they are read for so many nodes and a file has them.

        The result is an adjacency with degrees only: it cannot be walked.
        """
        topology = self.topologies[0]
        if self.reader.traversal.mode is not Mode.AUTO or self._cached(unit) is not None:
            return None
        if not self._is_file_worth(topology, topology.hop_cost(frontier, self.direction)):
            return None
        counts = topology.counted(self.direction, unit)
        if counts is not None:
            self.reader.note("numbers of neighbours in memory")
        return counts

    # ---- of all nodes

    def _cached(self, unit: NeighbourUnit) -> Adjacency | None:
        if self.is_plain:
            return self.topologies[0].cached(self.direction, unit)
        key = self._key(unit)
        return None if key is None else self.near.cache.peek(key)

    def _whole(self, unit: NeighbourUnit) -> Adjacency:
        if self.is_plain:
            return self.topologies[0].adjacency(self.direction, unit)
        key = self._key(unit)
        if key is None:
            return self._build(unit)
        return self.near.cache.get(
            key, lambda: self._build(unit), lambda adjacency: adjacency.nbytes
        )

    def _build(self, unit: NeighbourUnit) -> Adjacency:
        near = self.near
        ends = self._gather(
            near.all, lambda topology: topology.adjacency(self.direction, NeighbourUnit.EDGE)
        )
        return compress(make_slots(near.row_offsets), ends, unit)

    def _key(self, unit: NeighbourUnit) -> Hashable | None:
        """Return the cache key of these edges; None if the condition has a value that no key can hold."""
        layouts = tuple(
            (topology.edges.layout, topology.sources.layout, topology.targets.layout)
            for topology in self.topologies
        )
        return self.key_of(layouts, "steps", self.edge, self.direction, unit)

    def key_of(self, *parts: Hashable) -> Hashable | None:
        """Return the cache key of a value about these edges; None if the condition has a value that no key can hold."""
        key = (*parts, self._filled())
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def _filled(self) -> tuple[Test, ...]:
        """Return the condition with the values of its parameters."""

        def fixed(leaf: Fixed) -> Fixed:
            if isinstance(leaf, ParamRef):
                return Const(value=self.reader.value(leaf), type=leaf.type)
            return leaf

        def instant(leaf: Now) -> Const:
            return Const(value=self.reader.now, type=leaf.type)

        return change_part(self.where, Change(fixed=fixed, now=instant))

    # ---- of some nodes

    def _look_up(self, nodes: RowIds, unit: NeighbourUnit) -> Adjacency:
        if self.is_plain:
            return self.topologies[0].local(nodes, self.direction, unit)
        distinct_nodes = np.unique(nodes[nodes != ABSENT])
        ends = self._gather(
            distinct_nodes,
            lambda topology: topology.local(distinct_nodes, self.direction, NeighbourUnit.EDGE),
        )
        return compress(Slots(0, len(distinct_nodes), distinct_nodes), ends, unit)

    def _gather(self, nodes: RowIds, find: Callable[[Topology], Adjacency]) -> Ends:
        """Gather the edges of all types from some nodes, and keep the edges that may be walked."""
        parts = []
        for name, topology in zip(split_types(self.edge), self.topologies, strict=True):
            walk = find(topology).walk(nodes)
            assert walk.edges is not None, "an adjacency by edges has them"
            number = self.reader.number_of_edge(name) if is_mixed(self.edge) else 0
            parts.append(
                Ends(near=nodes[walk.rows], far=walk.targets, edges=tag(walk.edges, number))
            )
        ends = join_ends(parts)
        for test in self.where:
            assert self.walked is not None, "a condition is about the variable of its edges"
            rows = Bindings({self.walked: ends.edges}, len(ends.edges))
            ends = ends.keep(holds(test, rows, self.reader))
        return ends


def make_steps(operator: Expand | FindPaths, hops: int, reader: Reader) -> Steps:
    """Return the edges that an operator walks."""
    return Steps(
        edge=operator.edge,
        topologies=tuple(map(reader.snapshot.topology, split_types(operator.edge))),
        direction=operator.direction,
        hops=hops,
        reader=reader,
        walked=operator.walked,
        where=operator.where,
    )


def read_bounds(operator: Expand | FindPaths, reader: Reader) -> tuple[int, int]:
    """Read the least and the greatest number of hops of a walk; a walk without end visits every node once."""
    low = read_count(operator.low, reader)
    if operator.high is None:
        name = split_types(operator.edge)[0]
        return low, max(low, len(reader.snapshot.topology(name).near(operator.direction)))
    high = read_count(operator.high, reader)
    if high < low:
        raise QueryError(
            f"hop bounds {{{low},{high}}} end before they begin; nothing was read",
            code="T15",
            hint="give a maximum that is not below the minimum",
        )
    return low, high


def read_count(bound: HopBound, reader: Reader) -> int:
    """Read the value of a hop bound, or of a number of paths."""
    value = bound if isinstance(bound, int) else reader.integer(bound)
    assert value is not None, "a parameter of a bound is bound to an integer"
    return value
