"""Maintenance on other stores than a disk: what goes and what stays is the same."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.maintenance import OLDER, SCHEMA, content, entry, records, tables_of
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

STORES = ("memory", pytest.param("s3", marks=pytest.mark.s3))


@pytest.fixture(params=STORES)
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Graph:
    uri, options = f"memory://{tmp_path.name}/g", None
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        uri, options = f"{bucket.uri}/g", bucket.storage_options
    made: Graph = omnigraphdb.init(
        uri, SCHEMA, storage_options=options, config={"maintenance": "off"}
    )
    made.load(records(), mode="append")
    return made


def test_old_versions_forks_and_dropped_tables_go_and_branches_stay(graph: Graph) -> None:
    for branch in ("work", "gone"):
        graph.branch_create(branch)
        for number in range(3):
            graph.mutate(OLDER, {"name": "p1", "age": number}, branch=branch)
    for number in range(3):
        graph.mutate(OLDER, {"name": "p2", "age": number})
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete("gone")
    shown = {name: content(graph, name) for name in ("main", "work")}
    path = entry(graph).at.path
    preview, done = graph.cleanup(keep=1), graph.cleanup(keep=1, confirm=True)
    assert done.tables == preview.tables
    assert {fork for one in done.tables for fork in one.forks_removed} == {"gone"}
    assert set(tables_of(graph).sizes(path)) == {None, "work"}
    assert len(tables_of(graph).versions(path, "work")) <= 2
    graph._engine.cache.clear()
    tables_of(graph).forget()
    assert {name: content(graph, name) for name in shown} == shown
    assert graph.merge("work").outcome == "merged"
    graph.branch_delete("work")
    without = "\n".join(
        line for line in graph.schema_source.splitlines() if "node City" not in line
    )
    graph.schema_apply(without)
    dropped = [one.table_key for one in graph.cleanup(keep=1, confirm=True).tables if one.dropped]
    assert dropped == ["node:City"]
    assert_settled(graph)
