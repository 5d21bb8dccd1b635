"""The tables of one snapshot: opened once and shared by all queries on that snapshot."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from types import MappingProxyType

from omnigraphdb.catalog.mixed import number_types, split_types
from omnigraphdb.catalog.model import Catalog, TableType
from omnigraphdb.compile.plan.operators import Expand, FindPaths, Scan
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.mixed_entities import MixedEntities
from omnigraphdb.engine.read.graph.topology import Topology
from omnigraphdb.ids import TableKey, edge_key, node_key
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

Names = Mapping[TableKey, Mapping[str, str]]
"""By table, the stored column names of properties that had another name at the time of the snapshot."""

NO_NAMES: Names = MappingProxyType({})
_TABLE_BYTES = 2_000
"""The approximate size of an open table, without its cached columns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotTables:
    """Nodes, edges and topologies by name, each made on first use; the object is a cache key."""

    catalog: Catalog
    snapshot: Snapshot
    tables: Tables
    cache: ByteCache
    names: Names
    cached_nodes: dict[str, Entities] = field(default_factory=dict)
    cached_edges: dict[str, Entities] = field(default_factory=dict)
    cached_topologies: dict[str, Topology] = field(default_factory=dict)
    opened: set[TableKey] = field(default_factory=set)
    """The tables that were opened ahead."""

    def nodes(self, type_name: str) -> Entities:
        """Return the nodes of a type; no nodes if the snapshot is older than the type."""
        entities = self.cached_nodes.get(type_name)
        if entities is None:
            entities = self._entities(node_key(type_name), self.catalog.nodes[type_name])
            self.cached_nodes[type_name] = entities
        return entities

    def edges(self, edge_name: str) -> Entities:
        """Return the edges of a type; no edges if the snapshot is older than the type."""
        entities = self.cached_edges.get(edge_name)
        if entities is None:
            entities = self._entities(edge_key(edge_name), self.catalog.edges[edge_name])
            self.cached_edges[edge_name] = entities
        return entities

    def mixed(self, type_name: str, *, of_nodes: bool) -> MixedEntities:
        """Return the nodes or edges of several types."""
        find = self.nodes if of_nodes else self.edges
        numbers = {name: n for n, name in enumerate(number_types(self.catalog, of_nodes))}
        return MixedEntities({numbers[name]: find(name) for name in split_types(type_name)})

    def topology(self, edge_name: str) -> Topology:
        """Return the topology of an edge type."""
        topology = self.cached_topologies.get(edge_name)
        if topology is None:
            edge = self.catalog.edges[edge_name]
            topology = Topology(
                edges=self.edges(edge_name),
                sources=self.nodes(edge.source),
                targets=self.nodes(edge.target),
            )
            self.cached_topologies[edge_name] = topology
        return topology

    def open_ahead(self, plan: Plan) -> None:
        """Open the tables of a plan at the same time, where each opening waits for answers of the store."""
        keys = [key for key in list_tables(plan) if key not in self.opened]
        locations = [self.snapshot.entries[key].at for key in keys if key in self.snapshot.entries]
        self.opened.update(keys)
        if len(locations) > 1:
            with ThreadPoolExecutor(len(locations), "omnigraph-read") as threads:
                for at in locations:
                    # A table that cannot be opened is reported by the operator that reads it.
                    threads.submit(carry_context(self.tables.open), at)

    def _entities(self, key: TableKey, type_: TableType) -> Entities:
        entry = self.snapshot.entries.get(key)
        return Entities(type_, entry, self.tables, self.cache, self.names.get(key))


def list_tables(plan: Plan) -> list[TableKey]:
    """List the tables that a plan reads, each once."""
    nodes, edges = set[str](), set[str]()
    for operator in plan.operators:
        match operator:
            case Scan(type_name=name):
                nodes.update(split_types(name))
            case Expand(edge=edge, target_type=name) | FindPaths(edge=edge, target_type=name):
                nodes.update(split_types(name))
                edges.update(split_types(edge))
            case _:
                pass
    return [*map(node_key, sorted(nodes)), *map(edge_key, sorted(edges))]


def open_snapshot(
    catalog: Catalog, snapshot: Snapshot, names: Names, tables: Tables, cache: ByteCache
) -> SnapshotTables:
    """Open a snapshot, or return the tables that an earlier query opened."""
    # The key uses identities: the cached value refers to both objects, so that no other object gets their addresses.
    key = ("opened", id(catalog), id(snapshot))
    opened: SnapshotTables | None = cache.peek(key) if names is NO_NAMES else None
    if opened is None:
        opened = SnapshotTables(
            catalog=catalog, snapshot=snapshot, names=names, tables=tables, cache=cache
        )
        if names is NO_NAMES:
            cache.keep(key, opened, _TABLE_BYTES * (1 + len(snapshot.entries)))
    return opened
