"""The matches of a mutation: they read the snapshot that the mutation is prepared on, and count as read by it."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.checked import CheckedRead, Pattern
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.engine.read.run import run
from omnigraphdb.engine.read.snapshot_tables import NO_NAMES, open_snapshot
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.engine.write.table_source import StatementValues
from omnigraphdb.ids import TableKey, node_key
from omnigraphdb.manifest.view import View


def open_matches(
    engine: Engine,
    view: View,
    statement_values: StatementValues,
    committed: SnapshotRows,
) -> Callable[[CheckedRead], pa.Table]:
    """Return the function that runs the matches of a mutation on a view.

    The tables that the matches read must not change before the publish.
    """

    def run_match(read: CheckedRead) -> pa.Table:
        committed.consulted.update(list_tables(read, view.catalog))
        return run(open_reader(engine, view, read, statement_values))

    return run_match


def open_reader(
    engine: Engine, view: View, read: CheckedRead, statement_values: StatementValues
) -> Reader:
    """Plan a match, to be read from a view."""
    tables, cache = engine.store.tables, engine.cache
    return Reader(
        plan=engine.plans.match(view.accepted, read),
        snapshot=open_snapshot(view.catalog, view.snapshot, NO_NAMES, tables, cache),
        params=statement_values.params,
        embedder=engine.embedder,
        traversal=engine.traversal,
        now=statement_values.now,
    )


def list_tables(read: CheckedRead, catalog: Catalog) -> set[TableKey]:
    """List the tables that a match reads: of its variables, of its edges, and of the nodes at their ends."""
    tables = {table for variable in read.variables.values() for table in variable.tables}
    for pattern in read.patterns:
        for name in _list_edges(pattern):
            edge = catalog.edges[name]
            tables |= {edge.table_key, node_key(edge.source), node_key(edge.target)}
    return tables


def _list_edges(pattern: Pattern) -> Iterator[str]:
    for hop in pattern.hops:
        yield from split_types(hop.edge)
    for block in pattern.nested:
        yield from _list_edges(block)
