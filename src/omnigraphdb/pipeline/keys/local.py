"""Keys checked in the task that reads their rows, with the ids of the other rows in memory; nothing is shuffled."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.commit.constraints.endpoints import SIDES
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import TableKey, node_key
from omnigraphdb.limits import COMMITTED_SPLIT_ROWS
from omnigraphdb.pipeline.checks import LoadSpec, spill_findings
from omnigraphdb.pipeline.input.read import split_rows
from omnigraphdb.pipeline.input.splits import CommittedSplit, Split, cut_table
from omnigraphdb.pipeline.keys.decide import Bucket, resolve_ids
from omnigraphdb.pipeline.keys.extract import Keys
from omnigraphdb.pipeline.keys.plan import (
    ID,
    KeyPlan,
    KeySide,
    Origin,
    list_node_tables,
    plan_reading,
)
from omnigraphdb.pipeline.messages import MESSAGES, EndpointsMissing, encode
from omnigraphdb.pipeline.runner import Each
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

# ---- ids


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalIdSplit:
    """Splits of one table that hold every row of the ids in them."""

    table_key: TableKey
    splits: tuple[Split, ...]


def local_ids_step(
    key_plan: KeyPlan, splits: Sequence[Split], tables: Collection[TableKey]
) -> Each:
    """Resolve the ids of tables: duplicates, superseded rows, and matches with committed rows."""
    groups: list[LocalIdSplit] = []
    for table in tables:
        table_splits = tuple(split for split in splits if split.table_key == table)
        # Distinct ids are resolved split by split; otherwise one task needs all splits of the table.
        runs = (
            [(split,) for split in table_splits]
            if table in key_plan.distinct_ids
            else [table_splits]
        )
        groups += (LocalIdSplit(table_key=table, splits=run) for run in runs)
    return Each(name="meet", splits=groups, run=LocalIds(key_plan), out=MESSAGES)


@dataclass(frozen=True, slots=True)
class LocalIds:
    """Resolves the ids of some splits of one table."""

    key_plan: KeyPlan

    def __call__(self, split: LocalIdSplit) -> Iterator[pa.Table]:
        table = split.table_key
        table_plan = replace(
            self.key_plan,
            incoming_rows={table: self.key_plan.incoming_rows[table]},
            resolves_ids=True,
            checks_rules=False,
        )
        store = table_plan.load.store()
        incoming = KeySide(Origin.INCOMING, table, ID)
        sides = {incoming.name: _extract_side(table_plan, split.splits, incoming)}
        if table_plan.committed_sides:
            committed = KeySide(Origin.COMMITTED, table, ID)
            sides[committed.name] = table_plan.load.cached(
                f"committed {table}",
                table_plan.pins[table],
                lambda: _read_committed(table_plan, committed, store),
            )
        messages = resolve_ids(Bucket(table_plan, sides, store))
        yield encode(spill_findings(table_plan.load, store, messages))


def _read_committed(key_plan: KeyPlan, side: KeySide, store: Store) -> pa.Table:
    at = key_plan.pins[side.table_key]
    fragments = store.tables.open(at).fragments()
    splits = tuple(cut_table(side.table_key, at, fragments, COMMITTED_SPLIT_ROWS))
    return _extract_side(key_plan, splits, side)


def _extract_side(
    key_plan: KeyPlan, splits: Sequence[Split | CommittedSplit], side: KeySide
) -> pa.Table:
    keys = Keys(key_plan)
    parts = [rows for split in splits for name, rows in keys(split) if name == side.name]
    return pa.concat_tables([key_plan.schema(side).empty_table(), *parts])


# ---- endpoints


@dataclass(frozen=True, slots=True)
class NodeIds:
    """The sources of the ids of a node type after the load: splits, and the surviving table version if there is one."""

    splits: tuple[Split, ...]
    at: TableAt | None


def make_reading_check(load: LoadSpec, splits: Sequence[Split]) -> "LocalEndpoints | None":
    """Make the endpoint check that the check step runs while it reads; None when the plan has no edges for it."""
    plan = plan_reading(load, splits)
    if not plan.edges:
        return None
    nodes = {table: NodeIds(node_splits, None) for table, node_splits in plan.nodes.items()}
    return LocalEndpoints(load, nodes, plan.edges)


def local_endpoints_step(
    key_plan: KeyPlan, splits: Sequence[Split], edges: Collection[EdgeType]
) -> Each:
    """Look for the endpoints of edges; a table that misses one is named, and the rules then say which."""
    tables = frozenset(edge.table_key for edge in edges)
    nodes = {
        table: NodeIds(
            tuple(split for split in splits if split.table_key == table),
            key_plan.surviving_version(table),
        )
        for edge in edges
        for table in list_node_tables(edge)
    }
    return Each(
        name="ends",
        splits=[split for split in splits if split.table_key in tables],
        run=LocalEndpoints(key_plan.load, nodes, tables),
        out=MESSAGES,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class LocalEndpoints:
    """Looks for the endpoints of the edges of one split."""

    load: LoadSpec
    nodes: Mapping[TableKey, NodeIds]
    edges: frozenset[TableKey]

    def check_reading(self, edge: EdgeType, rows: pa.Table, store: Store) -> bool:
        """Whether all endpoints of rows that are being read exist; False also when the nodes cannot be read."""
        try:
            return edge.table_key in self.edges and self._find_all(edge, rows, store)
        except (OmniError, OSError, pa.ArrowException):
            # The task that checks the nodes reports their problems.
            return False

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        store = self.load.store()
        assert split.table_key is not None, "shaped splits have a type"
        edge = self.load.type(split.table_key)
        assert isinstance(edge, EdgeType), "only edges have endpoints"
        rows = split_rows(split, edge, [side for side, _ in SIDES], self.load.catalog, store)
        all_exist = self._find_all(edge, rows, store)
        yield encode(() if all_exist else (EndpointsMissing(edge.table_key),))

    def _find_all(self, edge: EdgeType, rows: pa.Table, store: Store) -> bool:
        return all(self._find(edge, rows, table, store) for table in list_node_tables(edge))

    def _find(self, edge: EdgeType, rows: pa.Table, table: TableKey, store: Store) -> bool:
        """Whether all endpoints that name nodes of a table exist."""
        types = {"src": edge.source, "dst": edge.target}
        columns = [column(rows, side) for side, name in types.items() if node_key(name) == table]
        endpoints = pa.concat_arrays(columns).drop_null().cast(pa.large_string())
        at = self.nodes[table].at
        ids = self.load.cached(f"ids of {table}", at, lambda: self._read_ids(table, store))
        # Edges that name every node once, in order, need no search.
        return endpoints.equals(ids) or bool(
            pc.all(pc.is_in(endpoints, value_set=ids), min_count=0).as_py()
        )

    def _read_ids(self, table: TableKey, store: Store) -> pa.Array:
        node, type_ = self.nodes[table], self.load.type(table)
        catalog = self.load.catalog
        parts = [column(split_rows(split, type_, [], catalog, store), ID) for split in node.splits]
        if node.at is not None:
            parts.append(column(store.tables.open(node.at).read([ID]), ID))
        return pa.concat_arrays([part.cast(pa.large_string()) for part in parts or [_NO_IDS]])


_NO_IDS = pa.array([], pa.large_string())
