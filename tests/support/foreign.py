"""A writer that knows nothing of locks and sidecars: what another program may do to the files of a graph."""

from collections.abc import Sequence

import pyarrow as pa

from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import BranchName, CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.storage.values import TableAt


def foreign_rows(
    graph: Graph, table: str, keys: Sequence[str], branch: str = "main", *, key: str = "k"
) -> TableAt:
    """Append nodes at HEAD of a table, telling nobody; `key` is the property that is their id."""
    tables = graph._engine.store.tables
    entry = graph._engine.manifest.current(BranchName(branch)).snapshot.entry(TableKey(table))
    head = tables.head(entry.at.path, entry.at.branch)
    at = TableAt(path=entry.at.path, branch=entry.at.branch, version=head)
    schema = tables.open(at).schema
    columns = {name: pa.nulls(len(keys), schema.field(name).type) for name in schema.names}
    columns |= {name: pa.array(keys, pa.string()) for name in ("id", key) if name in columns}
    staged = tables.stage_append(at, pa.Table.from_pydict(columns, schema=schema))
    return tables.commit_staged(staged, operation_id=OperationId("foreign"), lock=None).at


def foreign_publish(
    graph: Graph,
    table: str,
    version: int | None = None,
    branch: str = "main",
    lance_branch: str | None = None,
) -> None:
    """Make a version of a table visible, HEAD unless one is named, in a commit of its own."""
    engine = graph._engine
    entry = engine.manifest.load(BranchName(branch)).snapshot.entry(TableKey(table))
    tables, line = engine.store.tables, lance_branch or entry.at.branch
    found = version or tables.head(entry.at.path, line)
    at = TableAt(path=entry.at.path, branch=line, version=Version(found))
    update = Update(table_key=entry.table_key, at=at, row_count=tables.open(at).count())
    draft = Draft(
        commit=CommitId(engine.runtime.new_id()), kind=CommitKind.REPAIR, actor="foreigner"
    )
    publish(engine.manifest, Change(branch=BranchName(branch), updates=(update,), draft=draft))
