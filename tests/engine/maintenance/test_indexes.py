"""Indexes are derived: built once, told honestly, never a condition for a right answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniWarning, ReadOnlyError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.limits import INDEX_ROWS_MIN
from omnigraphdb.storage.values import IndexKind
from tests.support.maintenance import (
    ADD,
    CITY,
    KNOWS,
    PERSON,
    content,
    entry,
    heads,
    made,
    person,
    scattered,
    states,
    tables_of,
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g")
    yield opened
    assert opened.doctor() == []
    opened.close()


# ---- building


def test_every_missing_index_of_a_table_is_built_in_one_commit(graph: Graph) -> None:
    before = heads(graph)
    report = graph.ensure_indices()
    assert report.built == 11
    assert {str(one.state) for one in report.indexes} == {"ready"}
    assert heads(graph) == {key: version + 1 for key, version in before.items()}


def test_building_again_builds_nothing_and_moves_nothing(graph: Graph) -> None:
    graph.ensure_indices()
    before, version = heads(graph), graph.snapshot().manifest_version
    assert graph.ensure_indices().built == 0
    assert (heads(graph), graph.snapshot().manifest_version) == (before, version)


def test_an_index_build_is_no_history(graph: Graph) -> None:
    rows, head, count = content(graph), graph.branches()[0].head, len(graph.commits())
    graph.ensure_indices()
    assert (content(graph), graph.branches()[0].head) == (rows, head)
    assert len(graph.commits()) == count


def test_a_write_on_the_head_before_the_build_still_goes_through(graph: Graph) -> None:
    head = graph.branches()[0].head
    graph.ensure_indices()
    assert graph.mutate(ADD, {"name": "new"}, if_commit=head).affected_nodes == 1


def test_only_what_the_schema_asks_for_is_indexed(graph: Graph) -> None:
    graph.ensure_indices()
    found = {i.column: i.kind for i in tables_of(graph).open(entry(graph).at).indices()}
    assert found == {
        "id": IndexKind.BTREE,
        "age": IndexKind.BTREE,
        "mood": IndexKind.BTREE,
        "name": IndexKind.TEXT,
        "bio": IndexKind.TEXT,
        "like": IndexKind.VECTOR,
    }


def test_an_empty_table_gets_no_index(tmp_path: Path) -> None:
    with made(tmp_path / "g") as graph:
        graph.load([], mode="overwrite", allow_empty=True)
        schema = graph.schema_source
    with omnigraphdb.init(tmp_path / "h", schema) as empty:
        before = heads(empty)
        assert empty.ensure_indices().built == 0
        assert heads(empty) == before
        assert {one.reason for one in empty.index_status().indexes} == {"the table is empty"}


def test_a_vector_index_waits_for_a_vector_and_holds_up_no_other(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", made(tmp_path / "s").schema_source) as graph:
        graph.load([person(1), person(2)], mode="append")
        report = graph.ensure_indices()
        assert report.built == 5
        waiting = [one for one in report.indexes if one.state == "pending" and one.rows]
        assert [(one.column, one.reason) for one in waiting] == [
            ("like", "no row has a vector yet")
        ]
        graph.load([person(3, like=[1, 2, 3, 4])], mode="append")
        assert graph.ensure_indices().built == 1


def test_a_read_only_handle_shows_indexes_and_builds_none(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        assert {str(one.state) for one in reader.index_status().indexes} == {"pending"}
        with pytest.raises(ReadOnlyError):
            reader.ensure_indices()


# ---- coverage


def test_rows_that_came_later_are_outside_until_optimize(graph: Graph) -> None:
    graph.ensure_indices()
    graph.load([person(50, bio="late", like=[9, 9, 9, 9])], mode="append")
    (age,) = (one for one in graph.index_status().indexes if one.column == "age")
    assert (age.state, age.rows_indexed, age.rows) == ("partial", 8, 9)
    graph.optimize()
    assert set(states(graph).values()) == {"ready"}
    before = heads(graph)
    graph.optimize()
    assert heads(graph) == before


def test_searches_find_the_same_rows_without_an_index_with_half_of_one_and_with_all(
    graph: Graph,
) -> None:
    queries = [
        'query a() { match { $p: Person  search($p.bio, "tea") } return { $p.name } }',
        'query b() { match { $p: Person  fuzzy($p.bio, "teas", 1) } return { $p.name } }',
        "query c() { match { $p: Person { age: 3 } } return { $p.name } }",
        "query d($v: Vector(4)) { match { $p: Person } return { $p.name } order { nearest($p.like, $v) } limit 4 }",
    ]

    def found() -> list[list[str]]:
        rows = [
            graph.query(one, {"v": [3, 1, 0, 0]} if "$v" in one else {}).rows for one in queries
        ]
        return [sorted(str(row) for row in part) for part in rows]

    graph.load([person(60, bio="tea for two", like=[3, 1, 0, 1])], mode="append")
    without = found()
    assert all(without)
    graph.ensure_indices()
    covered = found()
    graph.load([person(61, bio="coffee", like=[90, 90, 90, 90])], mode="append")
    assert states(graph)[f"{PERSON}.bio"] == "partial"
    partly = found()
    graph.optimize()
    assert without == covered == partly == found()


def test_an_equality_on_an_indexed_number_asks_the_index(tmp_path: Path) -> None:
    with scattered(tmp_path / "g") as graph:
        graph.optimize()
        table = tables_of(graph).open(entry(graph).at)
        assert "ScalarIndexQuery" in table.explain("age = 5")
        assert "ScalarIndexQuery" not in table.explain("note = 'x'")


# ---- branches


def test_a_branch_keeps_using_the_indexes_of_tables_it_shows_of_main(graph: Graph) -> None:
    graph.branch_create("review")
    assert graph.ensure_indices(branch="review").built == 0
    assert entry(graph, CITY, "review").at.branch is None


def test_a_branch_indexes_its_own_tables_and_leaves_main_alone(graph: Graph) -> None:
    graph.branch_create("review")
    graph.mutate(ADD, {"name": "Zoe"}, branch="review")
    before = heads(graph)
    assert graph.ensure_indices(branch="review").built == 6
    assert heads(graph) == before
    assert states(graph, "review")[f"{PERSON}.age"] == "ready"
    assert states(graph, "review")[f"{KNOWS}.src"] == "pending"


def test_a_table_of_another_branch_is_forked_before_it_is_indexed(graph: Graph) -> None:
    graph.branch_create("parent")
    graph.mutate(ADD, {"name": "Zoe"}, branch="parent")
    graph.branch_create("child", from_branch="parent")
    rows = content(graph, "child")
    assert graph.ensure_indices(branch="child").built == 6
    assert entry(graph, PERSON, "child").at.branch == "child"
    assert states(graph, "parent")[f"{PERSON}.age"] == "pending"
    assert content(graph, "child") == rows


# ---- after a load


def test_a_large_load_returns_with_its_indexes(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node T { name: String @key  n: I32 @index }") as graph:
        rows = [{"type": "T", "data": {"name": f"t{i}", "n": i}} for i in range(INDEX_ROWS_MIN)]
        done = graph.load(rows, mode="append")
        assert done.pending_indexes == ()
        assert set(states(graph).values()) == {"ready"}
        assert done.commit is not None
        assert graph.commits()[0].id == done.commit.id


def test_a_small_load_builds_none_until_the_table_is_large(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node T { name: String @key }") as graph:
        graph.load([{"type": "T", "data": {"name": "a"}}], mode="append")
        assert set(states(graph).values()) == {"pending"}
        rows = [{"type": "T", "data": {"name": f"t{i}"}} for i in range(INDEX_ROWS_MIN)]
        graph.load(rows, mode="merge")
        assert set(states(graph).values()) == {"ready"}


@pytest.mark.parametrize("at", [Failpoint.INDICES_ARMED, Failpoint.INDICES_COMMITTED])
def test_an_index_build_that_fails_is_pending_and_not_a_failed_load(
    tmp_path: Path, at: Failpoint
) -> None:
    with omnigraphdb.init(tmp_path / "g", "node T { name: String @key }") as graph:
        rows = [{"type": "T", "data": {"name": f"t{i}"}} for i in range(INDEX_ROWS_MIN)]
        unbuilt = "indexes of branch 'main' are not built: node:T.id; the commit is whole"
        with pytest.warns(OmniWarning, match=unbuilt) as seen, armed(at):
            done = graph.load(rows, mode="append")
        assert [one.filename for one in seen] == [__file__]
        assert done.commit is not None
        assert done.pending_indexes == ("node:T.id",)
        assert graph.table("T").num_rows == INDEX_ROWS_MIN
        graph.refresh()
        graph.ensure_indices()
        assert set(states(graph).values()) == {"ready"}
        assert graph.doctor() == []


def test_a_large_table_without_vectors_is_named_as_pending(tmp_path: Path) -> None:
    schema = "node T { name: String @key  v: Vector(2)? @index }"
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        rows = [{"type": "T", "data": {"name": f"t{i}"}} for i in range(INDEX_ROWS_MIN)]
        # Nobody is warned of what cannot be built yet.
        assert graph.load(rows, mode="append").pending_indexes == ("node:T.v",)
