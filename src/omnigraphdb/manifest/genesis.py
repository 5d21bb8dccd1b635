"""Creating a graph: claim the root, write its schema, create its tables, make them visible."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.errors import AlreadyInitialized, OmniError, TableExists
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, CommitId, TableKey, Version
from omnigraphdb.manifest.accepted_schema import AcceptedSchema
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import (
    CONFIG,
    CommitKind,
    GraphCommit,
    GraphHead,
    Record,
    Registration,
    TableVersion,
    encode,
)
from omnigraphdb.manifest.stamp import CURRENT, STAMP
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.layout import SCHEMA_FILES, SCHEMA_IR, SCHEMA_PG, SCHEMA_STATE
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt


def initialise(
    objects: Objects,
    tables: Tables,
    manifest: Manifest,
    accept: Callable[[], AcceptedSchema],
    *,
    uri: str,
    force: bool = False,
    is_alone: bool = False,
) -> BranchState:
    """Create a graph, or leave no files that look like one.

    `accept` compiles the schema; it runs after a root that is taken has been refused. `force` takes over the
    schema files of an init that died; it never takes over a graph. `is_alone`: the caller holds the lock of this
    root, so that a schema file which appears is this call's own, also when the store answered otherwise.
    """
    _refuse_taken(objects, manifest, uri, force)
    accepted = accept()
    texts = accepted.texts
    if force:
        objects.put(SCHEMA_PG, texts[SCHEMA_PG])
    elif not objects.put_if_absent(SCHEMA_PG, texts[SCHEMA_PG]) and not is_alone:
        raise AlreadyInitialized(uri, has_graph=False)
    with _release_root_on_failure(objects):
        fail(Failpoint.INIT_SCHEMA_WRITTEN)
        objects.put(SCHEMA_IR, texts[SCHEMA_IR])
        objects.put(SCHEMA_STATE, texts[SCHEMA_STATE])
        fail(Failpoint.INIT_CONTRACT_WRITTEN)
        created = _create(tables, manifest, accepted.contract, uri)
        fail(Failpoint.INIT_TABLES_CREATED)
    return created


def _refuse_taken(objects: Objects, manifest: Manifest, uri: str, force: bool) -> None:
    has_graph = manifest.rows.exists()
    if has_graph or (not force and any(objects.exists(path) for path in SCHEMA_FILES)):
        raise AlreadyInitialized(uri, has_graph)


@contextmanager
def _release_root_on_failure(objects: Objects) -> Iterator[None]:
    """Remove the schema files on any failure: they are this call's own."""
    try:
        yield
    except BaseException:
        for path in SCHEMA_FILES:
            with suppress(OmniError):
                objects.delete(path)
        raise


def _create(tables: Tables, manifest: Manifest, contract: Contract, uri: str) -> BranchState:
    """Create the tables, then the manifest that makes them a graph."""
    tables_at: dict[TableKey, TableAt] = {}
    try:
        for key, declared in contract.catalog.tables.items():
            path = contract.stored_tables[key].path
            tables_at[key] = _create_table(tables, manifest, path, declared.schema, uri)
        return manifest.heads.keep(
            _create_manifest(manifest, _genesis(tables_at, manifest), tables_at)
        )
    except BaseException:
        _discard(tables, manifest, tables_at)
        raise


def _create_manifest(
    manifest: Manifest, genesis: GraphCommit, tables_at: dict[TableKey, TableAt]
) -> BranchState:
    """Create the manifest; a manifest with our own first commit is ours, and only the answer was lost."""
    records = encode(_first_records(tables_at, genesis))
    try:
        image = manifest.rows.create(records, metadata={STAMP: str(CURRENT)}, config=CONFIG)
    except TableExists:
        state = manifest.load(MAIN)
        if state.shows(genesis.id) is None:
            raise
        return state
    return manifest.load(MAIN, image.version)


def _create_table(
    tables: Tables, manifest: Manifest, path: str, schema: pa.Schema, uri: str
) -> TableAt:
    """Create a table, and replace the table of a failed init: without a manifest nothing refers to it."""
    try:
        return tables.create(path, schema)
    except TableExists:
        if manifest.rows.exists():
            raise AlreadyInitialized(uri) from None
        tables.delete_table(path)
        return tables.create(path, schema)


def _discard(tables: Tables, manifest: Manifest, tables_at: dict[TableKey, TableAt]) -> None:
    """Remove the tables of a failed init, unless a manifest exists."""
    with suppress(OmniError):
        if not manifest.rows.exists():
            for at in tables_at.values():
                tables.delete_table(at.path)


def _genesis(tables_at: dict[TableKey, TableAt], manifest: Manifest) -> GraphCommit:
    return GraphCommit(
        id=CommitId(manifest.runtime.new_id()),
        branch=MAIN,
        manifest_version=Version(1),
        created_at=manifest.runtime.now_us(),
        kind=CommitKind.INIT,
        tables=tuple(tables_at),
    )


def _first_records(tables_at: dict[TableKey, TableAt], genesis: GraphCommit) -> Iterator[Record]:
    for key, at in tables_at.items():
        yield Registration(table_key=key, path=at.path)
        yield TableVersion(
            table_key=key, path=at.path, version=at.version, branch=None, row_count=0
        )
    yield genesis
    yield GraphHead(branch=MAIN, commit=genesis.id, parent=None)
