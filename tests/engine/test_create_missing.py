"""A load creates the nodes that its edges name, when asked: one commit, counted, the same in memory and in steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConstraintError, NotFound, ReferentialError, UserInputError
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key  age: I32?  @check(name, "^[a-z]") }
node Year { number: I32 @key }
node Day { date: Date @key }
node Tag { label: String? }
node Pair { a: String  b: String  @key(a, b) }
node Firm { name: String @key  city: String }
edge Knows: Person -> Person
edge Born: Person -> Year
edge On: Person -> Day
edge Has: Person -> Tag
edge At: Person -> Firm
edge In: Person -> Pair
"""
IN_STEPS = {"small_work_bytes": 1, "small_work_rows": 1, "split_bytes": 64}


@pytest.fixture(params=["in memory", "in steps"])
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "ada", "age": 36}}], mode="append")
    config = IN_STEPS if request.param == "in steps" else None
    with omnigraphdb.open(tmp_path / "g", config=config) as graph:
        yield graph
        assert_settled(graph)


def ends(*pairs: tuple[Any, Any]) -> pa.Table:
    return pa.table({"from": [a for a, _ in pairs], "to": [b for _, b in pairs]})


def names(graph: Graph) -> list[str]:
    return sorted(graph.table("Person")["name"].to_pylist())


def test_nodes_that_are_nowhere_are_created_in_the_same_commit(graph: Graph) -> None:
    before = len(list(graph.commits()))
    edges = ends(("ada", "bob"), ("bob", "cy"), ("cy", "bob"))
    done = graph.load(edges, type="Knows", mode="append", create_missing="Person", spark=False)
    assert done.tables == {"edge:Knows": 3}
    assert done.created == {"node:Person": 2}
    assert names(graph) == ["ada", "bob", "cy"]
    ages = {one["name"]: one["age"] for one in graph.table("Person").to_pylist()}
    assert ages == {"ada": 36, "bob": None, "cy": None}
    assert len(list(graph.commits())) == before + 1
    again = graph.load(edges, type="Knows", mode="append", create_missing="Person", spark=False)
    assert again.created == {}
    assert names(graph) == ["ada", "bob", "cy"]


def test_nodes_of_the_same_load_are_not_created_twice(graph: Graph) -> None:
    source = {"Person": pa.table({"name": ["bob"]}), "Knows": ends(("bob", "cy"), ("cy", "ada"))}
    done = graph.load(source, mode="merge", create_missing=["Person"], spark=False)
    assert done.created == {"node:Person": 1}
    assert names(graph) == ["ada", "bob", "cy"]


def test_an_overwrite_of_edges_leaves_the_nodes(graph: Graph) -> None:
    done = graph.load(
        ends(("ada", "bob")), type="Knows", mode="overwrite", create_missing="Person", spark=False
    )
    assert done.created == {"node:Person": 1}
    assert names(graph) == ["ada", "bob"]
    source = {"Person": pa.table({"name": ["bob"]}), "Knows": ends(("bob", "cy"))}
    assert graph.load(source, mode="overwrite", create_missing="Person", spark=False).created == {
        "node:Person": 1
    }
    assert names(graph) == ["bob", "cy"]


def test_keys_of_other_types_are_read_from_the_ends(graph: Graph) -> None:
    source = {
        "Born": ends(("ada", 1815), ("bob", 1900)),
        "On": ends(("ada", "3"), ("ada", "19000")),
        "Has": ends(("ada", "t1")),
    }
    done = graph.load(
        source, mode="append", create_missing=["Person", "Year", "Day", "Tag"], spark=False
    )
    assert done.created == {"node:Day": 2, "node:Person": 1, "node:Tag": 1, "node:Year": 2}
    assert sorted(graph.table("Year")["number"].to_pylist()) == [1815, 1900]
    assert [str(one) for one in sorted(graph.table("Day")["date"].to_pylist())] == [
        "1970-01-04",
        "2022-01-08",
    ]
    assert graph.table("Tag").to_pylist() == [{"id": "t1", "label": None}]


def test_an_end_that_can_be_no_key_stays_missing(graph: Graph) -> None:
    with pytest.raises(ReferentialError, match="'soon' not found"):
        graph.load(
            ends(("ada", "soon"), ("ada", "1815")),
            type="Born",
            mode="append",
            create_missing="Year",
            spark=False,
        )
    assert graph.table("Year").num_rows == 0


def test_a_created_node_keeps_the_rules_of_its_type(graph: Graph) -> None:
    with pytest.raises(ConstraintError, match="'9x'"):
        graph.load(
            ends(("ada", "9x")), type="Knows", mode="append", create_missing="Person", spark=False
        )
    assert names(graph) == ["ada"]


def test_a_check_counts_and_writes_nothing(graph: Graph) -> None:
    edges = ends(("ada", "bob"), ("bob", "cy"))
    done = graph.load(
        edges, type="Knows", mode="append", create_missing="Person", spark=False, dry_run=True
    )
    assert done.created == {"node:Person": 2}
    assert done.commit is None
    assert names(graph) == ["ada"]
    assert graph.table("Knows").num_rows == 0


def test_only_types_that_are_named_are_created(graph: Graph) -> None:
    with pytest.raises(ReferentialError, match="'bob' not found"):
        graph.load(
            ends(("bob", 1815)), type="Born", mode="append", create_missing="Year", spark=False
        )
    assert graph.table("Year").num_rows == 0


@pytest.mark.parametrize(
    ("wanted", "error", "said"),
    [
        ("Pair", UserInputError, "its key has several properties: a, b"),
        ("Firm", UserInputError, "a Firm must have city"),
        ("Knows", NotFound, "node type 'Knows'"),
        ("Persn", NotFound, "Person"),
        (7, UserInputError, "'create_missing' is a list of names"),
    ],
)
def test_what_cannot_be_created_is_refused_first(
    graph: Graph, wanted: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        graph.load(
            ends(("ada", "x")), type="Knows", mode="append", create_missing=wanted, spark=False
        )


def test_a_repeated_key_gives_the_first_result(graph: Graph) -> None:
    edges = ends(("ada", "bob"))
    options: Any = {"type": "Knows", "mode": "append", "create_missing": "Person", "spark": False}
    first = graph.load(edges, idempotency_key="k", **options)
    again = graph.load(edges, idempotency_key="k", **options)
    assert again.replayed
    assert again.created == first.created == {"node:Person": 1}


def test_a_new_branch_gets_the_created_nodes_alone(graph: Graph) -> None:
    done = graph.load(
        ends(("ada", "bob")),
        type="Knows",
        mode="append",
        branch="side",
        from_branch="main",
        create_missing="Person",
        spark=False,
    )
    assert done.branch_created
    assert done.created == {"node:Person": 1}
    assert names(graph) == ["ada"]
    assert graph.table("Person", branch="side").num_rows == 2
