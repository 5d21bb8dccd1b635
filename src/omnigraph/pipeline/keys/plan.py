"""Which keys of a load must meet: incoming rows under the ids and tuples they bring, committed ones under theirs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.constraints.endpoints import SIDES, list_incident_sides
from omnigraph.commit.constraints.keys import comparable
from omnigraph.commit.delta import DeltaKind
from omnigraph.ids import TableKey, node_key
from omnigraph.limits import LOOKUP_ROWS_PER_VALUE
from omnigraph.pipeline.checks import Job
from omnigraph.pipeline.input.read import POSITION
from omnigraph.pipeline.messages import Piece
from omnigraph.pipeline.runner import KEY
from omnigraph.storage.arrow import column
from omnigraph.storage.lance.search import ROW_ID
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.storage.tables import TableAt
from omnigraph.values import dataclass

ID = "id"
UNIQUE = "unique"
FORMER = "former"
"""Former sources of edges that the load replaces."""


@dataclass(frozen=True, slots=True)
class KeySide:
    """Rows of one table that come under one kind of key: incoming (`put`) or committed (`held`)."""

    origin: str
    table_key: TableKey
    role: str
    group: int = 0

    @property
    def name(self) -> str:
        """How a shuffle calls it."""
        return f"{self.origin}|{self.table_key}|{self.role}|{self.group}"


@dataclass(frozen=True, kw_only=True)
class KeyPlan:
    """One meeting of keys: what is to be decided there, about which tables, against which committed versions.

    `identifies` asks for rows that share an id or meet one that is there; `judges` for every rule about several rows.
    `losers` and `replaced` are what an earlier meeting found: rows of splits, and of committed fragments, that count
    no more. The ends of edges that are `sure` were seen to be there, and ids that are `distinct` to be so; those of
    tables that have `met` are settled.
    """

    job: Job
    rows: Mapping[TableKey, int]
    pins: Mapping[TableKey, TableAt]
    held: Mapping[TableKey, int]
    identifies: bool
    judges: bool
    superseded: Mapping[tuple[TableKey, int], tuple[Piece, ...]] = field(default_factory=dict)
    replaced: Mapping[tuple[TableKey, int], tuple[Piece, ...]] = field(default_factory=dict)
    sure: frozenset[TableKey] = frozenset()
    distinct: frozenset[TableKey] = frozenset()
    met: frozenset[TableKey] = frozenset()

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The tables that are loaded, in the order of reports."""
        return tuple(sorted(self.rows))

    @property
    def replaces(self) -> bool:
        """Whether loaded tables lose all they held."""
        return self.job.kind is DeltaKind.REPLACE

    def edges(self) -> Iterator[EdgeType]:
        """The edge types that are loaded."""
        for table in self.tables:
            type_ = self.job.type(table)
            if isinstance(type_, EdgeType):
                yield type_

    def nodes(self) -> Iterator[NodeType]:
        """The node types that are loaded."""
        for table in self.tables:
            type_ = self.job.type(table)
            if isinstance(type_, NodeType):
                yield type_

    def asks_for(self, edge: EdgeType, side: str) -> bool:
        """Whether an end of an edge type has to meet others: nodes, or edges that are counted."""
        counted = side == "src" and not edge.cardinality.is_free
        return counted or edge.table_key not in self.sure

    @property
    def has_rules(self) -> bool:
        """Whether any rule about several rows concerns these tables."""
        tuples = any(self.job.type(table).unique for table in self.tables)
        ends = any(self.asks_for(edge, side) for edge in self.edges() for side, _ in SIDES)
        return tuples or ends or any(self._wanted_of_strandings())

    @property
    def consulted(self) -> frozenset[TableKey]:
        """The tables whose committed rows the decisions depend on."""
        none: frozenset[TableKey] = frozenset()
        every = replace(self, identifies=True, judges=True, sure=none, distinct=none, met=none)
        return frozenset(side.table_key for side in every._list_sides())

    # ---- incoming

    @cached_property
    def put(self) -> tuple[KeySide, ...]:
        """The sides that incoming rows come under."""
        return tuple(side for table in self.tables for side in self._put(self.job.type(table)))

    def _put(self, type_: TableType) -> Iterator[KeySide]:
        table = type_.table_key
        if self._meets_others(table) or (isinstance(type_, NodeType) and self._names_nodes):
            yield KeySide("put", table, ID)
        if self.judges:
            if isinstance(type_, EdgeType):
                for side, _ in SIDES:
                    if self.asks_for(type_, side):
                        yield KeySide("put", table, side)
            for group in range(len(type_.unique)):
                yield KeySide("put", table, UNIQUE, group)

    @property
    def meeting(self) -> tuple[TableKey, ...]:
        """The tables whose ids are to be settled: they may be there twice, in the input or in what is committed."""
        return tuple(table for table in self.tables if self._meets_others(table))

    def _meets_others(self, table: TableKey) -> bool:
        alone = table in self.distinct and self.stays(table) is None
        return self.identifies and not alone and table not in self.met

    @property
    def _names_nodes(self) -> bool:
        """Whether rules about edges ask which nodes there are; what they say may name one of any type."""
        asked = any(self.asks_for(edge, side) for edge in self.edges() for side, _ in SIDES)
        return self.judges and (self.replaces or asked)

    # ---- committed

    @cached_property
    def gathered(self) -> tuple[KeySide, ...]:
        """The sides that committed rows come under; where there are far more of them, they are looked up instead."""
        wanted = dict.fromkeys(self._list_sides())
        return tuple(
            side
            for side in wanted
            if self.held.get(side.table_key) and not self._is_looked_up(side)
        )

    def _is_looked_up(self, side: KeySide) -> bool:
        # What is replaced does not count any more, and a lookup would not know.
        exact = side.role == ID or not (self.replaced or self.replaces)
        return exact and self.is_looked_up(side.table_key)

    def is_looked_up(self, table: TableKey) -> bool:
        """Whether a table holds so much that to ask for some of its rows costs less than to read them."""
        coming = sum(self.rows.values())
        return self.held.get(table, 0) > LOOKUP_ROWS_PER_VALUE * coming

    def stays(self, table: TableKey) -> TableAt | None:
        """The committed version of a table whose rows stay, if there is one."""
        gone = self.replaces and table in self.rows
        return None if gone or not self.held.get(table) else self.pins[table]

    def _list_sides(self) -> Iterator[KeySide]:
        for table in self.tables:
            if not self.replaces and self._meets_others(table):
                yield KeySide("held", table, ID)
            if self.judges and not self.replaces:
                for group in range(len(self.job.type(table).unique)):
                    yield KeySide("held", table, UNIQUE, group)
        if self.judges:
            yield from self._wanted_of_edges()
            yield from self._wanted_of_strandings()

    def _wanted_of_edges(self) -> Iterator[KeySide]:
        for edge in self.edges():
            for name in (edge.source, edge.target):
                seen = edge.table_key in self.sure
                if not seen and not (self.replaces and node_key(name) in self.rows):
                    yield KeySide("held", node_key(name), ID)
            if not edge.cardinality.is_free:
                yield KeySide("held", edge.table_key, "src")
                yield KeySide("held", edge.table_key, FORMER)

    def _wanted_of_strandings(self) -> Iterator[KeySide]:
        for node in self.nodes() if self.replaces else ():
            for edge, side in list_incident_sides(node, self.job.catalog):
                if edge.table_key not in self.rows:
                    yield KeySide("held", edge.table_key, side)

    # ---- what a shuffle is told

    @cached_property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of every side."""
        return {side.name: self.schema(side) for side in (*self.put, *self.gathered)}

    def schema(self, side: KeySide) -> pa.Schema:
        """The columns of a side, its key first."""
        fields = [(KEY, pa.string())]
        fields += [
            (name, _type(self.job.type(side.table_key), name)) for name in self.columns(side)
        ]
        return pa.schema(fields)

    def columns(self, side: KeySide) -> Sequence[str]:
        """The columns of a side beside its key."""
        if side.role == ID:
            ids: tuple[str, ...] = (POSITION,)
            if side.origin == "held":
                ids = (ROW_ID, ROW_ADDRESS) if self.identifies else ()
            return ids
        group: tuple[str, ...] = ()
        if side.role == UNIQUE:
            group = self.job.type(side.table_key).unique[side.group].columns
        return ("id", *group, POSITION) if side.origin == "put" else ("id", *group)


_OWN = {
    "id": pa.string(),
    POSITION: pa.int64(),
    ROW_ID: pa.uint64(),
    ROW_ADDRESS: pa.uint64(),
}


def _type(type_: TableType, name: str) -> pa.DataType:
    return _OWN[name] if name in _OWN else type_.schema.field(name).type


def tuple_keys(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Texts that are equal where tuples are; NULL where a value is missing, which exempts the row."""
    texts = [comparable(column(rows, name)).cast(pa.string()) for name in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "\x1f")
