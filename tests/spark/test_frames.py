"""Frames of Spark hold what frames of this process hold; their rows do not pass the driver."""

import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, seed, settings

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.engine.history.compare import ChangeFilter, list_differing_pairs, resolve_state
from omnigraphdb.engine.history.feed import list_steps
from omnigraphdb.errors import QueryError
from omnigraphdb.ids import MAIN
from omnigraphdb.spark import register_views
from omnigraphdb.spark_jobs.change_frames import diff_frame, feed_frame
from tests.support.frame_graphs import (
    apply_changes,
    make_chain,
    make_graph,
    make_harbour,
    read_state,
    writing,
)
from tests.support.random_reads import REQUIRED, read_texts

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

WINDOW = re.compile(r"limit \d+( offset \d+)?")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_graph(tmp_path_factory.mktemp("frames") / "g") as made:
        yield made


def rows_of(frame: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { $p: Person } return { $p.name as name, $p.age as age, $p.tags as tags } order { $p.name } }",
        "query q() { match { $p: Person  $p knows $q } return { $p.name as p, count($q) as n } order { $p.name } }",
        "query q() { match { $p: Person  $p.age > 100 } return { $p.name as name } }",
    ],
)
def test_a_frame_holds_the_rows_of_its_query(graph: Graph, spark: Any, text: str) -> None:
    assert rows_of(graph.query_frame(text, spark=spark)) == graph.query(text).rows


def test_a_frame_shows_the_commit_it_was_made_at(graph: Graph, spark: Any) -> None:
    text = "query q() { match { $p: Person } return { $p.name as name } order { $p.name } }"
    old = graph.commits()[-2]
    frame = graph.query_frame(text, spark=spark, at=old)
    assert rows_of(frame) == graph.query(text, at=old).rows != graph.query(text).rows


def test_changes_come_from_the_tasks(graph: Graph, spark: Any) -> None:
    first = graph.commits()[-1]
    for here, there in (
        (graph.diff_frame(first, "main"), graph.diff_frame(first, "main", spark=spark)),
        (graph.changes_frame(), graph.changes_frame(spark=spark)),
        (graph.diff_frame("main", "main"), graph.diff_frame("main", "main", spark=spark)),
    ):
        assert rows_of(there) == here.to_pylist()
        assert there.schema.names == here.schema.names


@pytest.mark.soak
def test_changes_from_the_tasks_applied_to_the_old_state_give_the_new_one(
    graph: Graph, spark: Any
) -> None:
    commits = graph.commits()
    for since in commits:
        old, new = read_state(graph, since.id), read_state(graph)
        compared = rows_of(graph.diff_frame(since, commits[0], spark=spark))
        fed = rows_of(graph.changes_frame(since, spark=spark))
        assert apply_changes(old, compared) == apply_changes(old, fed) == new, since


@pytest.mark.soak
def test_frames_are_of_one_commit_while_a_writer_commits(tmp_path: Path, spark: Any) -> None:
    with make_chain(tmp_path / "g") as graph:
        seen = set()
        with writing(graph, 40) as done:
            while True:
                last = done.is_set()
                frames = graph.frames(spark)
                # Tasks read when the frame is asked, which is many commits later.
                ends = sorted(int(row["src"]) for row in rows_of(frames.edges))
                nodes = sorted(row["k"] for row in rows_of(frames["A"]))
                assert nodes == list(range(len(nodes)))
                assert ends == nodes[1:], "edges of the same commit as the nodes"
                assert frames.vertices.count() == len(nodes)
                seen.add(frames.commit)
                if last:
                    break
        assert len(nodes) == 40
        assert len(seen) > 1


def test_large_tables_are_spread_over_tasks(graph: Graph, spark: Any) -> None:
    first = graph.commits()[-1]
    engine, wanted = graph._engine, ChangeFilter(images=True)
    states = (resolve_state(engine, str(first.id), MAIN), resolve_state(engine, MAIN, MAIN))
    pairs = list_differing_pairs(*states, wanted)
    frame = diff_frame(engine.location, pairs, wanted, spark, rows_max=2)
    assert frame.rdd.getNumPartitions() > len(pairs)
    expected = graph.diff_frame(first, "main").to_pylist()
    key = itemgetter("table_key", "id")
    assert sorted(rows_of(frame), key=key) == sorted(expected, key=key)

    steps = list_steps(engine, MAIN, None, None, wanted)
    found = rows_of(feed_frame(engine.location, steps, wanted, spark, rows_max=2))
    told = graph.changes_frame().to_pylist()
    # Commits come in their order, the rows of a table in that of their buckets.
    assert [row["commit_id"] for row in found] == [row["commit_id"] for row in told]
    by_commit = itemgetter("manifest_version", "table_key", "id")
    assert sorted(found, key=by_commit) == sorted(told, key=by_commit)


