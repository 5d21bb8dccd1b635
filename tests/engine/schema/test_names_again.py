"""Properties that come and go: what takes the place of another is not taken for it, by no reader and no diff."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import QueryError

VALUES: dict[str, Any] = {
    "I32?": 9,
    "Vector(2)?": [1.0, 2.0],
    "[String]?": ["a"],
    "Vector(3)?": [1.0, 2.0, 3.0],
    "Date?": "2020-01-02",
    "String?": "text",
    "I64?": 8,
}


def schema(*properties: str) -> str:
    return f"node Port {{ code: String @key  {'  '.join(properties)} }}"


def shown(name: str) -> str:
    return f"query q() {{ match {{ $p: Port }} return {{ $p.{name} }} order {{ $p.code }} }}"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", schema(), config={"maintenance": "off"}) as opened:
        ports = [{"type": "Port", "data": {"code": f"p{n}"}} for n in range(20)]
        opened.load(ports, mode="append")
        yield opened


def test_a_warm_reader_takes_no_property_for_the_one_before_it(graph: Graph) -> None:
    for type_ in VALUES:
        graph.schema_apply(schema(f"size: {type_}"))
        # A column is held after it was asked for a few times.
        for _ in range(4):
            assert graph.query(shown("size")).rows == [{"p.size": None}] * 20
        graph.schema_apply(schema())


@pytest.mark.parametrize("name", ["size", "other"])
def test_a_diff_takes_no_property_for_the_one_before_it(graph: Graph, name: str) -> None:
    graph.schema_apply(schema("size: I32?"))
    graph.load(
        [{"type": "Port", "data": {"code": f"p{n}", "size": 7}} for n in range(20)], mode="merge"
    )
    before = graph.commits()[0]
    for type_, value in VALUES.items():
        graph.schema_apply(schema())
        # With the files that held the dropped column goes its number, which then serves another.
        graph.load([{"type": "Port", "data": {"code": f"p{n}"}} for n in range(20)], mode="merge")
        graph.optimize()
        graph.schema_apply(schema(f"{name}: {type_}"))
        graph.load([{"type": "Port", "data": {"code": "p1", name: value}}], mode="merge")
        changes = {change.id: change for change in graph.diff(before, "main", images=True)}
        assert changes["p1"].properties == (name,)
        assert changes["p1"].before is not None
        assert changes["p1"].before["size"] == 7
        assert changes["p1"].after == {"id": "p1", "code": "p1", name: value}


# ---- what an earlier commit shows of a name that went and came back


@pytest.fixture
def sized(graph: Graph) -> Graph:
    graph.schema_apply(schema("size: I32?"))
    records = [{"type": "Port", "data": {"code": f"p{n:02d}", "size": n % 3}} for n in range(6)]
    graph.load([*records, {"type": "Port", "data": {"code": "p10"}}], mode="overwrite")
    return graph


def query_rows(graph: Graph, match: str, result: str, at: str | None) -> list[tuple[Any, ...]]:
    text = f"use extensions query q() {{ match {{ $p: Port  {match} }} return {{ {result} }} }}"
    return sorted((tuple(row.values()) for row in graph.query(text, at=at).rows), key=str)


@pytest.mark.parametrize("type_", VALUES)
def test_a_query_and_an_entity_agree_about_a_property_that_was_dropped_and_added_again(
    sized: Graph, type_: str
) -> None:
    asked = [
        ("", "$p, $p.size"),
        ("$p.size = 1", "$p"),
        ("$p.size is null", "$p"),
        ("not { $p.size > 0 }", "$p"),
        ("", "$p.size, count($p) as n"),
        ("", "max($p.size) as most, sum($p.size) as total"),
    ]
    then = sized.commits(limit=1)[0].id
    said = [query_rows(sized, match, result, None) for match, result in asked]
    sized.schema_apply(schema())
    between = sized.commits(limit=1)[0].id
    sized.schema_apply(schema(f"size: {type_}"))
    sized.load([{"type": "Port", "data": {"code": "p00", "size": VALUES[type_]}}], mode="merge")
    for _ in range(2):
        assert [query_rows(sized, match, result, then) for match, result in asked] == said
    shown = {key: sized.entity("Port", key, at=then) for (key, _) in said[0]}
    assert [(key, one["size"]) for key, one in shown.items() if one is not None] == said[0]
    assert {value for _, value in query_rows(sized, "", "$p, $p.size", between)} == {None}
    assert ("p00", VALUES[type_]) in query_rows(sized, "$p.size is not null", "$p, $p.size", None)


def test_a_query_that_needs_two_schemas_at_once_is_told_which_property_changed(
    sized: Graph,
) -> None:
    then = sized.commits(limit=1)[0].id
    sized.schema_apply(schema())
    sized.schema_apply(schema("size: String?", "more: I32?"))
    with pytest.raises(
        QueryError, match=r"'size' of Port was I32\? at this commit.*String\? since"
    ) as caught:
        query_rows(sized, "", "$p.size, $p.more", then)
    assert "schema of that commit" in str(caught.value.hint)
    assert {row[0] for row in query_rows(sized, "", "$p.more", then)} == {None}


def test_a_renamed_property_keeps_its_values_when_another_takes_its_old_name(sized: Graph) -> None:
    then = sized.commits(limit=1)[0].id
    said = query_rows(sized, "", "$p, $p.size", None)
    sized.schema_apply(schema('width: I32? @rename_from("size")'))
    assert query_rows(sized, "", "$p, $p.size", then) == said, "a query of that time"
    sized.schema_apply(schema("width: I32?", "size: I32?"))
    assert query_rows(sized, "", "$p, $p.width", then) == said
    assert {row[0] for row in query_rows(sized, "", "$p.size", then)} == {None}
