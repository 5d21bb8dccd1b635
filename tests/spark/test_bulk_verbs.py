"""Merges, exports, index builds and compaction by executors end as those of this process do."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import FileFormat

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("spark")]

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? @index }
edge Knows: Person -> Person { since: I32? }
"""
ROWS = 4_000
CONFIG = {"small_work_rows": 0, "maintenance": "off"}


def people(start: int, count: int, age: int = 1) -> pa.Table:
    names = [f"p{i}" for i in range(start, start + count)]
    return pa.table(
        {
            "name": names,
            "age": pa.array([age] * count, pa.int32()),
            "bio": [f"about {n}" for n in names],
        }
    )


def knows(count: int) -> pa.Table:
    ends = np.random.default_rng(1).integers(0, ROWS, (2, count))
    return pa.table({"src": [f"p{i}" for i in ends[0]], "dst": [f"p{i}" for i in ends[1]]})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bulk") / "base"
    with omnigraphdb.init(home, SCHEMA, config=CONFIG) as graph:
        graph.load({"Person": people(0, ROWS), "Knows": knows(ROWS)}, mode="append", spark=False)
    return home


@pytest.fixture
def pair(base: Path, tmp_path: Path) -> Iterator[tuple[Graph, Graph]]:
    """The same graph twice: one for this process, one for Spark."""
    for name in ("here", "there"):
        shutil.copytree(base, tmp_path / name)
    with (
        omnigraphdb.open(tmp_path / "here", config=CONFIG) as here,
        omnigraphdb.open(tmp_path / "there", config=CONFIG) as there,
    ):
        yield here, there
        assert_settled(here)
        assert_settled(there)


def content(graph: Graph) -> list[Any]:
    return [
        sorted(graph.table(name).drop_columns(["id"]).to_pylist(), key=repr)
        for name in ("Person", "Knows")
    ]


def diverge(graph: Graph) -> None:
    graph.branch_create("work")
    graph.load({"Person": people(10, 500, age=2)}, mode="merge", branch="work", spark=False)
    graph.load({"Person": people(ROWS, 50)}, mode="append", branch="work", spark=False)
    graph.mutate('query m() { delete Person where name = "p7" }', branch="work")
    graph.load({"Person": people(1_000, 200, age=3)}, mode="merge", spark=False)


def test_a_merge_by_executors_is_the_merge_of_this_process(
    pair: tuple[Graph, Graph], spark: Any
) -> None:
    here, there = pair
    for graph in pair:
        diverge(graph)
    done = [here.merge("work", spark=False), there.merge("work", spark=spark)]
    assert done[0].tables == done[1].tables
    assert content(here) == content(there)


def test_conflicts_found_by_executors_are_those_of_this_process(
    pair: tuple[Graph, Graph], spark: Any
) -> None:
    told = []
    for graph, where in zip(pair, (False, spark), strict=True):
        diverge(graph)
        graph.load({"Person": people(20, 30, age=9)}, mode="merge", spark=False)
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("work", spark=where)
        told.append([(c.table_key, c.row_id, c.kind) for c in caught.value.conflicts])
    assert told[0] == told[1]
    assert len(told[0]) == 30


def test_indexes_built_by_executors_answer_alike(spark: Any, tmp_path: Path) -> None:
    text = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'
    search = 'query q() { match { $p: Person search($p.bio, "p9") } return { $p.name } }'
    told = []
    for name, where in (("here", None), ("there", spark)):
        with omnigraphdb.init(tmp_path / name, SCHEMA, config=CONFIG) as graph:
            graph.load({"Person": people(0, 50), "Knows": knows(0)}, mode="append", spark=False)
            built = graph.ensure_indices(spark=where).built
            states = {(one.column, one.state) for one in graph.index_status().indexes}
            told.append((built, states, graph.query(text).rows, graph.query(search).rows))
            assert_settled(graph)
    assert told[0] == told[1]
    assert (told[0][0] > 0, told[0][3]) == (True, [{"p.name": "p9"}])


def test_tables_compacted_by_executors_hold_the_same(pair: tuple[Graph, Graph], spark: Any) -> None:
    for graph in pair:
        for start in range(0, 60, 20):
            graph.load({"Person": people(ROWS + start, 20)}, mode="append", spark=False)
        graph.mutate('query m() { delete Person where name = "p5" }')
    here, there = pair
    done = [here.optimize(), there.optimize(spark=spark)]
    removed = [{one.table_key: one.fragments_removed for one in report.tables} for report in done]
    assert removed[0] == removed[1]
    assert content(here) == content(there)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_files_exported_by_executors_can_be_loaded_again(
    pair: tuple[Graph, Graph], spark: Any, tmp_path: Path, format: "FileFormat"
) -> None:
    here, there = pair
    there.export_files(tmp_path / "out", format=format, spark=spark)
    found = sorted(one for one in (tmp_path / "out").rglob("*") if one.is_file())
    assert found
    with omnigraphdb.init(tmp_path / "again", SCHEMA) as again:
        if format == "jsonl":
            again.load([one for one in found if one.suffix == ".jsonl"], mode="append", spark=False)
        else:
            parts = {
                name: [str(one) for one in found if name in str(one) and one.suffix == ".parquet"]
                for name in ("Person", "Knows")
            }
            again.load(parts, mode="append", spark=False)
        assert content(again) == content(here)
