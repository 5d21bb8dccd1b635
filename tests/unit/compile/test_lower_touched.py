"""Which tables a query may touch: targets, endpoints of new edges, and the reach of a cascade."""

import pytest

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.checked import (
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedStatement,
    CheckedUpdate,
    Const,
    VariableKind,
    Where,
)
from omnigraph.compile.touched import Touched, list_touched_tables
from tests.support.plan_fixtures import checked_read, harbour

TEXT = PropertyType(scalar=Scalar.STRING)
ANY = Where(column="id", op="!=", value=Const(value="", type=TEXT), type=TEXT)


def mutation(*statements: CheckedStatement) -> CheckedMutation:
    return CheckedMutation(name="m", params={}, statements=statements)


def insert(name: str, kind: VariableKind = VariableKind.NODE) -> CheckedInsert:
    return CheckedInsert(type_name=name, kind=kind, assignments=())


def delete(name: str, kind: VariableKind = VariableKind.NODE) -> CheckedDelete:
    return CheckedDelete(type_name=name, kind=kind, where=ANY)


STORIES: list[tuple[str, CheckedMutation, tuple[str, ...], tuple[str, ...]]] = [
    ("a node is inserted", mutation(insert("Port")), ("node:Port",), ("node:Port",)),
    (
        "an edge is inserted and must find both ends",
        mutation(insert("CallsAt", VariableKind.EDGE)),
        ("edge:CallsAt",),
        ("edge:CallsAt", "node:Port", "node:Vessel"),
    ),
    (
        "a node is updated",
        mutation(CheckedUpdate(type_name="Vessel", assignments=(), where=ANY)),
        ("node:Vessel",),
        ("node:Vessel",),
    ),
    (
        "nodes are deleted with every edge at either end",
        mutation(delete("Port")),
        ("edge:CallsAt", "edge:Feeds", "node:Port"),
        ("edge:CallsAt", "edge:Feeds", "node:Port"),
    ),
    (
        "an edge is deleted alone",
        mutation(delete("Feeds", VariableKind.EDGE)),
        ("edge:Feeds",),
        ("edge:Feeds",),
    ),
    (
        "statements add up, each table once",
        mutation(insert("Vessel"), insert("OwnedBy", VariableKind.EDGE), insert("Vessel")),
        ("edge:OwnedBy", "node:Vessel"),
        ("edge:OwnedBy", "node:Company", "node:Vessel"),
    ),
]


@pytest.mark.parametrize(
    ("query", "written", "read"), [story[1:] for story in STORIES], ids=[one[0] for one in STORIES]
)
def test_a_mutation_touches_its_targets_and_what_they_depend_on(
    query: CheckedMutation, written: tuple[str, ...], read: tuple[str, ...]
) -> None:
    assert list_touched_tables(query, harbour()) == Touched(written, read)  # type: ignore[arg-type]


def test_a_read_touches_what_it_binds_walks_and_denies() -> None:
    query = "query q() { match { $n: Note  $v: Vessel  not { $v ownedBy $_ } } return { $v } }"
    found = list_touched_tables(checked_read(query), harbour())
    assert found.written == ()
    assert found.read == ("edge:OwnedBy", "node:Company", "node:Note", "node:Vessel")


def test_a_node_and_an_edge_of_one_name_are_told_apart() -> None:
    catalog: Catalog = compile_schema("node Link { name: String @key }\nedge Link: Link -> Link")
    assert list_touched_tables(mutation(delete("Link", VariableKind.EDGE)), catalog).written == (
        "edge:Link",
    )
    assert list_touched_tables(mutation(delete("Link")), catalog).written == (
        "edge:Link",
        "node:Link",
    )
