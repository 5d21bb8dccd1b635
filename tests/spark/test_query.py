"""A query gives the same rows on Spark as in this process."""

import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.compile.check import check_read
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.rules import fill
from omnigraphdb.errors import QueryError
from omnigraphdb.language.source import Source
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.spark_jobs.query import run_on_spark
from omnigraphdb.spark_jobs.tables import SparkGraph
from tests.support.drawn import draw_by
from tests.support.plan_fixtures import PlanCase, cases, harbour
from tests.support.query_model import NOW, ModelGraph, meaning
from tests.support.query_soak import texts
from tests.support.random_reads import arguments, read_texts
from tests.support.read_world import INSTANT, World, plan_of, table_rows
from tests.unit.compile.test_rules_meaning import graphs, same

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SEARCHES = {
    "bm25", "nearest", "nearest_with_fan_out", "rrf", "rrf_page", "rrf_short", "search_a_scan",
    "search_after_a_hop", "negated_search",
}  # fmt: skip
SHOWN = {
    "bounded_hops", "double_negation", "in_an_empty_list", "optional_after_optional", "optional_chain",
    "optional_negated_null", "order_by_aggregate",
}  # fmt: skip
"""What every run of the tests looks at; `make spark` looks at all."""

BOATS: Any = {
    "name": "aster", "kind": "tanker", "built": date(2010, 5, 1), "dwt": 80000, "crew": 5, "draft": 0.25,
    "tags": ("ice", "lng"), "marks": (0.0, 2.0), "seen": INSTANT, "log": "storm aster", "sig": (1.0, 0.5),
}  # fmt: skip
BARE: Any = {**dict.fromkeys(BOATS), "name": "", "kind": "bulk", "crew": 0}
PORTS = ("NLRTM", "BEANR", "DEHAM", "A")
FIXED = ModelGraph(
    nodes={
        "Vessel": (
            {"id": "9100001", "imo": "9100001", **BOATS},
            {"id": "9100002", "imo": "9100002", **BARE},
            {
                "id": "9100003", "imo": "9100003", **BOATS, "name": "Aster II", "kind": "roro", "dwt": 3,
                "marks": (-0.0,), "crew": 8, "seen": datetime(2025, 1, 1, tzinfo=UTC), "tags": (),
            },
        ),
        "Port": tuple(
            {"id": code, "code": code, "name": name, "lat": lat, "depth": depth}
            for code, name, lat, depth in zip(
                PORTS, ("Rotterdam", "Antwerp", "Hamburg", "NL"), (51.5, None, -0.0, 0.0), (12, 3, -1, 7),
                strict=True,
            )
        ),
        "Company": (
            {"id": "North", "name": "North", "country": "NL"},
            {"id": "South", "name": "South", "country": None},
        ),
        "Note": ({"id": "n1", "text": "storm aster"}, {"id": "n2", "text": ""}),
        "Berth": ({"id": "b1", "port": "NLRTM", "number": 3, "length": None},),
    },
    edges={
        "CallsAt": tuple(
            {"id": f"c{i}", "src": src, "dst": dst, "eta": None, "berth": berth}
            for i, (src, dst, berth) in enumerate(
                [
                    ("9100001", "NLRTM", "A1"), ("9100001", "NLRTM", "B2"), ("9100001", "DEHAM", None),
                    ("9100002", "BEANR", "A1"), ("9100003", "NLRTM", None),
                ]
            )
        ),
        "Feeds": tuple(
            {"id": f"f{i}", "src": src, "dst": dst, "weight": weight}
            for i, (src, dst, weight) in enumerate(
                [
                    ("NLRTM", "BEANR", 3), ("BEANR", "DEHAM", None), ("DEHAM", "NLRTM", 5), ("A", "A", 1),
                    ("NLRTM", "BEANR", 9), ("DEHAM", "A", 0),
                ]
            )
        ),
        "OwnedBy": (
            {"id": "o1", "src": "9100001", "dst": "North"},
            {"id": "o2", "src": "9100003", "dst": "North"},
        ),
    },
)  # fmt: skip


