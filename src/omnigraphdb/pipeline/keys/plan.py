"""The key plan of a load: which ids, endpoints and unique tuples are checked where, decided once.

A load joins the keys of its incoming rows with those of committed rows. A shuffle of all keys always works and is the
dearest way, so the plan chooses for each table the cheapest place that decides (`Where`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property

import pyarrow as pa

from omnigraphdb.catalog.model import EdgeType, NodeType, TableType
from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.commit.constraints.endpoints import SIDES, list_incident_sides
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.ids import TableKey, node_key
from omnigraphdb.limits import LOOKUP_ROWS_PER_VALUE
from omnigraphdb.pipeline.checks import LoadSpec
from omnigraphdb.pipeline.input.read import POSITION
from omnigraphdb.pipeline.input.splits import InMemory, RowGroups, Spilled, Split
from omnigraphdb.pipeline.messages import ScratchSlice
from omnigraphdb.pipeline.runner import KEY
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

ID = "id"
UNIQUE = "unique"
ENDS = ("src", "dst")
FORMER = "former"
"""The role of the sources that replaced edges had before the load."""


class Where(StrEnum):
    """The place at which the keys of a table are checked, from the cheapest to the dearest."""

    NOWHERE = "nowhere"
    """The check step saw that nothing can be wrong: ids ascend, or every endpoint was found while reading."""

    TASK = "task"
    """In the task that reads the rows, with the ids of the other rows in memory."""

    SHUFFLE = "shuffle"
    """In a bucket of the shuffle, to which all rows of a key come."""


class Origin(StrEnum):
    """Which rows a side of the join holds."""

    INCOMING = "incoming"
    COMMITTED = "committed"
    REMOVED = "removed"
    """Committed rows that go without a row that replaces them."""


@dataclass(frozen=True, slots=True)
class KeySide:
    """One side of the join: rows of one table and origin under one kind of key (id, endpoint or unique tuple)."""

    origin: Origin
    table_key: TableKey
    role: str
    group: int = 0

    @property
    def name(self) -> str:
        """The name of the side in a shuffle."""
        return f"{self.origin}|{self.table_key}|{self.role}|{self.group}"


@dataclass(frozen=True, kw_only=True)
class KeyPlan:
    """One join of incoming and committed keys: its decisions, its tables, and the table versions that it reads.

    `resolves_ids` asks for duplicates, superseded rows and matches with committed rows; `checks_rules` for every rule
    about several rows. `superseded` (by split) and `replaced` (by fragment) are rows that an earlier join excluded.
    """

    load: LoadSpec
    incoming_rows: Mapping[TableKey, int]
    pins: Mapping[TableKey, TableAt]
    committed_rows: Mapping[TableKey, int]
    resolves_ids: bool
    checks_rules: bool
    superseded: Mapping[tuple[TableKey, int], tuple[ScratchSlice, ...]] = field(
        default_factory=dict
    )
    replaced: Mapping[tuple[TableKey, int], tuple[ScratchSlice, ...]] = field(default_factory=dict)
    removed_rows: Mapping[TableKey, int] = field(default_factory=dict)
    """The number of committed rows that are removed and not replaced; `replaced` names them too."""
    endpoints_found: frozenset[TableKey] = frozenset()
    """Edge tables all of whose endpoints exist."""
    distinct_ids: frozenset[TableKey] = frozenset()
    """Tables whose incoming ids are distinct."""
    resolved_ids: frozenset[TableKey] = frozenset()
    """Tables whose ids an earlier step resolved."""
    compact_endpoints: bool = False
    """True if a split sends each endpoint once: enough to see that it is missing, however many edges name it."""

    # ---- the tables of the load

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The tables that are loaded, in the order of reports."""
        return tuple(sorted(self.incoming_rows))

    @property
    def overwrites(self) -> bool:
        """Whether loaded tables lose all their committed rows."""
        return self.load.kind is DeltaKind.REPLACE

    def edges(self) -> Iterator[EdgeType]:
        """Return the edge types that are loaded."""
        for table in self.tables:
            type_ = self.load.type(table)
            if isinstance(type_, EdgeType):
                yield type_

    def nodes(self) -> Iterator[NodeType]:
        """Return the node types that are loaded."""
        for table in self.tables:
            type_ = self.load.type(table)
            if isinstance(type_, NodeType):
                yield type_

    def surviving_version(self, table: TableKey) -> TableAt | None:
        """Return the committed version of a table whose rows survive the load; None when no row does."""
        overwritten = self.overwrites and table in self.incoming_rows
        return None if overwritten or not self.committed_rows.get(table) else self.pins[table]

    def strands(self, table: TableKey) -> bool:
        """Whether nodes of a table go, so that edges that stay may name them."""
        return self.overwrites or bool(self.removed_rows.get(table))

    def keeps_edges(self, table: TableKey) -> bool:
        """Whether committed edges of a table stay."""
        return not self.overwrites or table not in self.incoming_rows

    # ---- where keys are checked

    def where_ids(self, table: TableKey) -> Where:
        """Choose the place at which the ids of a loaded table are resolved."""
        is_new = table in self.distinct_ids and self.surviving_version(table) is None
        if not self.resolves_ids or is_new or table in self.resolved_ids:
            return Where.NOWHERE
        committed = 0 if self.uses_index(table) else self.committed_rows.get(table, 0)
        # Distinct ids are resolved split by split; otherwise one task would have to hold all of them.
        load, distinct = self.load, table in self.distinct_ids
        incoming_max = load.held_ids_max if distinct else load.one_task_ids_max
        few = committed <= load.held_ids_max and self.incoming_rows[table] <= incoming_max
        return Where.TASK if few else Where.SHUFFLE

    def where_endpoints(self, edge: EdgeType) -> Where:
        """Choose the place at which the endpoints of a loaded edge type are checked."""
        rows = self.incoming_rows[edge.table_key]
        if edge.table_key in self.endpoints_found or not rows:
            return Where.NOWHERE
        nodes = list_node_tables(edge)
        ids = sum(self.incoming_rows.get(t, 0) + self.committed_rows.get(t, 0) for t in nodes)
        if any(self.uses_index(table) for table in nodes) or not _are_few(self.load, ids, rows):
            return Where.SHUFFLE
        return Where.TASK

    def uses_index(self, table: TableKey) -> bool:
        """Whether the index finds the keys of the load sooner than a scan of the committed rows."""
        incoming = sum(self.incoming_rows.values())
        return self.committed_rows.get(table, 0) > LOOKUP_ROWS_PER_VALUE * incoming

    @property
    def unresolved(self) -> tuple[TableKey, ...]:
        """The tables whose ids this join resolves."""
        return tuple(t for t in self.tables if self.where_ids(t) is not Where.NOWHERE)

    def needs_endpoint(self, edge: EdgeType, side: str) -> bool:
        """Whether an endpoint of an edge type is a key of the shuffle: for its node, or to count edges of a source."""
        return is_counted(edge, side) or edge.table_key not in self.endpoints_found

    def is_compact(self, side: KeySide) -> bool:
        """Whether a side holds each key once per split; edges of a source that are counted all come."""
        type_ = self.load.type(side.table_key)
        if side.origin is not Origin.INCOMING or not isinstance(type_, EdgeType):
            return False
        return self.compact_endpoints and side.role in ENDS and not is_counted(type_, side.role)

    @property
    def has_rules(self) -> bool:
        """Whether any rule about several rows concerns the loaded tables."""
        unique = any(self.load.type(table).unique for table in self.tables)
        return unique or self._needs_endpoints or any(self._list_stranding_sides())

    @property
    def _needs_endpoints(self) -> bool:
        return any(self.needs_endpoint(edge, side) for edge in self.edges() for side, _ in SIDES)

    @property
    def consulted(self) -> frozenset[TableKey]:
        """The tables whose committed rows the outcome depends on, wherever keys are checked: the read set."""
        none: frozenset[TableKey] = frozenset()
        every = replace(
            self,
            resolves_ids=True,
            checks_rules=True,
            endpoints_found=none,
            distinct_ids=none,
            resolved_ids=none,
        )
        return frozenset(side.table_key for side in every._list_committed())

    # ---- the sides of the join

    @cached_property
    def incoming_sides(self) -> tuple[KeySide, ...]:
        """The sides of incoming rows."""
        return tuple(
            side for table in self.tables for side in self._list_incoming(self.load.type(table))
        )

    def _list_incoming(self, type_: TableType) -> Iterator[KeySide]:
        table = type_.table_key
        resolves = self.where_ids(table) is not Where.NOWHERE
        if resolves or (isinstance(type_, NodeType) and self._names_nodes):
            yield KeySide(Origin.INCOMING, table, ID)
        if self.checks_rules:
            if isinstance(type_, EdgeType):
                for side, _ in SIDES:
                    if self.needs_endpoint(type_, side):
                        yield KeySide(Origin.INCOMING, table, side)
            for group in range(len(type_.unique)):
                yield KeySide(Origin.INCOMING, table, UNIQUE, group)

    @property
    def _names_nodes(self) -> bool:
        """Whether rules about edges ask which nodes exist; their messages may name a node of any type."""
        return self.checks_rules and (self.overwrites or self._needs_endpoints)

    @cached_property
    def removed_sides(self) -> tuple[KeySide, ...]:
        """The sides of the removed rows of node tables."""
        nodes = (node.table_key for node in self.nodes())
        return tuple(
            KeySide(Origin.REMOVED, table, ID) for table in nodes if self.removed_rows.get(table)
        )

    @cached_property
    def committed_sides(self) -> tuple[KeySide, ...]:
        """The sides of committed rows that are read; the index finds the rows of the others."""
        sides = dict.fromkeys(self._list_committed())
        return tuple(
            side
            for side in sides
            if self.committed_rows.get(side.table_key) and not self._is_looked_up(side)
        )

    def _is_looked_up(self, side: KeySide) -> bool:
        # An index lookup would also find rows that this load replaces.
        exact = side.role == ID or not (self.replaced or self.overwrites)
        return exact and self.uses_index(side.table_key)

    def _list_committed(self) -> Iterator[KeySide]:
        for table in self.tables if not self.overwrites else ():
            if self.where_ids(table) is not Where.NOWHERE:
                yield KeySide(Origin.COMMITTED, table, ID)
            if self.checks_rules:
                for group in range(len(self.load.type(table).unique)):
                    yield KeySide(Origin.COMMITTED, table, UNIQUE, group)
        if self.checks_rules:
            yield from self._list_edge_sides()
            yield from self._list_stranding_sides()

    def _list_edge_sides(self) -> Iterator[KeySide]:
        for edge in self.edges():
            for table in map(node_key, (edge.source, edge.target)):
                has_endpoints = edge.table_key in self.endpoints_found
                if not has_endpoints and not (self.overwrites and table in self.incoming_rows):
                    yield KeySide(Origin.COMMITTED, table, ID)
            if not edge.cardinality.is_free:
                yield KeySide(Origin.COMMITTED, edge.table_key, "src")
                yield KeySide(Origin.COMMITTED, edge.table_key, FORMER)

    def _list_stranding_sides(self) -> Iterator[KeySide]:
        """Committed edges whose nodes an overwrite or a merge may remove."""
        for node in self.nodes():
            for edge, side in list_incident_sides(node, self.load.catalog):
                if self.strands(node.table_key) and self.keeps_edges(edge.table_key):
                    yield KeySide(Origin.COMMITTED, edge.table_key, side)

    @property
    def key_rows(self) -> int:
        """The most rows that the sides hold together."""
        return sum(
            rows.get(side.table_key, 0)
            for sides, rows in (
                (self.incoming_sides, self.incoming_rows),
                (self.committed_sides, self.committed_rows),
                (self.removed_sides, self.removed_rows),
            )
            for side in sides
        )

    # ---- the columns of the sides

    @cached_property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The schema of every side, by its name."""
        sides = (*self.incoming_sides, *self.committed_sides, *self.removed_sides)
        return {side.name: self.schema(side) for side in sides}

    def schema(self, side: KeySide) -> pa.Schema:
        """Return the columns of a side, its key first."""
        type_ = self.load.type(side.table_key)
        columns = [(name, _type_of(type_, name)) for name in self.columns(side)]
        return pa.schema([(KEY, pa.string()), *columns])

    def columns(self, side: KeySide) -> Sequence[str]:
        """Return the columns of a side beside its key."""
        incoming = side.origin is Origin.INCOMING
        if side.origin is Origin.REMOVED or self.is_compact(side):
            return ()
        if side.role == ID:
            if incoming:
                return (POSITION,)
            return (ROW_ID, ROW_ADDRESS) if self.resolves_ids else ()
        group: tuple[str, ...] = ()
        if side.role == UNIQUE:
            group = self.load.type(side.table_key).unique[side.group].columns
        return (ID, *group, POSITION) if incoming else (ID, *group)


_HELPER_TYPES = {
    ID: pa.string(),
    POSITION: pa.int64(),
    ROW_ID: pa.uint64(),
    ROW_ADDRESS: pa.uint64(),
}


def _type_of(type_: TableType, name: str) -> pa.DataType:
    return _HELPER_TYPES[name] if name in _HELPER_TYPES else type_.schema.field(name).type


def is_counted(edge: EdgeType, side: str) -> bool:
    """Whether a rule counts the edges of one endpoint."""
    return side == "src" and not edge.cardinality.is_free


def list_node_tables(edge: EdgeType) -> tuple[TableKey, ...]:
    """List the node tables at the endpoints of an edge type."""
    return tuple(dict.fromkeys((node_key(edge.source), node_key(edge.target))))


def _are_few(load: LoadSpec, nodes: int, edges: int) -> bool:
    """Whether every task can hold the ids of nodes, and reading them costs less than shuffling the edges."""
    return nodes <= min(load.held_ids_max, 2 * edges)


# ---- before anything is read


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The edge tables whose endpoints the check step looks for while it reads, and the splits of their nodes."""

    edges: frozenset[TableKey]
    nodes: Mapping[TableKey, tuple[Split, ...]]


