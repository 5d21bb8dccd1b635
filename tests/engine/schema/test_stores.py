"""A schema change works the same on every kind of store."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.s3 import Bucket
from tests.support.schema_changes import BASE, RECORDS, VARIANTS, content


@pytest.fixture(params=["memory", "s3"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Graph:
    """A graph that is not on a local disk."""
    if request.param == "memory":
        opened: Graph = omnigraphdb.init(f"memory://{tmp_path.name}", BASE)
    else:
        bucket: Bucket = request.getfixturevalue("bucket")
        opened = omnigraphdb.init(f"{bucket.uri}/g", BASE, storage_options=bucket.storage_options)
    opened.load(RECORDS, mode="append")
    return opened


def test_every_kind_of_change_is_applied_there(graph: Graph) -> None:
    before = graph.commits()[0]
    graph.schema_apply(VARIANTS["mixed"])
    assert sorted(content(graph)) == ["edge:Owns", "node:City", "node:Human", "node:Pet"]
    assert graph.table("Human")["years"].to_pylist() == [36, None]
    assert graph.table("Lives", at=before).num_rows == 1
    assert graph.doctor() == []


def test_a_change_that_fails_there_is_completed_or_taken_back(graph: Graph) -> None:
    with armed(Failpoint.SCHEMA_UNSTAGED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["mixed"])
    graph.refresh(roll_back=True)
    assert graph.schema_source == BASE
    with armed(Failpoint.SCHEMA_SOURCE_PLACED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["mixed"])
    graph.refresh(roll_back=True)
    assert graph.schema_source == VARIANTS["mixed"]
    assert graph.doctor() == []
