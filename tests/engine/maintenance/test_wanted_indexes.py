"""Which index a property gets follows from its type alone."""

import pytest

from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.wanted_indexes import list_wanted_indexes
from omnigraphdb.language.source import Source
from omnigraphdb.storage.values import IndexKind
from tests.support.maintenance import KNOWS, PERSON, SCHEMA


def indexes(schema: str, table: str) -> dict[str, IndexKind]:
    catalog = compile_schema(Source(schema))
    type_ = next(t for key, t in catalog.tables.items() if key == table)
    return {spec.column: spec.kind for spec in list_wanted_indexes(type_)}


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("enum(a, b)", IndexKind.BTREE),
        ("DateTime", IndexKind.BTREE),
        ("Date", IndexKind.BTREE),
        ("I32", IndexKind.BTREE),
        ("I64", IndexKind.BTREE),
        ("U32", IndexKind.BTREE),
        ("U64", IndexKind.BTREE),
        ("F32", IndexKind.BTREE),
        ("F64", IndexKind.BTREE),
        ("Bool", IndexKind.BTREE),
        ("String", IndexKind.TEXT),
        ("Vector(8)", IndexKind.VECTOR),
    ],
)
def test_an_annotated_property_is_indexed_by_its_type(spelling: str, kind: IndexKind) -> None:
    schema = f"node Thing {{ what: {spelling}? @index }}"
    assert indexes(schema, "node:Thing") == {"id": IndexKind.BTREE, "what": kind}


def test_a_list_has_no_index() -> None:
    assert indexes("node Thing { what: [String]? }", "node:Thing") == {"id": IndexKind.BTREE}


def test_edges_are_found_by_id_and_by_both_ends_and_by_nothing_else() -> None:
    assert indexes(SCHEMA, KNOWS) == dict.fromkeys(("id", "src", "dst"), IndexKind.BTREE)


def test_what_is_not_annotated_has_no_index() -> None:
    assert {"note", "tags"}.isdisjoint(indexes(SCHEMA, PERSON))


def test_free_text_has_no_scalar_index() -> None:
    assert indexes(SCHEMA, PERSON)["bio"] is IndexKind.TEXT
