"""Adjacency files: the neighbours of large edge tables, stored next to the tables for later readers."""

from collections.abc import Iterable

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.graph.adjacency_file import (
    FILE_EDGE_BYTES,
    FILE_NAME,
    decode_adjacency,
)
from omnigraphdb.engine.read.snapshot_tables import NO_NAMES, SnapshotTables
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, TableKey, Version, node_key
from omnigraphdb.limits import (
    ADJACENCY_EDGE_BYTES,
    ADJACENCY_FILE_BYTES_MAX,
    ADJACENCY_NODE_BYTES,
)
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.snapshot import Snapshot

_log = get_logger(__name__)


def store_adjacencies(
    engine: Engine, tables: Iterable[TableKey], bytes_max: int | None = None
) -> None:
    """Write the adjacency files of edge tables of main that have no current adjacency file.

    No file is built for a table that would take more memory than `bytes_max`, or whose file would be too large: readers
    build its adjacency when they need it. The tables are committed already: a failure in here is logged, and readers do
    without the file.
    """
    try:
        view = engine.view(MAIN)
        # The tables read here serve no query of this handle, so they do not fill its cache.
        snapshot_tables = SnapshotTables(
            catalog=view.catalog,
            snapshot=view.snapshot,
            names=NO_NAMES,
            tables=engine.store.tables,
            cache=ByteCache(engine.settings.cache_bytes),
        )
        written = frozenset(tables) & view.snapshot.entries.keys()
        for edge in view.catalog.edges.values():
            if edge.table_key not in written:
                continue
            if not _is_within_bounds(view.snapshot, edge, bytes_max):
                _log.info("adjacency_file.left_out", table=edge.table_key)
            elif size := snapshot_tables.topology(edge.name).store():
                _log.info("adjacency_file.written", table=edge.table_key, bytes=size)
    except OmniError as error:
        _log.warning("adjacency_file.failed", reason=str(error))


def _is_within_bounds(snapshot: Snapshot, edge: EdgeType, bytes_max: int | None) -> bool:
    """Whether an adjacency is small enough to be built, by the row counts of the manifest: no table is opened."""
    edges, nodes = snapshot.entry(edge.table_key).row_count, 0
    for key in sorted({node_key(edge.source), node_key(edge.target)}):
        nodes += snapshot.entry(key).row_count
    if FILE_EDGE_BYTES * (edges + nodes) > ADJACENCY_FILE_BYTES_MAX:
        return False
    needed = ADJACENCY_EDGE_BYTES * edges + ADJACENCY_NODE_BYTES * nodes
    return bytes_max is None or needed <= bytes_max


def drop_stale_adjacency(engine: Engine, path: str, left: frozenset[Version]) -> None:
    """Remove the adjacency file of a table if it cannot be read, or if its version is not in `left`."""
    tables = engine.store.tables
    data = tables.read_attached_file(path, FILE_NAME)
    if data is None:
        return
    adjacency = decode_adjacency(data, ByteCache(0))
    if adjacency is None or adjacency.entry is None or adjacency.entry.version not in left:
        tables.delete_attached_file(path, FILE_NAME)
