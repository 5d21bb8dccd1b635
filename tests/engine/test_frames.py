"""Results, diffs, the feed and whole snapshots as frames of this process."""

from collections.abc import Iterator
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import CursorRejected, NotFound, QueryError, UserInputError
from tests.support.frame_graphs import (
    apply_changes,
    make_chain,
    make_graph,
    make_harbour,
    read_state,
    writing,
)
from tests.support.random_reads import REQUIRED, read_texts

AGES = "query q() { match { $p: Person  $p.age >= 0 } return { $p.name as name, $p.age as age } order { $p.name } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_graph(tmp_path_factory.mktemp("frames") / "g") as made:
        yield made


def test_the_result_of_a_query_is_a_frame_of_the_library_that_is_named(graph: Graph) -> None:
    rows = graph.query(AGES).rows
    assert graph.query_frame(AGES).to_pylist() == rows
    polars_frame, pandas_frame = (
        graph.query_frame(AGES, engine=name) for name in ("polars", "pandas")
    )
    assert isinstance(polars_frame, polars.DataFrame)
    assert polars_frame.to_dicts() == rows
    assert isinstance(pandas_frame, pandas.DataFrame)
    assert pandas_frame.to_dict("records") == rows


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_harbour(tmp_path_factory.mktemp("harbour") / "g") as made:
        yield made


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(text=read_texts())
def test_queries_nobody_chose_give_the_same_frame(text: str, harbour: Graph) -> None:
    assert_same_frame(text, harbour)


@pytest.mark.soak
@settings(max_examples=1_000, suppress_health_check=list(HealthCheck))
@given(text=read_texts())
def test_a_thousand_queries_give_the_same_frame(text: str, harbour: Graph) -> None:
    assert_same_frame(text, harbour)


def assert_same_frame(text: str, harbour: Graph) -> None:
    try:
        expected = harbour.query(text, REQUIRED).rows
    except QueryError:
        reject()
    assert harbour.query_frame(text, REQUIRED, engine="arrow").to_pylist() == expected
    assert harbour.query_frame(text, REQUIRED, engine="polars").to_dicts() == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "dask"}, "arrow, polars, pandas, spark, not 'dask'; nothing was read"),
        ({"engine": "polars", "spark": True}, "takes no Spark session; nothing was read"),
    ],
)
def test_a_library_that_cannot_be_is_refused(
    graph: Graph, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(UserInputError, match=words):
        graph.query_frame(AGES, **arguments)  # type: ignore[arg-type]


def test_a_diff_applied_to_the_old_state_gives_the_new_one(graph: Graph) -> None:
    commits = graph.commits()
    for base in commits:
        frame = graph.diff_frame(base, commits[0])
        state = read_state(graph, base.id)
        assert apply_changes(state, frame.to_pylist()) == read_state(graph), base
        assert frame.num_rows == len(graph.diff(base, commits[0]))


def test_the_feed_applied_to_the_old_state_gives_the_state_at_its_end(graph: Graph) -> None:
    commits = graph.commits()[::-1]
    for number, since in enumerate(commits[:-1]):
        for until in commits[number + 1 :]:
            frame = graph.changes_frame(since, until)
            state = apply_changes(read_state(graph, since.id), frame.to_pylist())
            assert state == read_state(graph, until.id)
            assert set(frame["commit_id"].to_pylist()) <= {c.id for c in commits}


def test_the_feed_ends_with_its_last_commit_and_may_be_empty(graph: Graph) -> None:
    newest = graph.commits()[0]
    assert graph.changes_frame(newest).num_rows == 0
    assert graph.changes_frame(newest, newest.parent).num_rows == 0
    assert graph.changes_frame(None, newest).num_rows == graph.changes_frame().num_rows
    with pytest.raises(CursorRejected, match="neither a cursor nor a commit"):
        graph.changes_frame(None, "nowhere")


def test_changes_are_chosen_by_type_and_operation(graph: Graph) -> None:
    first = graph.commits()[-1]
    frame = graph.diff_frame(first, "main", types=["City"], ops=["insert"], engine="polars")
    assert sorted(frame["id"].to_list()) == ["Rome", "a"]
    assert set(frame.columns) >= {"op", "type_name", "id", "src", "dst", "before", "after"}


def test_the_frames_of_a_snapshot_are_all_types_and_all_vertices_and_edges(graph: Graph) -> None:
    frames = graph.frames()
    assert sorted(frames) == ["City", "Knows", "LivesIn", "Person"]
    assert frames.commit == graph.commits()[0].id
    vertices = {(row["type"], row["id"]): row for row in frames.vertices.to_pylist()}
    assert len(vertices) == frames["Person"].num_rows + frames["City"].num_rows
    # The same id in two types, and a property of one type only.
    assert vertices["Person", "a"]["city"] == "Rome"
    assert vertices["City", "a"]["city"] is None
    for edge in frames.edges.to_pylist():
        assert (edge["src_type"], edge["src"]) in vertices
        assert (edge["dst_type"], edge["dst"]) in vertices
    with pytest.raises(NotFound, match="type 'Dog'"):
        frames["Dog"]


def test_a_property_that_means_two_types_is_in_the_frames_of_its_types_only(tmp_path: Path) -> None:
    schema = (
        "node A { k: String @key  n: I64?  type: String? }\nnode B { k: String @key  n: String? }"
    )
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "A", "data": {"k": "x", "n": 1, "type": "mine"}}], mode="append")
        frames = graph.frames()
        assert frames.vertices.to_pylist() == [{"id": "x", "type": "A", "k": "x"}]
        assert frames["A"]["type"].to_pylist() == ["mine"]
        assert frames.edges.schema.names == ["src", "dst", "id", "type", "src_type", "dst_type"]
        assert frames.edges.num_rows == 0


def test_frames_show_one_commit_whatever_is_written_meanwhile(graph: Graph) -> None:
    old = graph.commits()[-2]
    frames = graph.frames(at=old, engine="polars")
    assert frames["Person"].height == 5
    assert frames.commit == old.id
    assert isinstance(graph.frames().vertices, pa.Table)


def test_frames_are_consistent_while_a_writer_commits(tmp_path: Path) -> None:
    with make_chain(tmp_path / "g") as graph:
        seen = set()
        with writing(graph, 12) as done:
            while True:
                last = done.is_set()
                frames = graph.frames()
                nodes = sorted(frames["A"]["k"].to_pylist())
                assert nodes == list(range(len(nodes)))
                ends = sorted(map(int, frames.edges["src"].to_pylist()))
                assert ends == nodes[1:], "edges of the same commit as the nodes"
                assert frames.vertices.num_rows == len(nodes)
                seen.add(frames.commit)
                if last:
                    break
        assert len(nodes) == 12
        assert len(seen) > 1