def plan_reading(load: LoadSpec, splits: Sequence[Split]) -> ReadingPlan:
    """Choose the edge types whose endpoints are looked for while reading, among the nodes of the same load.

    Incoming nodes exist after the load, independently of the committed rows. Only nodes in frames can be read beforehand.
    """
    frames: defaultdict[TableKey, list[Split]] = defaultdict(list)
    for split in splits:
        if split.table_key is not None and all(
            _is_frame(input_split) for input_split in split.inputs
        ):
            frames[split.table_key].append(split)
    rows = {
        table: sum(split.rows or 0 for split in table_splits)
        for table, table_splits in frames.items()
    }
    edges = [
        type_
        for table in frames
        if isinstance(type_ := load.type(table), EdgeType)
        and all(node in frames for node in list_node_tables(type_))
        and _are_few(load, sum(rows[node] for node in list_node_tables(type_)), rows[table])
    ]
    nodes = {node for edge in edges for node in list_node_tables(edge)}
    return ReadingPlan(
        frozenset(edge.table_key for edge in edges),
        {table: tuple(_join_slices(frames[table])) for table in nodes},
    )


def _is_frame(split: Split) -> bool:
    return isinstance(split.content, RowGroups | InMemory | Spilled)


def _join_slices(splits: Sequence[Split]) -> Iterator[Split]:
    """Replace the slices of a row group by the whole row group, so that it is read once."""
    for split in splits:
        content = split.content
        if not isinstance(content, RowGroups) or not content.is_sliced:
            yield split
        elif not content.start:
            yield replace(split, content=RowGroups(content.path, content.groups))
