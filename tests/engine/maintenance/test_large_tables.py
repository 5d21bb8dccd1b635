"""Indexes of tables that are large enough to be sorted here: on every store and branch they answer as a scan does."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import BTREE_ROWS_MIN
from omnigraphdb.storage.values import IndexKind
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person
"""
NAMES = [f"p{number:04}" for number in range(500)]
ENDS = np.random.default_rng(7).integers(0, len(NAMES), (2, BTREE_ROWS_MIN + 10))
EDGES = pa.table(
    {side: [NAMES[n] for n in ends] for side, ends in zip(("src", "dst"), ENDS, strict=True)}
)


@pytest.fixture(params=["disk", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Graph]:
    uri, options = {"disk": str(tmp_path / "g"), "memory": f"memory://{tmp_path.name}/g"}, None
    place = uri.get(request.param, "")
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        place, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(
        place, SCHEMA, storage_options=options, config={"maintenance": "off"}
    ) as made:
        made.load({"Person": pa.table({"name": NAMES})}, mode="append", spark=False)
        yield made
        assert_settled(made)


@pytest.mark.parametrize("branch", ["main", "work"])
def test_edges_are_found_by_their_ends_as_a_scan_finds_them(graph: Graph, branch: str) -> None:
    if branch != "main":
        graph.branch_create(branch)
    graph.load({"Knows": EDGES}, mode="append", branch=branch, spark=False)
    engine = graph._engine
    entry = engine.view(BranchName(branch)).snapshot.entry(TableKey("edge:Knows"))
    table = engine.store.tables.open(entry.at)
    for number, side in enumerate(("src", "dst")):
        assert not table.uncovered(side, IndexKind.BTREE)
        for name in (0, 1, 250, 499):
            filter = f"{side} = '{NAMES[name]}'"
            assert "ScalarIndexQuery" in table.explain(filter)
            assert table.count(filter) == int((ENDS[number] == name).sum())
