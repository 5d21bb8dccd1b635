"""An update or delete that matches nothing succeeds, whatever it would have set."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Q {
  k: String @key  s: String?  e: enum(a, b)?  b: Bool?  i: I32?  j: I64?  u: U32?  w: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  x: Blob?  v: Vector(3)?
  ls: [String]?  lb: [Bool]?  li: [I32]?  lu: [U64]?  lg: [F64]?  ld: [Date]?  lt: [DateTime]?
}
edge L: Q -> Q { s: [String]?  d: Date? }
"""
VALUES = {
    "s": '"x"', "e": '"a"', "b": "true", "i": "1", "j": "1", "u": "1", "w": "1", "f": "0.5", "g": "0.5",
    "d": 'date("2026-01-02")', "t": 'datetime("2026-01-02T03:04:05Z")', "x": '"base64:aGk="', "v": "[1.0, 2.0, 3.0]",
    "ls": '["x"]', "lb": "[true]", "li": "[1]", "lu": "[1]", "lg": "[0.5]",
    "ld": '[date("2026-01-02")]', "lt": '[datetime("2026-01-02T03:04:05Z")]',
}  # fmt: skip


@pytest.fixture(params=["empty", "filled"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(str(tmp_path / "graph"), SCHEMA)
    if request.param == "filled":
        graph.mutate('query add() { insert Q { k: "here", ls: ["a", "b"] } }')
    return graph


@pytest.mark.parametrize("value", ["given", "null"])
def test_an_update_that_matches_nothing_is_no_commit(graph: Graph, value: str) -> None:
    before = graph.commits()
    for name, literal in VALUES.items():
        written = literal if value == "given" else "null"
        text = (
            f'use extensions query m() {{ update Q set {{ {name}: {written} }} where k = "gone" }}'
        )
        done = graph.mutate(text)
        assert (done.affected_nodes, done.commit) == (0, None), name
    assert graph.commits() == before


def test_statements_beside_an_update_that_matches_nothing_take_effect(graph: Graph) -> None:
    sets = " ".join(
        f'update Q set {{ {name}: {value} }} where k = "gone"' for name, value in VALUES.items()
    )
    done = graph.mutate(
        f'query m() {{ insert Q {{ k: "new" }} {sets} update Q set {{ i: 5 }} where k = "new" }}'
    )
    assert done.affected_nodes == 2
    shown = graph.entity("Q", "new")
    assert shown is not None
    assert shown["i"] == 5


def test_an_update_of_every_property_is_what_is_read(graph: Graph) -> None:
    graph.mutate('query m() { insert Q { k: "here" } insert Q { k: "there" } }')
    sets = ", ".join(f"{name}: {value}" for name, value in VALUES.items())
    assert (
        graph.mutate(f'query m() {{ update Q set {{ {sets} }} where k != "" }}').affected_nodes == 2
    )
    for key in ("here", "there"):
        shown = graph.entity("Q", key)
        assert shown is not None
        assert (shown["ls"], shown["li"], shown["v"]) == (["x"], [1], [1.0, 2.0, 3.0])
    assert graph.table("Q")["x"].to_pylist() == [b"hi", b"hi"]


@pytest.mark.parametrize("where", ['k = "gone"', "i > 5", 'd = date("2026-01-02")', "i != 5"])
def test_a_delete_that_matches_nothing_is_no_commit(graph: Graph, where: str) -> None:
    done = graph.mutate(f'query m() {{ delete Q where {where} delete L where from = "gone" }}')
    assert (done.affected_nodes, done.affected_edges, done.commit) == (0, 0, None)
