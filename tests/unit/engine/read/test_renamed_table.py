"""A table under other names shows what was there, by identity, and nothing that merely bears a name."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from omnigraphdb.engine.read.renamed_table import RenamedTable
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.values import IndexKind
from tests.support.read_world import World

KEY = TableKey("node:Thing")


@pytest.fixture
def world() -> Iterator[World]:
    made = World.of("node Thing { key: String @key  age: I32? @index  note: String? @index }")
    made.append(
        "Thing",
        [{"id": "a", "key": "a", "age": 1, "note": "red rope"}, {"id": "b", "key": "b", "age": 2}],
    )
    made.index("Thing")
    yield made
    made.close()


@pytest.fixture
def table(world: World) -> RenamedTable:
    opened = world.store.tables.open(world.at[KEY])
    return RenamedTable(opened, {"key": "key", "years": "age", "text": "note"})


def test_columns_bear_the_names_of_now(table: RenamedTable) -> None:
    assert table.schema.names == ["id", "key", "years", "text"]
    assert table.field_ids["years"] == table.table.field_ids["age"]
    assert "age" not in table.field_ids
    assert table.read(("years", "id"), row_id=True).column_names == ["years", "id", "_rowid"]
    assert table.read((), "age = 2", row_id=True).num_rows == 1


def test_rows_are_found_by_the_names_of_now(table: RenamedTable) -> None:
    found = table.lookup("years", pa.array([2], pa.int32()), ("id", "text"), row_id=True)
    assert found["id"].to_pylist() == ["b"]
    numbers = found["_rowid"].cast(pa.uint64()).combine_chunks()
    assert table.take(numbers, ("years",))["years"].to_pylist() == [2]
    assert table.match("text", "ropes", columns=(), row_id=True).num_rows == 1


def test_indexes_belong_to_what_they_were_built_on(table: RenamedTable) -> None:
    assert {one.column for one in table.indices()} == {"id", "key", "years", "text"}
    assert table.uncovered("years", IndexKind.BTREE) == ()
    assert table.fragments() == table.table.fragments()
    assert table.at == table.table.at
    assert "ScalarIndexQuery" in table.explain("age = 1")


def test_a_property_that_was_not_there_is_not_shown_though_a_column_bears_its_name(
    world: World,
) -> None:
    opened = world.store.tables.open(world.at[KEY])
    table = RenamedTable(opened, {"key": "key"})
    assert set(table.field_ids) == {"id", "key"}
