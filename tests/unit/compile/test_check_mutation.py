"""Statements after the checker: physical columns, typed values, whole files."""

from datetime import date

import pytest

from omnigraphdb.compile.check import check_file
from omnigraphdb.compile.checked import (
    CheckedDelete,
    CheckedInsert,
    CheckedUpdate,
    Compare,
    Const,
    Now,
    ParamRef,
    PropertyRef,
    VariableKind,
)
from omnigraphdb.errors import DataError, QueryError
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source
from tests.support.compiling import checked, harbour, mutation


def test_the_ends_of_an_edge_become_columns() -> None:
    (statement,) = mutation('insert CallsAt { from: $v, to: "NLRTM", eta: now() }', "$v: String").statements  # fmt: skip
    assert isinstance(statement, CheckedInsert)
    assert statement.kind is VariableKind.EDGE
    assert [a.property for a in statement.assignments] == ["src", "dst", "eta"]
    source, target, eta = (a.value for a in statement.assignments)
    assert isinstance(source, ParamRef)
    assert isinstance(target, Const)
    assert isinstance(eta, Now)


def test_a_predicate_on_an_end_is_on_its_column() -> None:
    (statement,) = mutation('delete CallsAt where to = "BEANR"').statements
    assert isinstance(statement, CheckedDelete)
    where = statement.where
    assert isinstance(where, Compare)
    assert isinstance(where.left, PropertyRef)
    assert (where.left.property, where.op) == ("dst", "=")


def test_literals_take_the_type_of_their_property() -> None:
    (statement,) = mutation(
        'insert Vessel { imo: "1", name: "a", dwt: 7.0, draft: 5, built: date("2020-01-31"),'
        " marks: [1, 2.0], sig: [1, 2, 3], tags: [] }"
    ).statements
    assert isinstance(statement, CheckedInsert)
    values = {a.property: a.value for a in statement.assignments}
    stored = {name: v.value for name, v in values.items() if isinstance(v, Const)}
    assert stored == {
        "imo": "1",
        "name": "a",
        "dwt": 7,
        "draft": 5.0,
        "built": date(2020, 1, 31),
        "marks": (1, 2),
        "sig": (1.0, 2.0, 3.0),
        "tags": (),
    }
    assert isinstance(stored["dwt"], int)
    assert isinstance(stored["draft"], float)


def test_a_predicate_literal_keeps_its_own_type() -> None:
    (statement,) = mutation("update Vessel set { active: true } where dwt > 2.5").statements
    assert isinstance(statement, CheckedUpdate)
    assert isinstance(statement.where, Compare)
    assert isinstance(statement.where.right, Const)
    assert statement.where.right.value == 2.5
    assert str(statement.where.left.type) == "I64?"


def test_a_node_wins_over_an_edge_of_the_same_name() -> None:
    from omnigraphdb.catalog.resolve.schema import compile_schema

    catalog = compile_schema("node Feed { k: String @key }  edge Feed: Feed -> Feed")
    found = checked('query q() { insert Feed { k: "a" } }', catalog)
    assert found.statements[0].kind is VariableKind.NODE  # type: ignore[union-attr]


def test_null_for_a_required_property_is_a_data_error_that_names_it() -> None:
    with pytest.raises(DataError) as caught:
        mutation('update Port set { name: null } where code = "nowhere"')
    assert caught.value.code == "W01"
    assert caught.value.data_errors[0]["table_key"] == "node:Port"
    assert caught.value.data_errors[0]["property"] == "name"


def test_a_key_cannot_be_updated() -> None:
    with pytest.raises(DataError, match="delete the entity and insert it") as caught:
        mutation('update Port set { code: "Y" } where code = "X"')
    assert caught.value.code == "W05"


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ('update Port set { nme: "a", code: "Y" } where code = "X"', "T11"),
        ('update Port set { code: "Y" } where code = $missing', "T14"),
        ('insert Vessel { imo: "1", dwt: 7.5 }', "T12"),
        ('update Port set { code: "Y" } where code = "X"  delete Port where code = "Z"', "T29"),
    ],
)
def test_a_wrong_text_is_told_before_wrong_values(statements: str, code: str) -> None:
    with pytest.raises(QueryError) as caught:
        mutation(statements)
    assert caught.value.code == code


# ---- files


def test_two_queries_of_one_name_are_refused() -> None:
    source = Source("query a() { match { $v: Vessel } return { $v } }\n" * 2)
    with pytest.raises(QueryError, match="'a'") as caught:
        check_file(parse_queries(source), harbour(), source)
    assert caught.value.code == "T30"
    assert caught.value.details["diagnostic"]["position"]["line"] == 2


def test_every_query_of_a_file_is_checked_on_its_own() -> None:
    source = Source(
        "query a() { match { $v: Vesel } return { $v } }\n"
        "query b() { match { $v: Vessel } return { $v } }\n"
        'query c() { insert Company { nam: "x" } }\n'
    )
    with pytest.raises(QueryError) as caught:
        check_file(parse_queries(source), harbour(), source)
    found = [(d["query_name"], d["code"]) for d in caught.value.details["diagnostics"]]
    assert found == [("a", "T1"), ("c", "T11"), ("c", "T12")]


def test_a_file_without_mistakes_gives_its_queries_in_order() -> None:
    source = Source(
        "query b() { match { $v: Vessel } return { $v } }\n"
        'query a() { delete Company where name = "x" }\n'
    )
    assert [q.name for q in check_file(parse_queries(source), harbour(), source)] == ["b", "a"]