def lay_out_rows(graph: ModelGraph, root: Path) -> World:
    world = World.of(harbour(), str(root))
    for name, rows in (*graph.nodes.items(), *graph.edges.items()):
        half = len(rows) // 2
        world.append(name, rows[:half])
        world.append(name, rows[half:])
    return world


def on_spark(read: CheckedRead, params: dict[str, Any], world: World, spark: Any) -> list[Any]:
    graph = SparkGraph(
        spark=spark,
        location=StoreLocation.of(str(world.store.root)),
        catalog=world.catalog,
        snapshot=world.snapshot,
        names={},
    )
    plan = fill(plan_of(read, harbour()), params, INSTANT)
    return table_rows(run_on_spark(plan, graph))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return lay_out_rows(FIXED, tmp_path_factory.mktemp("world") / "graph")


PARAMETERS: dict[str, Any] = {"String": "NLRTM", "list": ("tanker", "x"), "number": 3}


def _parameter(kind: Any) -> Any:
    if kind.is_list:
        return PARAMETERS["list"]
    return PARAMETERS["String"] if kind.scalar == "String" else PARAMETERS["number"]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in SHOWN else [pytest.mark.soak])
        for case in cases()
        if case.name not in SEARCHES
    ],
)
def test_every_query_gives_the_rows_it_means(case: PlanCase, world: World, spark: Any) -> None:
    read = case.read
    params = {one.name: _parameter(one.type) for one in read.params.values()}
    expected = meaning(read, FIXED, params | {NOW: INSTANT})
    assert same(read, on_spark(read, params, world, spark), expected)


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.name in SEARCHES], ids=lambda case: case.name
)
def test_searching_is_refused_by_name(case: PlanCase, world: World, spark: Any) -> None:
    read = case.read
    params = {
        one.name: (0.0,) * one.type.dimension if one.type.dimension else _parameter(one.type)
        for one in read.params.values()
    }
    with pytest.raises(QueryError, match="does not run on Spark; nothing was read"):
        on_spark(read, params, world, spark)


