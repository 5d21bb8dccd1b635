"""A program that takes no locks commits between the last look of a writer and its commit, on an object store.

There no fence holds a commit back: it lands on the foreign one, and the writer must not take that for its own version.
"""

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.errors import Interleaved, RecoveryRequired
from omnigraph.failpoints import Failpoint, armed
from omnigraph.ids import MAIN, OperationId, TableKey
from omnigraph.recovery.audit import RecoveryKind
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, content, note

pytestmark = pytest.mark.s3


def append_foreign(graph: Graph, table: TableKey) -> None:
    """Append a row as a program would that knows nothing of the graph."""
    tables = graph._engine.store.tables
    at = graph._engine.manifest.load(MAIN).snapshot.entry(table).at
    staged = tables.stage_append(at, tables.open(at).read().slice(0, 1))
    tables.commit_staged(staged, operation_id=OperationId("foreign"), lock=None)


@pytest.mark.parametrize(
    ("table", "at"),
    [("edge:LivesIn", Failpoint.ARMED), ("node:Person", Failpoint.TABLE_COMMITTED)],
    ids=["nothing landed before", "others landed before"],
)
def test_a_writer_stops_and_recovery_takes_it_back(
    bucket: Bucket, table: str, at: Failpoint
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraph.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
    graph = omnigraph.open(uri, storage_options=options)
    before, commits = content(graph), len(graph.commits())
    stranger = omnigraph.open(uri, storage_options=options)
    rounds = iter([True])

    def interfere() -> None:
        if next(rounds, False):
            append_foreign(stranger, TableKey(table))

    with armed(at, interfere), pytest.raises(Interleaved, match="foreign commit interleaved"):
        WRITES["insert"].run(graph, "main", "1", "ada")
    # It is on disk, nobody sees it, and the sidecar that explains it is still there.
    assert content(graph) == before
    (pending,) = graph.pending_recoveries()
    assert not pending.live
    with pytest.raises(RecoveryRequired):
        WRITES["insert"].run(graph, "main", "2", None)
    note(graph, "main", "other tables go on")
    with omnigraph.open(uri, storage_options=options) as graph:
        assert tuple(one for one in content(graph) if '"Note"' not in one) == before
        assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
        assert_settled(graph)
        assert len(graph.commits()) == commits + 2
        WRITES["insert"].run(graph, "main", "2", None)
        assert_settled(graph)
