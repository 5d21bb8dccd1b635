"""A moment as text is taken wherever a reference is."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFound
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key }"
COUNT = "query n() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        for name in ("ada", "bo"):
            graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
        yield graph
        assert_settled(graph)


def first_load(graph: Graph) -> datetime:
    return graph.commits()[1].created_at


SPELLINGS = {
    "offset": lambda moment: moment.isoformat(),
    "Z": lambda moment: moment.isoformat().replace("+00:00", "Z"),
    "without offset": lambda moment: moment.isoformat().removesuffix("+00:00"),
    "space": lambda moment: moment.isoformat(" "),
    "another zone": lambda moment: (moment + timedelta(hours=2)).isoformat()[:-6] + "+02:00",
}


@pytest.mark.parametrize("form", SPELLINGS)
def test_a_moment_as_text_is_that_moment(graph: Graph, form: str) -> None:
    moment = SPELLINGS[form](first_load(graph))
    assert graph.query(COUNT, at=moment).rows == [{"n": 1}]
    assert graph.entity("Person", "bo", at=moment) is None
    assert graph.snapshot(at=moment).commit == graph.commits()[1].id
    assert [one.id for one in graph.diff(moment, "main").changes] == ["bo"]
    assert len(graph.commits(since=moment)) == 2
    assert [len(block.changes) for block in graph.changes(since=moment).blocks] == [1]
    made = graph.branch_create("then", at=moment)
    assert made.head == graph.commits()[1].id


def test_a_day_is_its_midnight(graph: Graph) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    assert graph.query(COUNT, at=tomorrow).rows == [{"n": 2}]
    with pytest.raises(NotFound, match="2001-01-01"):
        graph.query(COUNT, at="2001-01-01")


def test_a_branch_that_is_called_like_a_day_is_the_branch(graph: Graph) -> None:
    graph.branch_create("2001-01-01")
    assert graph.diff("2001-01-01", "main").changes == ()


@pytest.mark.parametrize("text", ["2026-13-45", "2026-01-01T99:00", "yesterday"])
def test_what_is_no_moment_is_told_how_one_looks(graph: Graph, text: str) -> None:
    with pytest.raises(NotFound) as caught:
        graph.query(COUNT, at=text)
    assert text in str(caught.value)
    assert "2026-11-15T16:07:00Z" in str(caught.value.hint)
