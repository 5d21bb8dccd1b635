"""The evaluator, rule by rule, over committed rows held in memory."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.catalog.model import (
    Cardinality,
    Catalog,
    Check,
    Columns,
    EdgeType,
    NodeType,
    Property,
    Range,
)
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.commit.constraints import violations
from omnigraphdb.commit.constraints.committed import CommittedTables
from omnigraphdb.commit.delta import DeltaKind, Deltas, TableDelta, deltas_of
from omnigraphdb.errors import ConstraintError, DataError, KeyConflict, ReferentialError
from omnigraphdb.ids import TableKey


def prop(name: str, scalar: Scalar, **facts: Any) -> Property:
    return Property(name=name, type=PropertyType(scalar=scalar, **{"nullable": True} | facts))


def props(*found: Property) -> dict[str, Property]:
    return {one.name: one for one in found}


OVEN = NodeType(
    name="Oven",
    properties=props(
        prop("code", Scalar.STRING, nullable=False),
        prop("level", Scalar.STRING, enum_values=("high", "low")),
        prop("degrees", Scalar.I32),
        prop("gas", Scalar.F64),
        prop("serial", Scalar.STRING),
        prop("mail", Scalar.STRING),
    ),
    key=Columns(("code",)),
    unique=(Columns(("mail",)), Columns(("degrees", "level"))),
    ranges=(
        Range(property="degrees", low=0, high=300),
        Range(property="gas", low=None, high=1.5),
    ),
    checks=(Check(property="serial", pattern="^[A-Z]{2}[0-9]+$"),),
)
FIRM = NodeType(name="Firm", properties=props(prop("name", Scalar.STRING)), key=Columns(("name",)))
HEATS = EdgeType(name="Heats", source="Oven", target="Firm", cardinality=Cardinality(low=1, high=2))
OWNS = EdgeType(name="Owns", source="Firm", target="Oven", unique=(Columns(("dst", "src")),))
CATALOG = Catalog(nodes={"Oven": OVEN, "Firm": FIRM}, edges={"Heats": HEATS, "Owns": OWNS})
Row = Mapping[str, Any]


def table(type_: NodeType | EdgeType, rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=type_.schema)


def oven(identity: str, **values: Any) -> Row:
    return {"id": identity, "code": identity} | values


def firm(identity: str) -> Row:
    return {"id": identity, "name": identity}


def edge(identity: str, src: str, dst: str) -> Row:
    return {"id": identity, "src": src, "dst": dst}


def committed(**rows: Iterable[Row]) -> CommittedTables:
    return CommittedTables(
        {key: table(type_, rows.get(type_.name, ())) for key, type_ in CATALOG.tables.items()}
    )


def change(
    type_: NodeType | EdgeType,
    rows: Iterable[Row] = (),
    kind: DeltaKind = DeltaKind.MERGE,
    deleted: Iterable[str] = (),
) -> TableDelta:
    return TableDelta(
        type=type_, kind=kind, rows=table(type_, rows), deleted=pa.array(list(deleted), pa.string())
    )


def writing(*found: TableDelta) -> Deltas:
    return deltas_of({TableKey(one.type.table_key): one for one in found})


def rules(changes: Deltas, before: CommittedTables) -> list[tuple[str, str | None]]:
    found = violations(changes, before, CATALOG)
    assert found.total == len(found.problems)
    return [(problem.rule, problem.row_id) for problem in found.problems]


@pytest.mark.parametrize(
    ("values", "rule", "words"),
    [
        ({"degrees": 301}, "W10", ["@range violation on Oven.degrees", "301", "maximum 300"]),
        ({"degrees": -1}, "W10", ["Oven.degrees", "-1", "minimum 0"]),
        ({"gas": float("nan")}, "W10", ["Oven.gas", "not a number"]),
        ({"gas": 1.75}, "W10", ["Oven.gas", "1.75"]),
        ({"serial": "ab1"}, "W11", ["@check violation on Oven.serial", "ab1"]),
        ({"level": "Low"}, "W12", ["invalid enum value", "Low", "Oven.level", "only by case"]),
        ({"code": None}, "W01", ["Oven.code"]),
    ],
)
def test_a_value_outside_its_rule_is_named(values: Row, rule: str, words: list[str]) -> None:
    found = violations(writing(change(OVEN, [{**oven("o1"), **values}])), committed(), CATALOG)
    assert [problem.rule for problem in found.problems] == [rule]
    assert all(word in found.problems[0].message for word in words), found.problems[0].message
    assert isinstance(found.error(), DataError if rule == "W01" else ConstraintError)


def test_bounds_are_inclusive_and_null_is_exempt() -> None:
    rows = [oven("a", degrees=0, gas=1.5), oven("b", degrees=300, serial="AB1"), oven("c")]
    assert rules(writing(change(OVEN, rows)), committed()) == []


@pytest.mark.parametrize(
    ("scalar", "low", "high", "inside", "outside"),
    [
        (Scalar.F32, 0.1, 0.3, [0.1, 0.3], [0.0999, 0.3001]),
        (Scalar.F64, 0.1, 0.3, [0.1, 0.3], [0.09999999, 0.30000001]),
        (Scalar.I32, 1.5, 3.5, [2, 3], [1, 4]),
        (Scalar.U32, -5, 10, [0, 10], [11]),
        (Scalar.U64, 2**63, 2**64 - 1, [2**63, 2**64 - 1], [2**63 - 1]),
        (Scalar.I64, -(2**63), 2**63 - 1, [-(2**63), 2**63 - 1], []),
        (Scalar.U64, 0, 1e40, [0, 2**64 - 1], []),
    ],
)
def test_bounds_hold_at_the_precision_of_the_column(
    scalar: Scalar, low: float, high: float, inside: list[Any], outside: list[Any]
) -> None:
    ranges = (Range(property="x", low=low, high=high),)
    point = NodeType(name="Point", properties=props(prop("x", scalar)), ranges=ranges)
    rows = table(point, [{"id": f"p{n}", "x": x} for n, x in enumerate([*inside, *outside])])
    write = writing(TableDelta(type=point, kind=DeltaKind.APPEND, rows=rows))
    empty = CommittedTables({point.table_key: table(point, [])})
    found = violations(write, empty, Catalog(nodes={"Point": point}))
    wrong = [f"p{n}" for n in range(len(inside), len(inside) + len(outside))]
    assert [(problem.rule, problem.row_id) for problem in found.problems] == [
        ("W10", identity) for identity in wrong
    ]


def test_a_unique_value_has_one_holder_in_the_write_and_in_what_stays() -> None:
    before = committed(Oven=[oven("ann", mail="a@x")])
    clash = writing(change(OVEN, [oven("bob", mail="a@x")]))
    found = violations(clash, before, CATALOG)
    assert "'ann' and 'bob'" in found.problems[0].message
    duplicates = writing(
        change(OVEN, [oven("p", mail="z"), oven("q", mail="z"), oven("r", mail="y")])
    )
    assert rules(duplicates, before) == [("W13", "q")]


def test_a_row_written_again_with_its_own_value_is_no_violation() -> None:
    before = committed(Oven=[oven("ann", mail="a@x"), oven("bob", mail="b@x")])
    swapped = [oven("ann", mail="b@x"), oven("bob", mail="a@x")]
    assert rules(writing(change(OVEN, swapped)), before) == []


def test_a_tuple_counts_as_a_whole_and_a_null_exempts_it() -> None:
    before = committed(Oven=[oven("a", degrees=1, level="low")])
    fine = [oven("b", degrees=1, level="high"), oven("c", degrees=1), oven("d", degrees=1)]
    assert rules(writing(change(OVEN, fine)), before) == []
    assert rules(writing(change(OVEN, [oven("b", degrees=1, level="low")])), before) == [
        ("W13", "b")
    ]


def test_a_deleted_holder_frees_its_value() -> None:
    before = committed(Oven=[oven("ann", mail="a@x")])
    write = writing(change(OVEN, [oven("bob", mail="a@x")], deleted=["ann"]))
    assert rules(write, before) == []


def test_negative_zero_is_zero_in_a_unique_tuple() -> None:
    point = NodeType(
        name="Point", properties=props(prop("x", Scalar.F64)), unique=(Columns(("x",)),)
    )
    catalog = Catalog(nodes={"Point": point})
    rows = table(point, [{"id": "a", "x": 0.0}, {"id": "b", "x": -0.0}])
    write = writing(TableDelta(type=point, kind=DeltaKind.APPEND, rows=rows))
    empty = CommittedTables({point.table_key: table(point, [])})
    assert [p.rule for p in violations(write, empty, catalog).problems] == ["W13"]


def test_an_append_refuses_what_exists() -> None:
    before = committed(Oven=[oven("a")])
    write = writing(change(OVEN, [oven("a"), oven("b")], DeltaKind.APPEND))
    found = violations(write, before, CATALOG)
    assert [(p.rule, p.row_id) for p in found.problems] == [("W20", "a")]
    assert isinstance(found.error(), KeyConflict)


def test_both_ends_of_an_edge_exist_after_the_write() -> None:
    before = committed(Oven=[oven("o")], Firm=[firm("f")])
    write = writing(
        change(HEATS, [edge("e1", "o", "g"), edge("e2", "x", "f"), edge("e3", "o", "f")]),
        change(FIRM, [firm("g")]),
    )
    found = violations(write, before, CATALOG)
    assert [(p.rule, p.row_id) for p in found.problems] == [("W15", "e2")]
    assert all(
        word in found.problems[0].message for word in ["src", "from", "x", "Oven", "not found"]
    )
    assert isinstance(found.error(), ReferentialError)


def test_an_end_that_exists_under_another_type_is_hinted() -> None:
    before = committed(Firm=[firm("f")])
    found = violations(writing(change(HEATS, [edge("e", "f", "f")])), before, CATALOG)
    assert "a 'Firm' has this id" in found.problems[0].message


def test_a_removed_node_leaves_no_edge_behind() -> None:
    before = committed(Oven=[oven("o")], Firm=[firm("f"), firm("g")], Heats=[edge("e", "o", "f")])
    assert rules(writing(change(FIRM, kind=DeltaKind.DELETE, deleted=["f"])), before) == [
        ("W16", "e")
    ]
    replaced = writing(change(FIRM, [firm("g")], DeltaKind.REPLACE))
    assert rules(replaced, before) == [("W16", "e")]


def test_replaced_nodes_and_edges_are_judged_together() -> None:
    before = committed(Oven=[oven("o")], Firm=[firm("f")], Heats=[edge("e", "o", "f")])
    write = writing(
        change(FIRM, [firm("g")], DeltaKind.REPLACE),
        change(HEATS, [edge("n", "o", "g")], DeltaKind.REPLACE),
    )
    assert rules(write, before) == []


@pytest.mark.parametrize(
    ("rows", "deleted", "expected"),
    [
        ([edge("e2", "o", "f")], [], []),
        ([edge("e2", "o", "f"), edge("e3", "o", "f")], [], [("W14", "o")]),
        ([], ["e1"], [("W14", "o")]),
        ([edge("e1", "p", "f")], [], [("W14", "o")]),
    ],
    ids=["within", "too many", "last one removed", "last one moved"],
)
def test_touched_sources_keep_their_count(
    rows: list[Row], deleted: list[str], expected: list[tuple[str, str]]
) -> None:
    before = committed(Oven=[oven("o"), oven("p")], Firm=[firm("f")], Heats=[edge("e1", "o", "f")])
    assert rules(writing(change(HEATS, rows, deleted=deleted)), before) == expected


def test_a_source_that_goes_is_not_counted() -> None:
    before = committed(Oven=[oven("o")], Firm=[firm("f")], Heats=[edge("e1", "o", "f")])
    write = writing(
        change(OVEN, kind=DeltaKind.DELETE, deleted=["o"]),
        change(HEATS, kind=DeltaKind.DELETE, deleted=["e1"]),
    )
    assert rules(write, before) == []


def test_values_come_before_uniqueness_before_ends_before_counts() -> None:
    before = committed(Oven=[oven("o", mail="m")], Firm=[firm("f")])
    write = writing(
        change(OVEN, [oven("b", mail="m"), oven("a", degrees=999)]),
        change(HEATS, [edge(f"e{i}", "o", "f") for i in range(3)] + [edge("x", "o", "nowhere")]),
    )
    found = [rule for rule, _ in rules(write, before)]
    assert found == ["W10", "W13", "W15", "W14"]


def test_twenty_problems_are_shown_and_all_are_counted() -> None:
    rows = [oven(f"o{i:03}", degrees=999) for i in range(50)]
    found = violations(writing(change(OVEN, rows)), committed(), CATALOG)
    assert (len(found.problems), found.total) == (20, 50)
    assert [p.row_id for p in found.problems] == [f"o{i:03}" for i in range(20)]
    assert "… and 30 more" in str(found.error())
