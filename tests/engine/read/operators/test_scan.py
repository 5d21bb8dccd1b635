"""Scans find their entities the cheapest way, and every way finds the same ones."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.compile.plan.operators import Scan
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.operators.filter import holds
from omnigraphdb.engine.read.operators.pushdown import render_filter
from omnigraphdb.engine.read.operators.scan import access_of
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.engine.read.renamed_table import RenamedTable
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.counters import Cost, counting
from tests.support.read_world import World

SCHEMA = """
node Vessel {
  imo: String @key
  name: String
  kind: enum(bulk, tanker, roro)? @index
  built: Date? @index
  seen: DateTime? @index
  dwt: I32? @index
  mass: I64? @index
  serial: U64? @index
  draft: F32? @index
  length: F64? @index
  active: Bool? @index
}
"""
ROWS = 3_000
VESSEL = TableKey("node:Vessel")

NAN, INF = float("nan"), float("inf")
POOLS: dict[str, list[Any]] = {
    "kind": ["bulk", "tanker", "roro", None],
    "built": [date(2010, 5, 1), date(2018, 3, 15), date(1, 1, 1), None],
    "seen": [
        datetime(2026, 1, 10, 8, tzinfo=UTC),
        datetime(2026, 1, 10, 8, 0, 0, 7_000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        None,
    ],
    "dwt": [-(2**31), -1, 0, 1, 2, 2**31 - 1, None],
    "mass": [-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1, None],
    "serial": [0, 1, 2**63, 2**64 - 1, None],
    "draft": [0.0, -0.0, 0.10000000149011612, 1.5, INF, -INF, NAN, None],
    "length": [0.0, -0.0, 0.1, 1e-300, 1e300, INF, -INF, NAN, None],
    "active": [True, False, None],
}
LITERALS: dict[str, list[str]] = {
    "kind": ['"bulk"', '"tug"'],
    "built": ['date("2010-05-01")', 'date("0001-01-01")'],
    "seen": ['datetime("2026-01-10T08:00:00.007Z")', 'datetime("1969-12-31T23:59:59Z")'],
    "dwt": ["0", "1", "2.0", "2.7", "3000000000", "-1"],
    "mass": ["0", "9007199254740993", "9223372036854775807", "0.5"],
    "serial": ["0", "1", "9223372036854775807", "-1"],
    "draft": ["0", "0.0", "0.1", "1.5", "3"],
    "length": ["0", "0.0", "0.1", "1.5", "10"],
    "active": ["true", "false"],
}
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """Many vessels with every value that is easily got wrong, half of them indexed."""
    world = World.of(SCHEMA)
    chance = np.random.default_rng(5)
    rows = [
        {"id": f"v{number}", "imo": f"v{number}", "name": f"name {number}"}
        | {name: pool[chance.integers(len(pool))] for name, pool in POOLS.items()}
        for number in range(ROWS)
    ]
    world.append("Vessel", rows[: ROWS // 2])
    world.index("Vessel")
    world.append("Vessel", rows[ROWS // 2 :])
    yield world
    world.close()


def filters_of(world: World, condition: str) -> tuple[Reader, tuple[Test, ...]]:
    query = f"use extensions\nquery q() {{ match {{ $v: Vessel  {condition} }} return {{ $v }} }}"
    reader = world.reader(world.plan(query))
    (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
    return reader, scan.filter


@st.composite
def conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LITERALS)))
    literals = st.sampled_from(LITERALS[name])
    operator, value = draw(st.sampled_from(OPERATORS)), draw(literals)
    among = ", ".join(draw(st.lists(literals, min_size=1, max_size=3)))
    return draw(
        st.sampled_from(
            [
                f"$v.{name} {operator} {value}",
                f"{value} {operator} $v.{name}",
                f"not ($v.{name} {operator} {value})",
                f"$v.{name} is null",
                f"$v.{name} is not null",
                f"$v.{name} in [{among}]",
                f"not ($v.{name} in [{among}])",
                f"($v.{name} {operator} {value} or $v.dwt = 1)",
            ]
        )
    )


@settings(max_examples=250)
@given(condition=conditions())
def test_storage_and_memory_agree_on_every_test(fleet: World, condition: str) -> None:
    reader, tests = filters_of(fleet, condition)
    nodes = reader.snapshot.nodes("Vessel")
    rows = Bindings({"v": nodes.all}, len(nodes))
    for test in tests:
        text = render_filter(test, reader.value)
        if text is None:
            continue
        pushed = nodes.table.read((), text, row_id=True)["_rowid"].to_pylist()
        kept = nodes.all[holds(test, rows, reader)].tolist()
        assert sorted(pushed) == kept, text


def test_most_tests_can_be_pushed_down(fleet: World) -> None:
    for name, literals in LITERALS.items():
        for operator in OPERATORS:
            for literal in literals:
                reader, tests = filters_of(fleet, f"$v.{name} {operator} {literal}")
                assert all(render_filter(test, reader.value) is not None for test in tests)


@pytest.mark.parametrize("name", sorted(LITERALS))
def test_a_pushed_equality_is_answered_by_the_index(fleet: World, name: str) -> None:
    reader, (test,) = filters_of(fleet, f"$v.{name} = {LITERALS[name][0]}")
    text = render_filter(test, reader.value)
    assert text is not None
    assert "ScalarIndexQuery" in reader.snapshot.nodes("Vessel").table.explain(text)


def test_parameters_are_coerced_like_literals(fleet: World) -> None:
    query = "query q($n: F64) { match { $v: Vessel  $v.dwt = $n } return { count($v) as n } }"
    ((whole,),) = fleet.rows(query, {"n": 2.0})
    assert whole > 0
    assert fleet.rows(query, {"n": 2.7}) == [(0,)]
    assert fleet.rows(query, {"n": None}) == [(0,)]
    below = "query q($n: I64) { match { $v: Vessel  $v.dwt < $n } return { count($v) as n } }"
    ((all_of_them,),) = fleet.rows(below, {"n": 3_000_000_000})
    ((known,),) = fleet.rows(
        "use extensions query q() { match { $v: Vessel  $v.dwt is not null } return { count($v) as n } }"
    )
    assert all_of_them == known


def test_a_text_that_sql_would_end_is_only_a_text(fleet: World) -> None:
    query = "query q($k: String) { match { $v: Vessel  $v.kind = $k } return { count($v) as n } }"
    for text in ("'", "''", "' or 'a' = 'a", "\\", "%", "`"):
        reader = fleet.reader(fleet.plan(query), {"k": text})
        (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
        pushed = render_filter(scan.filter[0], reader.value)
        assert pushed is not None
        table = reader.snapshot.nodes("Vessel").table
        assert not isinstance(table, RenamedTable)
        assert table.count(pushed) == 0
        assert fleet.rows(query, {"k": text}) == [(0,)]


# ---- which way


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    world = World.of(
        "node Person { key: String @key  name: String  city: enum(a, b, c) @index  age: I32 @index }"
    )
    count = 200_000
    numbers = np.arange(count)
    rows = pa.table(
        {
            "id": pa.array(np.char.add("p", numbers.astype("U"))),
            "age": pa.array((numbers % 90).astype(np.int32)),
            "city": pa.array(["a", "b", "c"]).take(pa.array(numbers % 3)),
            "key": pa.array(np.char.add("p", numbers.astype("U"))),
            "name": pa.array(np.char.add("name ", (numbers % 500).astype("U"))),
        },
        schema=world.catalog.nodes["Person"].schema,
    )
    key = TableKey("node:Person")
    world.land(key, world.store.tables.stage_append(world.at[key], rows))
    world.index("Person")
    yield world
    world.close()


@pytest.fixture
def large(shared: World) -> World:
    """A table too large to be read whole for one entity, of which nothing is held."""
    shared.cache = ByteCache(1 << 28)
    return shared


POINT = "query q($id: String) { match { $p: Person { key: $id } } return { $p.name, $p.age } }"


def test_a_cold_point_lookup_reads_no_whole_column(large: World) -> None:
    assert large.rows(POINT, {"id": "p777"}) == [("name 277", 57)]
    nodes = large.reader(large.plan(POINT)).snapshot.nodes("Person")
    assert not any(nodes.has_cached(name) for name in ("id", "name", "age"))
    assert large.cache.bytes_cached < 100_000


def test_points_asked_for_often_cost_nothing_more(large: World) -> None:
    for number in range(300):
        large.rows(POINT, {"id": f"p{number * 7}"})
    with counting() as costs:
        assert large.rows(POINT, {"id": "p199999"}) == [("name 499", 19)]
        assert large.rows(POINT, {"id": "nobody"}) == []
    assert costs[Cost.TABLE_SCANS] == 0


def test_a_cold_equality_asks_the_index(large: World) -> None:
    query = 'query q() { match { $p: Person { city: "a" } } return { count($p) as n } }'
    reader = large.reader(large.plan(query))
    (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
    access = access_of(scan, reader)
    assert access.note == "index on city"
    assert access.filter is not None
    plan = reader.snapshot.nodes("Person").table.explain(access.filter)
    assert "ScalarIndexQuery" in plan
    assert large.rows(query) == [(66_667,)]


@pytest.mark.parametrize(
    ("test", "columns", "searches", "count"),
    [
        ('$p.age = 7 or $p.city = "a"', "age, city", ("@age", "@city", "OR("), 68_890),
        ("$p.age in [7, 8]", "age", ("@age",), 4_446),
        ("$p.age between 7 and 8", "age", ("age >= 7 && age <= 8",), 4_446),
        ("7 < $p.age and $p.age <= 8", "age", ("age > 7 && age <= 8",), 2_223),
        ('$p.key starts_with "p1234"', "id", ("id >= p1234 && id < p1235",), 111),
        (
            '$p.age between 7 and 8 or $p.key starts_with "p12345" or $p.key = "p3"',
            "age, id",
            ("age >= 7 && age <= 8", "id >= p12345", "OR("),
            4_458,
        ),
    ],
)
def test_ranges_and_alternatives_ask_the_indexes(
    large: World, test: str, columns: str, searches: tuple[str, ...], count: int
) -> None:
    query = f"query q() {{ match {{ $p: Person  {test} }} return {{ count($p) as n }} }}"
    reader = large.reader(large.plan(query))
    (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
    access = access_of(scan, reader)
    assert access.note == f"index on {columns}"
    assert access.filter is not None
    assert access.rest == ()
    plan = reader.snapshot.nodes("Person").table.explain(access.filter)
    assert "ScalarIndexQuery" in plan
    assert [one for one in searches if one not in plan] == []
    rows = reader.snapshot.nodes("Person").table.read((), access.filter, row_id=True)
    assert rows.num_rows == count
    assert large.rows(query) == [(count,)]


@pytest.mark.parametrize("test", ["$p.age > 7", "$p.age != 7", '$p.age = 7 or $p.name = "name 1"'])
def test_what_no_index_narrows_reads_columns(large: World, test: str) -> None:
    query = f"query q() {{ match {{ $p: Person  {test} }} return {{ count($p) as n }} }}"
    reader = large.reader(large.plan(query))
    (scan,) = (one for one in reader.plan.operators if isinstance(one, Scan))
    assert access_of(scan, reader).note.startswith("columns ")


def test_a_column_asked_for_often_is_read_once_and_held(large: World) -> None:
    query = 'query q() { match { $p: Person { city: "a" } } return { count($p) as n } }'
    for _ in range(12):
        large.rows(query)
    reader = large.reader(large.plan(query))
    assert reader.snapshot.nodes("Person").has_cached("city")
    with counting() as costs:
        assert large.rows(query) == [(66_667,)]
    assert costs[Cost.TABLE_SCANS] == 0


def test_a_limit_without_order_looks_at_few_rows(large: World) -> None:
    query = "query q() { match { $p: Person } return { $p, $p.name } limit 3 }"
    assert len(large.rows(query)) == 3
    nodes = large.reader(large.plan(query)).snapshot.nodes("Person")
    assert not nodes.has_cached("name")
