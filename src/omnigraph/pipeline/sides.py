"""Which keys of a load must meet: incoming rows under the ids and tuples they bring, committed ones under theirs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.changes import ChangeKind, column
from omnigraph.commit.constraints.endpoints import SIDES, incident_sides
from omnigraph.commit.constraints.keys import comparable
from omnigraph.ids import TableKey, node_key
from omnigraph.limits import LOOKUP_ROWS_PER_VALUE
from omnigraph.pipeline.answers import Piece
from omnigraph.pipeline.checks import Job
from omnigraph.pipeline.reading import POSITION
from omnigraph.pipeline.steps import KEY
from omnigraph.storage.search import ROW_ID
from omnigraph.storage.table import ROW_ADDRESS
from omnigraph.storage.tables import TableAt

ID = "id"
UNIQUE = "unique"
FORMER = "former"
"""Former sources of edges that the load replaces."""


@dataclass(frozen=True, slots=True)
class Side:
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
class Judgement:
    """One meeting of keys: what is to be decided there, about which tables, against which committed versions.

    `identifies` asks for rows that share an id or meet one that is there; `judges` for every rule about several rows.
    `losers` and `replaced` are what an earlier meeting found: rows of splits, and of committed fragments, that count
    no more.
    """

    job: Job
    rows: Mapping[TableKey, int]
    pins: Mapping[TableKey, TableAt]
    held: Mapping[TableKey, int]
    identifies: bool
    judges: bool
    losers: Mapping[tuple[TableKey, int], tuple[Piece, ...]] = field(default_factory=dict)
    replaced: Mapping[tuple[TableKey, int], tuple[Piece, ...]] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The tables that are loaded, in the order of reports."""
        return tuple(sorted(self.rows))

    @property
    def replaces(self) -> bool:
        """Whether loaded tables lose all they held."""
        return self.job.kind is ChangeKind.REPLACE

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

    @property
    def has_rules(self) -> bool:
        """Whether any rule about several rows concerns these tables."""
        tuples = any(self.job.type(table).unique for table in self.tables)
        return tuples or any(True for _ in self.edges()) or any(self._wanted_of_strandings())

    @property
    def consulted(self) -> frozenset[TableKey]:
        """The tables whose committed rows the decisions depend on."""
        every = replace(self, identifies=True, judges=True)
        return frozenset(side.table_key for side in every._wanted())

    # ---- incoming

    @cached_property
    def put(self) -> tuple[Side, ...]:
        """The sides that incoming rows come under."""
        return tuple(side for table in self.tables for side in self._put(self.job.type(table)))

    def _put(self, type_: TableType) -> Iterator[Side]:
        table = type_.table_key
        if self.identifies or isinstance(type_, NodeType):
            yield Side("put", table, ID)
        if self.judges:
            if isinstance(type_, EdgeType):
                for side, _ in SIDES:
                    yield Side("put", table, side)
            for group in range(len(type_.unique)):
                yield Side("put", table, UNIQUE, group)

    # ---- committed

    @cached_property
    def gathered(self) -> tuple[Side, ...]:
        """The sides that committed rows come under; where there are far more of them, they are looked up instead."""
        wanted = dict.fromkeys(self._wanted())
        return tuple(
            side
            for side in wanted
            if self.held.get(side.table_key) and not self._is_looked_up(side)
        )

    def _is_looked_up(self, side: Side) -> bool:
        # What is replaced does not count any more, and a lookup would not know.
        exact = side.role == ID or not (self.replaced or self.replaces)
        coming = sum(self.rows.values())
        return exact and self.held[side.table_key] > LOOKUP_ROWS_PER_VALUE * coming

    def _wanted(self) -> Iterator[Side]:
        for table in self.tables:
            if self.identifies and not self.replaces:
                yield Side("held", table, ID)
            if self.judges and not self.replaces:
                for group in range(len(self.job.type(table).unique)):
                    yield Side("held", table, UNIQUE, group)
        if self.judges:
            yield from self._wanted_of_edges()
            yield from self._wanted_of_strandings()

    def _wanted_of_edges(self) -> Iterator[Side]:
        for edge in self.edges():
            for name in (edge.source, edge.target):
                if not (self.replaces and node_key(name) in self.rows):
                    yield Side("held", node_key(name), ID)
            if not edge.cardinality.is_free:
                yield Side("held", edge.table_key, "src")
                yield Side("held", edge.table_key, FORMER)

    def _wanted_of_strandings(self) -> Iterator[Side]:
        for node in self.nodes() if self.replaces else ():
            for edge, side in incident_sides(node, self.job.catalog):
                if edge.table_key not in self.rows:
                    yield Side("held", edge.table_key, side)

    # ---- what a shuffle is told

    @cached_property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of every side."""
        return {side.name: self._schema(side) for side in (*self.put, *self.gathered)}

    def _schema(self, side: Side) -> pa.Schema:
        fields = [(KEY, pa.string())]
        fields += [
            (name, _type(self.job.type(side.table_key), name)) for name in self.columns(side)
        ]
        return pa.schema(fields)

    def columns(self, side: Side) -> Sequence[str]:
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
