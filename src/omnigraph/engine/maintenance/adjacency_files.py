"""Adjacency files: maintenance and loads keep the neighbours of large edge tables beside them, for readers that come later."""

from collections.abc import Iterable

from omnigraph.engine.cached.cache import ByteCache
from omnigraph.engine.read.graph.adjacency_file import FILE_NAME, decode_adjacency
from omnigraph.engine.read.snapshot_tables import NO_NAMES, SnapshotTables
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError
from omnigraph.ids import MAIN, TableKey, Version
from omnigraph.logs import get_logger

_log = get_logger(__name__)


def store_adjacencies(engine: Engine, tables: Iterable[TableKey]) -> None:
    """Write the adjacency files of edge tables of main that have none which serves.

    The tables are committed already: a failure in here is logged, and readers do without the file.
    """
    try:
        view = engine.view(MAIN)
        # What is read here serves no query of this handle, so that it takes no room in the cache.
        shown = SnapshotTables(
            catalog=view.catalog,
            snapshot=view.snapshot,
            names=NO_NAMES,
            tables=engine.store.tables,
            cache=ByteCache(engine.settings.cache_bytes),
        )
        named = {type_.table_key: name for name, type_ in view.catalog.edges.items()}
        for table in tables:
            if table in named and table in view.snapshot.entries:
                written = shown.topology(named[table]).store()
                if written:
                    _log.info("adjacency_file.written", table=table, bytes=written)
    except OmniError as error:
        _log.warning("adjacency_file.failed", reason=str(error))


def drop_stale_adjacency(engine: Engine, path: str, left: frozenset[Version]) -> None:
    """Remove the adjacency file of a table whose version is not left, or which cannot be read."""
    tables = engine.store.tables
    data = tables.read_beside(path, FILE_NAME)
    if data is None:
        return
    found = decode_adjacency(data, ByteCache(0))
    if found is None or found.entry is None or found.entry.version not in left:
        tables.delete_beside(path, FILE_NAME)
