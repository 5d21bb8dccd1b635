"""Filters that go down to storage: literals of exactly the column's type, so that the index answers them."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest

from omnigraphdb.compile.plan.operators import Scan
from omnigraphdb.engine.read.operators.pushdown import render_filter
from omnigraphdb.engine.read.reader import Reader
from tests.support.read_world import World

SCHEMA = """
node Thing {
  key: String @key
  small: I32? @index  large: I64? @index  count: U32? @index  size: U64? @index
  ratio: F32? @index  share: F64? @index
  day: Date? @index  at: DateTime? @index  name: String? @index  kind: enum(x, y, z)? @index
}
"""
VALUES: Mapping[str, list[Any]] = {
    "small": [-5, 0, 7],
    "large": [-(2**40), 0, 2**53 + 1],
    "count": [0, 7, 2**32 - 1],
    "size": [0, 7, 2**63 - 1],
    "ratio": [-0.5, 0.1, 2.0],
    "share": [-0.5, 0.1, 2.0],
    "day": [date(1969, 7, 20), date(2020, 2, 29), date(2026, 1, 1)],
    "at": [datetime(y, 1, 2, 3, 4, 5, tzinfo=UTC) for y in (1960, 2020, 2026)],
    "name": ["", "it's", "zebra"],
    "kind": ["x", "y", "z"],
}
LITERALS: Mapping[str, list[str]] = {
    "small": ["7", "7.0", "-5"],
    "large": ["9007199254740993", "0", "0.0"],
    "count": ["4294967295", "7.0"],
    "size": ["9223372036854775807", "7"],
    "ratio": ["0.1", "2"],
    "share": ["0.1", "2"],
    "day": ['date("2020-02-29")'],
    "at": ['datetime("2020-01-02T03:04:05Z")'],
    "name": ['"it\'s"', '""'],
    "kind": ['"y"'],
}
CASES = [(name, text) for name, texts in LITERALS.items() for text in texts]
TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@pytest.fixture(scope="module")
def things() -> Iterator[World]:
    world = World.of(SCHEMA)
    rows = [
        {"id": f"t{place}", "key": f"t{place}"} | {name: found[place % 3] for name, found in VALUES.items()}
        for place in range(30)
    ]  # fmt: skip
    world.append("Thing", [*rows, {"id": "none", "key": "none"} | dict.fromkeys(VALUES)])
    for name in VALUES:
        world.btree("Thing", name)
    yield world
    world.close()


def pushed(world: World, condition: str) -> tuple[Reader, str]:
    text = f"use extensions query q() {{ match {{ $t: Thing  {condition} }} return {{ $t }} }}"
    reader = world.reader(world.plan(text))
    (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
    written = [render_filter(test, reader.value) for test in scan.filter]
    assert written
    assert None not in written
    return reader, " and ".join(map(str, written))


def ids(world: World, condition: str) -> list[str]:
    text = f"use extensions query q() {{ match {{ $t: Thing  {condition} }} return {{ $t }} }}"
    return sorted(row[0] for row in world.rows(text))


@pytest.mark.parametrize("operator", sorted(TURNED))
@pytest.mark.parametrize(("name", "literal"), CASES)
def test_every_width_range_and_reversed_operand_is_answered_by_the_index(
    things: World, name: str, literal: str, operator: str
) -> None:
    for condition in (f"$t.{name} {operator} {literal}", f"{literal} {TURNED[operator]} $t.{name}"):
        reader, filter = pushed(things, condition)
        table = reader.snapshot.nodes("Thing").table
        assert "ScalarIndexQuery" in table.explain(filter), filter
        found = table.read(("id",), filter)["id"].to_pylist()
        assert sorted(found) == ids(things, condition)


@pytest.mark.parametrize("name", sorted(LITERALS))
def test_a_choice_of_values_is_answered_by_the_index(things: World, name: str) -> None:
    reader, filter = pushed(things, f"$t.{name} in [{', '.join(LITERALS[name])}]")
    assert "ScalarIndexQuery" in reader.snapshot.nodes("Thing").table.explain(filter), filter


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$t.small < 3000000000", 30),
        ("3000000000 > $t.small", 30),
        ("$t.small = 3000000000", 0),
        ("$t.count > -1", 30),
        ("$t.size >= -1", 30),
        ("$t.small = 7.5", 0),
        ("$t.small < 7.5", 30),
        ("7.5 < $t.small", 0),
        ("$t.small > 6.5", 10),
    ],
)
def test_a_number_no_column_value_can_be_is_compared_all_the_same(
    things: World, condition: str, found: int
) -> None:
    assert len(ids(things, condition)) == found


def test_a_column_without_an_index_is_compared_by_storage_as_well(things: World) -> None:
    reader, filter = pushed(things, '$t.key = "t3"')
    table = reader.snapshot.nodes("Thing").table
    assert "ScalarIndexQuery" not in table.explain("key = 't3'")
    assert table.read(("id",), filter)["id"].to_pylist() == ["t3"]


@pytest.mark.parametrize(
    "prefix", ["", "i", "it's", "z", "\ud7ff", "é", "\U0010ffff", "a\U0010ffff"]
)
def test_a_prefix_is_a_range_that_the_index_answers(things: World, prefix: str) -> None:
    condition = f'$t.name starts_with "{prefix}"'
    reader, filter = pushed(things, condition)
    table = reader.snapshot.nodes("Thing").table
    assert "ScalarIndexQuery" in table.explain(filter), filter
    found = table.read(("id",), filter)["id"].to_pylist()
    every = [f"t{place}" for place in range(30) if VALUES["name"][place % 3].startswith(prefix)]
    assert sorted(found) == sorted(every) == ids(things, condition)
