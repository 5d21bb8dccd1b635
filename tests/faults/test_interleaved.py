"""A program that takes no locks commits between the last look of a writer and its commit, on an object store.

There no fence holds a commit of Lance back: it lands on the foreign one, and the writer must not take that for its own
version. A version that is drafted and put is refused by the store.
"""

from functools import partial

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError, DriftError, Interleaved, OmniError, RecoveryRequired
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN, OperationId, TableKey
from omnigraphdb.recovery.audit import RecoveryKind
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, content, note

pytestmark = pytest.mark.s3


def append_foreign(graph: Graph, table: TableKey) -> None:
    """Append a row as a program would that knows nothing of the graph."""
    tables = graph._engine.store.tables
    at = graph._engine.manifest.load(MAIN).snapshot.entry(table).at
    rows = tables.open(at).read().slice(0, 1)
    stray = rows.set_column(0, rows.schema.field("id"), [["stray"]])
    staged = tables.stage_append(at, stray)
    tables.commit_staged(staged, operation_id=OperationId("foreign"), lock=None)


PLACES = pytest.mark.parametrize(
    ("table", "at"),
    [("edge:LivesIn", Failpoint.ARMED), ("node:Person", Failpoint.TABLE_COMMITTED)],
    ids=["nothing landed before", "others landed before"],
)


@PLACES
def test_a_writer_whose_versions_are_put_is_refused_and_leaves_no_trace(
    bucket: Bucket, table: str, at: Failpoint
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
    graph = omnigraphdb.open(uri, storage_options=options)
    before = content(graph)
    stranger = omnigraphdb.open(uri, storage_options=options)
    interfere = once(partial(append_foreign, stranger, TableKey(table)))
    with armed(at, interfere), pytest.raises(ConflictError):
        WRITES["insert"].run(graph, "main", "1", "ada")
    assert content(graph) == before
    assert graph.pending_recoveries() == []
    # The foreign commit is as nobody's as it was before the write.
    with pytest.raises(DriftError, match=r"omnigraphdb repair"):
        WRITES["insert"].run(graph, "main", "2", None)
    note(graph, "main", "other tables go on")
    graph.repair(confirm=True, force=True)
    WRITES["insert"].run(graph, "main", "3", None)
    assert_settled(graph)


@PLACES
def test_a_writer_stops_and_recovery_takes_it_back(
    bucket: Bucket, table: str, at: Failpoint
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
    graph = omnigraphdb.open(uri, storage_options=options, config={"unofficial_lance": "off"})
    before, commits = content(graph), len(graph.commits())
    stranger = omnigraphdb.open(uri, storage_options=options)
    interfere = once(partial(append_foreign, stranger, TableKey(table)))
    with armed(at, interfere), pytest.raises(Interleaved, match="foreign commit interleaved"):
        WRITES["insert"].run(graph, "main", "1", "ada")
    # It is on disk, nobody sees it, and the sidecar that explains it is still there.
    assert content(graph) == before
    (pending,) = graph.pending_recoveries()
    assert not pending.live
    with pytest.raises(RecoveryRequired):
        WRITES["insert"].run(graph, "main", "2", None)
    note(graph, "main", "other tables go on")
    with omnigraphdb.open(uri, storage_options=options) as graph:
        assert tuple(one for one in content(graph) if '"Note"' not in one) == before
        assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
        assert_settled(graph)
        assert len(graph.commits()) == commits + 2
        WRITES["insert"].run(graph, "main", "2", None)
        assert_settled(graph)


def test_a_lone_writer_that_looks_no_more_meets_a_foreign_commit_all_the_same(
    bucket: Bucket,
) -> None:
    """After its own last commit it asks nobody whether HEAD moved; its next commit must not take it for its own."""
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
        for number in range(2):
            note(graph, "main", f"mine {number}")
        before, table = content(graph), TableKey("node:Note")
        with omnigraphdb.open(uri, storage_options=options) as stranger:
            append_foreign(stranger, table)
        with pytest.raises((Interleaved, DriftError)):
            note(graph, "main", "on foreign rows")
        assert content(graph) == before
    with omnigraphdb.open(uri, storage_options=options) as graph:
        assert content(graph) == before
        graph.repair(confirm=True, force=True)
        note(graph, "main", "again")
        assert len(content(graph)) == len(before) + 2
        assert_settled(graph)


def test_a_lone_writer_looks_again_when_its_own_write_failed_half_way(bucket: Bucket) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
        note(graph, "main", "first")
        with armed(Failpoint.TABLES_COMMITTED), pytest.raises(OmniError):
            note(graph, "main", "left behind")
        note(graph, "main", "next")
        notes = [one for one in content(graph) if '"Note"' in one]
        assert any("next" in one for one in notes)
        assert any("left behind" in one for one in notes)
        assert_settled(graph)
