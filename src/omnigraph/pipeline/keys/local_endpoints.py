"""Ends of edges looked at where the edges are: nodes that are few enough come to every task, and no edge has to travel."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.constraints.endpoints import SIDES
from omnigraph.errors import OmniError
from omnigraph.ids import TableKey, node_key
from omnigraph.limits import CACHED_IDS_ROWS
from omnigraph.pipeline.checks import Job
from omnigraph.pipeline.input.read import split_rows
from omnigraph.pipeline.input.splits import InMemory, RowGroups, Spilled, Split
from omnigraph.pipeline.keys.plan import KeyPlan
from omnigraph.pipeline.messages import ANSWERS, Undecided, encode
from omnigraph.pipeline.runner import Each
from omnigraph.storage.arrow import column
from omnigraph.storage.store import Store
from omnigraph.storage.tables import TableAt
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeIds:
    """Where the ids are that a node type has after the load: in the input, and in a table unless it is replaced."""

    splits: tuple[Split, ...]
    at: TableAt | None


def node_tables(edge: EdgeType) -> tuple[TableKey, ...]:
    """The node tables at the ends of an edge type."""
    return tuple(dict.fromkeys((node_key(edge.source), node_key(edge.target))))


def choose_checked_while_reading(job: Job, splits: Sequence[Split]) -> "LocalEndpoints | None":
    """A look at the ends of edges while they are read for the first time, among the nodes that come with them.

    Nodes that come are there after the load, whatever is committed. Only those in frames can be read beforehand.
    """
    of_nodes: defaultdict[TableKey, list[Split]] = defaultdict(list)
    for split in splits:
        if split.table_key is not None and all(_is_frame(one) for one in split.inputs):
            of_nodes[split.table_key].append(split)
    rows = {table: sum(split.rows or 0 for split in own) for table, own in of_nodes.items()}
    edges = [
        type_
        for table in of_nodes
        if isinstance(type_ := job.type(table), EdgeType)
        and all(node in of_nodes for node in node_tables(type_))
        and _are_few(sum(rows[node] for node in node_tables(type_)), rows[table])
    ]
    wanted = {node for edge in edges for node in node_tables(edge)}
    ids = {table: NodeIds(tuple(_unsliced(of_nodes[table])), None) for table in wanted}
    return LocalEndpoints(job, ids, frozenset(edge.table_key for edge in edges)) if edges else None


def _is_frame(split: Split) -> bool:
    """Whether rows can be read at once, without being parsed."""
    return isinstance(split.content, RowGroups | InMemory | Spilled)


def _unsliced(splits: Sequence[Split]) -> Iterator[Split]:
    """Splits that are read by one task: slices of the same row groups are read once, whole."""
    for split in splits:
        content = split.content
        if not isinstance(content, RowGroups) or not content.is_sliced:
            yield split
        elif not content.start:
            yield replace(split, content=RowGroups(content.path, content.groups))


def _are_few(nodes: int, edges: int) -> bool:
    """Whether nodes are few enough for every task, and not so many that to bring them costs more than to send edges."""
    return nodes <= min(CACHED_IDS_ROWS, 2 * edges)


def choose_local_endpoint_tables(key_plan: KeyPlan) -> list[EdgeType]:
    """The edge types whose nodes are few enough for every task, and not so many that to bring them costs more."""
    return [
        edge
        for edge in key_plan.edges()
        if key_plan.rows[edge.table_key]
        and not any(key_plan.is_looked_up(table) for table in node_tables(edge))
        and _are_few(_ids(key_plan, edge), key_plan.rows[edge.table_key])
    ]


def _ids(key_plan: KeyPlan, edge: EdgeType) -> int:
    """How many ids the nodes of an edge type have, at most."""
    return sum(
        key_plan.rows.get(table, 0) + key_plan.held.get(table, 0) for table in node_tables(edge)
    )


def local_endpoints_step(
    key_plan: KeyPlan, splits: Sequence[Split], edges: Collection[EdgeType]
) -> Each:
    """Look at the ends of edges; of those that are not all there the tables are told, for the rules to say more."""
    wanted = {edge.table_key for edge in edges}
    nodes = {table for edge in edges for table in node_tables(edge)}
    ids = {
        table: NodeIds(
            tuple(split for split in splits if split.table_key == table),
            key_plan.stays(table),
        )
        for table in nodes
    }
    own = [split for split in splits if split.table_key in wanted]
    return Each(
        name="ends",
        splits=own,
        run=LocalEndpoints(key_plan.job, ids, frozenset(wanted)),
        out=ANSWERS,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class LocalEndpoints:
    """Looks at the ends of one split."""

    job: Job
    nodes: Mapping[TableKey, NodeIds]
    edges: frozenset[TableKey]

    def passing(self, edge: EdgeType, rows: pa.Table, store: Store) -> bool:
        """Whether the ends of edges are all there; not, too, when that cannot be told."""
        try:
            return edge.table_key in self.edges and self._sees(edge, rows, store)
        except (OmniError, OSError, pa.ArrowException):
            # What is wrong with the nodes is told by who checks them.
            return False

    def _sees(self, edge: EdgeType, rows: pa.Table, store: Store) -> bool:
        return all(self._are_there(edge, rows, table, store) for table in node_tables(edge))

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        store = self.job.store()
        assert split.table_key is not None, "rows that are told apart have a type"
        edge = self.job.type(split.table_key)
        assert isinstance(edge, EdgeType), "only edges have ends"
        rows = split_rows(split, edge, [side for side, _ in SIDES], store)
        yield encode(() if self._sees(edge, rows, store) else (Undecided(edge.table_key),))

    def _are_there(self, edge: EdgeType, rows: pa.Table, table: TableKey, store: Store) -> bool:
        names = {"src": edge.source, "dst": edge.target}
        ends = [column(rows, side) for side, name in names.items() if node_key(name) == table]
        sought = pa.concat_arrays(ends).drop_null().cast(pa.large_string())
        at = self.nodes[table].at
        ids = self.job.kept(f"ids of {table}", at, lambda: self._ids_of(table, store))
        # Edges that name every node once, in order, need no search.
        return sought.equals(ids) or bool(
            pc.all(pc.is_in(sought, value_set=ids), min_count=0).as_py()
        )

    def _ids_of(self, table: TableKey, store: Store) -> pa.Array:
        node, type_ = self.nodes[table], self.job.type(table)
        parts = [column(split_rows(split, type_, [], store), "id") for split in node.splits]
        if node.at is not None:
            parts.append(column(store.tables.open(node.at).read(["id"]), "id"))
        return pa.concat_arrays([part.cast(pa.large_string()) for part in parts or [_NONE]])


_NONE = pa.array([], pa.large_string())