@pytest.mark.soak
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_queries_nobody_chose_give_the_rows_they_mean(
    data: st.DataObject, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, params = data.draw(read_texts()), data.draw(arguments)
    try:
        read = check_read(Source(text), harbour())
    except QueryError:
        reject()
    graph = data.draw(graphs())
    expected = meaning(read, graph, params | {NOW: INSTANT})
    world = lay_out_rows(graph, tmp_path_factory.mktemp("random") / "graph")
    try:
        found = on_spark(read, params, world, spark)
    except QueryError as error:
        if "does not run on Spark" not in str(error):
            raise
        reject()
    finally:
        world.close()
    assert same(read, found, expected), text


SOAK_PARTS, PART_ANSWERS, GRAPH_QUERIES = 12, 100, 25
SLICE_ANSWERS = 8


def test_some_queries_over_the_whole_grammar_give_the_rows_they_mean(
    spark: Any, tmp_path: Path
) -> None:
    ask_until_answered(0, SLICE_ANSWERS, spark, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(1, SOAK_PARTS + 1))
def test_a_thousand_queries_over_the_whole_grammar_give_the_rows_they_mean(
    part: int, spark: Any, tmp_path: Path
) -> None:
    ask_until_answered(part, PART_ANSWERS, spark, tmp_path)


def ask_until_answered(part: int, answers: int, spark: Any, folder: Path) -> None:
    """Ask queries of a part until so many have an answer on Spark."""
    answered = number = 0
    while answered < answers:
        if number % GRAPH_QUERIES == 0:
            draw = draw_by(random.Random(f"spark {part}.{number // GRAPH_QUERIES}"))
            graph = draw(graphs(least=2))
            world = lay_out_rows(graph, folder / str(number))
        draw = draw_by(random.Random(f"spark {part} {number}"))
        text, params = draw(texts), draw(arguments)
        answered += asks_as_meant(text, params, graph, world, spark)
        number += 1


def asks_as_meant(
    text: str, params: dict[str, Any], graph: ModelGraph, world: World, spark: Any
) -> bool:
    """Whether a query has an answer on Spark, which must be the rows that it means."""
    try:
        read = check_read(Source(text), harbour())
    except QueryError:
        return False
    try:
        found = on_spark(read, params, world, spark)
    except QueryError as error:
        if "does not run on Spark" not in str(error):
            raise
        return False
    expected = meaning(read, graph, params | {NOW: INSTANT})
    assert same(read, found, expected), f"{text}\n{params}\n{graph}\n{found}\n{expected}"
    return True


PEOPLE = """
node Person { name: String @key  age: I32?  seen: DateTime?  huge: U64?  tags: [String]?  v: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""


def test_a_query_of_a_graph_gives_the_same_result_on_spark(spark: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", PEOPLE) as graph:
        graph.load(
            [
                {"type": "Person", "data": {
                    "name": "a", "age": 1, "seen": "2024-01-01T00:00:00.5Z", "huge": 2**64 - 1,
                    "tags": ["x"], "v": [1, 2],
                }},
                {"type": "Person", "data": {"name": "b"}},
                {"edge": "Knows", "from": "a", "to": "b", "data": {"since": "2024-01-01"}},
            ],
            mode="append",
        )  # fmt: skip
        before = graph.commits()[0]
        graph.load([{"type": "Person", "data": {"name": "c"}}], mode="append")
        text = """query q($least: I32) {
          match { $p: Person  optional { $p knows $q } }
          return { $p.name, $p.age, $p.seen, $p.huge, $p.tags, $p.v, $q.name as friend }
          order { $p.name } }"""
        for at in (None, before):
            here = graph.query(f"use extensions\n{text}", {"least": 0}, at=at)
            there = graph.query(f"use extensions\n{text}", {"least": 0}, at=at, spark=spark)
            assert (here.rows, here.commit) == (there.rows, there.commit)
            assert here.to_arrow().schema == there.to_arrow().schema
        assert len(here) == 2


@pytest.mark.soak
def test_a_property_that_was_renamed_is_found_in_the_past(spark: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key  old: I32? }") as graph:
        graph.load({"A": pa.table({"k": ["1"], "old": pa.array([7], pa.int32())})}, mode="append")
        then = graph.commits()[0]
        graph.schema_apply(
            'node A { k: String @key  fresh: I32? @rename_from("old")  more: String? }'
        )
        text = "query q() { match { $a: A  $a.fresh = 7 } return { $a.k, $a.fresh, $a.more } }"
        here, there = graph.query(text, at=then), graph.query(text, at=then, spark=spark)
        assert here.rows == there.rows == [{"a.k": "1", "a.fresh": 7, "a.more": None}]


@pytest.mark.soak
@pytest.mark.parametrize("type_", ["I32?", "String?"])
def test_a_property_that_was_dropped_and_added_again_shows_what_was_stored_then(
    spark: Any, tmp_path: Path, type_: str
) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key  n: I32? }") as graph:
        graph.load({"A": pa.table({"k": ["1"], "n": pa.array([7], pa.int32())})}, mode="append")
        then = graph.commits()[0]
        graph.schema_apply("node A { k: String @key }")
        graph.schema_apply(f"node A {{ k: String @key  n: {type_} }}")
        text = "query q() { match { $a: A  $a.n = 7 } return { $a.k, $a.n } }"
        here, there = graph.query(text, at=then), graph.query(text, at=then, spark=spark)
        assert here.rows == there.rows == [{"a.k": "1", "a.n": 7}]


ROADS = "node Spot { code: String @key  size: I32? }\nedge Leads: Spot -> Spot { w: F64 }"
TWO_HOPS = """query q() {
  match { $a: Spot  $a $f:leads $b  $f.w < 0.5  $b $g:leads $c  $g.w < 0.5 }
  return { count($c) as n } }"""


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraphdb.Graph]:
    """A graph whose edges take megabytes."""
    nodes, count = 5_000, 250_000
    codes = [f"s{i}" for i in range(nodes)]
    leads = pa.table(
        {
            "from": [codes[i * 7 % nodes] for i in range(count)],
            "to": [codes[i * 11 % nodes] for i in range(count)],
            "w": [i * 17 % 1_000 / 1_000 for i in range(count)],
        }
    )
    with omnigraphdb.init(tmp_path_factory.mktemp("roads") / "g", ROADS) as graph:
        spots = pa.table({"code": codes, "size": pa.array(range(nodes), pa.int32())})
        graph.load({"Spot": spots, "Leads": leads}, mode="append")
        yield graph


def show_plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def list_columns_read(frame: Any) -> list[list[str]]:
    """The columns that the tasks of each table send to Spark."""
    found = re.findall(r"MapInArrow [^\[]*\[([^\]]*)\]", show_plan(frame))
    return [columns.split(", ") for columns in found]


def test_tasks_send_no_column_that_nobody_asks_for(roads: omnigraphdb.Graph, spark: Any) -> None:
    frame = roads.query_frame(TWO_HOPS, spark=spark)
    # One end and the weight of each edge; edges have both ends, so that no node is read.
    assert [len(columns) for columns in list_columns_read(frame)] == [2, 2]
    assert frame.toArrow().to_pylist() == roads.query(TWO_HOPS).rows


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("match { $a: Spot  $a leads $b } return { $a.code as a, $b.code as b }", [2]),
        ("match { $a: Spot  $a leads $b } return { $a.code as a, $b.size as b }", [2, 2]),
        ("match { $a: Spot  $a.size < 9  $a leads $b } return { $a.code as a, $b as b }", [2, 2]),
        ("match { $a: Spot  $a $e:leads $b } return { $e.w as w }", [2]),
        ("match { $a: Spot  $a $e:leads $b } return { $e.w as w, $b.code as b }", [3]),
        ("match { $a: Spot  $b leads $a } return { $b as b, count($a) as n }", [2]),
        ("match { $a: Spot } return { count($a) as n }", [1]),
        ("match { $a: Spot  not { $a $e:leads $_  $e.w > 0.9 } } return { $a as a }", None),
        ("match { $a: Spot  optional { $a $e:leads $b  $e.w > 0.99 } } return { $a as a, $e.w as w }", None),
    ],
)  # fmt: skip
def test_columns_are_those_that_a_query_uses(
    roads: omnigraphdb.Graph, spark: Any, text: str, columns: list[int] | None
) -> None:
    query = f"query q() {{ {text} }}"
    frame = roads.query_frame(query, spark=spark)
    if columns is not None:
        assert [len(one) for one in list_columns_read(frame)] == columns
    found, expected = frame.toArrow().to_pylist(), roads.query(query).rows
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_spark_knows_the_size_of_a_table(roads: omnigraphdb.Graph, spark: Any) -> None:
    """A join sends a small table to every task, and never one past Spark's own threshold."""
    setting = "spark.sql.autoBroadcastJoinThreshold"
    spark.conf.set(setting, 100_000)
    try:
        frame = roads.query_frame(TWO_HOPS, spark=spark)
        planned = str(frame._jdf.queryExecution().sparkPlan().toString())
        assert "BroadcastHashJoin" not in planned
        assert frame.toArrow().to_pylist() == roads.query(TWO_HOPS).rows
        near = (
            'query q() { match { $a: Spot { code: "s7" }  $a $e:leads $b } return { $e.w as w } }'
        )
        frame = roads.query_frame(near, spark=spark)
        # The side that is sent is the one node, whose id the query names.
        assert "BuildLeft" in str(frame._jdf.queryExecution().sparkPlan().toString())
        assert sorted(map(str, frame.toArrow().to_pylist())) == sorted(
            map(str, roads.query(near).rows)
        )
    finally:
        spark.conf.unset(setting)
    frame = roads.query_frame(TWO_HOPS, spark=spark)
    assert "BroadcastHashJoin" in str(frame._jdf.queryExecution().sparkPlan().toString())
