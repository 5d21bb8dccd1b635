"""Looking at a graph as a whole: types, sizes, indexes, branches that went apart."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFoundError
from omnigraphdb.storage.counters import Cost, counting

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


def add(graph: Graph, name: str, branch: str = "main") -> None:
    """One person, in one commit."""
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as made:
        add(made, "Ada")
        made.branch_create("review")
        add(made, "Bo", "review")
        add(made, "Cy", "review")
        add(made, "Di")
        yield made


def test_types_have_rows_sizes_and_indexes(graph: Graph) -> None:
    found = graph.describe()
    assert [(one.name, one.kind, one.rows) for one in found.types] == [
        ("Knows", "edge", 0),
        ("Person", "node", 2),
    ]
    person = found.types[1]
    assert person.bytes > 0
    assert (person.fragments, found.rows, found.bytes) == (2, 2, person.bytes)
    assert {one.column for one in person.indexes} >= {"id"}
    assert person.coverage == 0.0
    graph.ensure_indices()
    assert graph.describe().types[1].coverage == 1.0
    assert found.commit in [commit.id for commit in graph.commits()]


def test_a_description_can_be_of_a_branch_or_of_the_past(graph: Graph) -> None:
    assert graph.describe(branch="review").types[1].rows == 3
    first = graph.commits()[-2]
    then = graph.describe(at=first)
    assert (then.types[1].rows, then.commit) == (1, first.id)
    assert then.commits[0] == first


def test_branches_count_the_commits_between_them_and_their_parent(graph: Graph) -> None:
    assert [(one.ahead, one.behind) for one in graph.branches()] == [(None, None)] * 2
    main, review = graph.branches(compare=True)
    assert (main.ahead, main.behind) == (None, None)
    assert (review.ahead, review.behind) == (2, 1)
    assert graph.branch("review") == review
    assert review.head_at == graph.commit(review.head or "").created_at
    assert review.created_at is not None
    graph.branch_create("deeper", from_branch="review")
    assert graph.branch("deeper").parent == "review"
    assert (graph.branch("deeper").ahead, graph.branch("deeper").behind) == (0, 0)


def test_a_merged_branch_is_not_ahead_any_more(graph: Graph) -> None:
    graph.merge("review")
    merged = graph.branch("review")
    assert (merged.ahead, merged.behind) == (0, 2)
    graph.merge("main", into="review")
    assert (graph.branch("review").ahead or 0) <= 1
    assert graph.branch("review").behind == 0


def test_a_branch_that_does_not_exist_is_told(graph: Graph) -> None:
    with pytest.raises(NotFoundError, match=r"reviw.*did you mean 'review'"):
        graph.branch("reviw")


def test_the_description_is_json_and_text_and_html(graph: Graph) -> None:
    found = graph.describe()
    body = json.loads(json.dumps(found.to_dict()))
    assert [one["type_name"] for one in body["types"]] == ["Knows", "Person"]
    assert [one["name"] for one in body["branches"]] == ["main", "review"]
    assert body["pending"] == []
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{graph.uri} on main: 2 rows, ")
    assert any(line.split()[:3] == ["node", "Person", "2"] for line in lines)
    assert any(line.split()[-2:] == ["2", "1"] for line in lines if line.startswith("review"))
    assert "<caption>newest commits</caption>" in found._repr_html_()


def test_no_rows_are_read(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as fresh, counting() as costs:
        fresh.describe()
    assert costs[Cost.TABLE_SCANS] == 0
    assert 0 < costs[Cost.TABLE_OPENS] <= 2