def test_a_snapshot_is_one_set_of_frames(graph: Graph, spark: Any) -> None:
    here, there = graph.frames(), graph.frames(spark)
    for name in here:
        columns = here[name].column_names
        assert there[name].columns == columns
        assert sorted(map(str, rows_of(there[name]))) == sorted(map(str, here[name].to_pylist()))
    for part in ("vertices", "edges"):
        expected = getattr(here, part)
        assert getattr(there, part).columns == expected.column_names
        assert sorted(map(str, rows_of(getattr(there, part)))) == sorted(
            map(str, expected.to_pylist())
        )
    unknown = there.edges.join(
        there.vertices.withColumnsRenamed({"id": "src", "type": "src_type"}),
        ["src", "src_type"],
        "left_anti",
    )
    assert unknown.count() == 0


def test_views_over_the_head_are_renewed_when_asked(tmp_path: Path, spark: Any) -> None:
    with omnigraphdb.init(tmp_path / "g", "node P { k: String @key }") as graph:
        graph.load([{"type": "P", "data": {"k": "a"}}], mode="append")
        views = register_views(spark, graph, prefix="frames_")
        graph.load([{"type": "P", "data": {"k": "b"}}], mode="append")
        assert spark.sql("select k from frames_P").count() == 1
        renewed = views.refresh()
        assert spark.sql("select k from frames_P order by k").toArrow()["k"].to_pylist() == [
            "a",
            "b",
        ]
        assert renewed.commit == graph.commits()[0].id
        pinned = register_views(spark, graph, prefix="frames_", at=graph.commits()[1].id)
        assert pinned.refresh() is pinned
        assert spark.sql("select * from frames_vertices").count() == 1
        graph.schema_apply("node Q { k: String @key }", allow_data_loss=True)
        renewed.refresh()
        assert not spark.catalog.tableExists("frames_P")
        assert spark.sql("select * from frames_Q").count() == 0


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(text=read_texts())
def test_queries_nobody_chose_give_the_same_frame(
    text: str, harbour_graph: Graph, spark: Any
) -> None:
    assert_same_frame(text, harbour_graph, spark)


# A query takes Spark seconds: a thousand in one test would outlast the time that a test may take.
@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_queries_give_the_same_frame(
    part: int, harbour_graph: Graph, spark: Any
) -> None:
    @seed(part)
    @settings(max_examples=100, suppress_health_check=list(HealthCheck))
    @given(text=read_texts())
    def compare_frames(text: str) -> None:
        assert_same_frame(text, harbour_graph, spark)

    compare_frames()


def assert_same_frame(text: str, harbour_graph: Graph, spark: Any) -> None:
    try:
        expected = harbour_graph.query(text, REQUIRED).rows
        frame = harbour_graph.query_frame(text, REQUIRED, spark=spark)
    except QueryError:
        reject()
    # Without an order any order is right, and any rows where some are left out.
    found, wanted = Counter(map(str, rows_of(frame))), Counter(map(str, expected))
    if "limit" not in text or "order" in text:
        assert found == wanted, text
        return
    assert found.total() == wanted.total(), text
    whole = harbour_graph.query(WINDOW.sub("", text), REQUIRED)
    assert found <= Counter(map(str, whole.rows)), text


@pytest.fixture(scope="module")
def harbour_graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_harbour(tmp_path_factory.mktemp("harbour") / "g") as graph:
        yield graph


def test_a_schema_is_proposed_from_a_sample_of_a_frame(spark: Any) -> None:
    frame = spark.range(500).selectExpr("concat('k', id) as code", "id as n")
    proposal = omnigraphdb.infer_schema({"Thing": frame}, rows_max=100)
    assert proposal.source == "node Thing {\n  code: String @key\n  n: I64?\n}"
    assert dict(proposal.rows_read) == {"Thing": 100}
