"""How a match becomes a pattern: directions, scans, blocks and names."""

import pytest

from omnigraphdb.compile.checked import (
    Bind,
    Compare,
    Const,
    Direction,
    Hop,
    PropertyRef,
    VariableKind,
)
from tests.support.compiling import diagnostics, read


def only_hop(clauses: str) -> Hop:
    (hop,) = read(f"match {{ {clauses} }} return {{ 1 }}").pattern.hops
    return hop


@pytest.mark.parametrize(
    ("clauses", "direction"),
    [
        ("$v: Vessel  $v callsAt $p", Direction.OUT),
        ("$p: Port  $p callsAt $v", Direction.IN),
        ("$p: Port  $v callsAt $p", Direction.OUT),
        ("$v: Vessel  $p callsAt $v", Direction.IN),
        ("$v callsAt $p", Direction.OUT),
        ("$v: Vessel  $p: Port  $p callsAt $v", Direction.IN),
        ("$p: Port  $p feeds $q", Direction.OUT),
        ("$p: Port  $q feeds $p", Direction.OUT),
        ("$p: Port  $p <feeds> $q", Direction.BOTH),
    ],
)
def test_the_types_decide_the_direction(clauses: str, direction: Direction) -> None:
    assert only_hop(clauses).direction is direction


def test_an_end_without_a_type_gets_that_of_the_edge() -> None:
    found = read("match { $p: Port  $p callsAt $v  $v ownedBy $c } return { $c.name }")
    assert {v.name: v.type_name for v in found.pattern.variables} == {
        "p": "Port",
        "v": "Vessel",
        "c": "Company",
    }


def test_bounds_and_edge_names_are_kept() -> None:
    assert only_hop("$p: Port  $p feeds{2,3} $q") == Hop(
        left="p", right="q", edge="Feeds", direction=Direction.OUT, low=2, high=3
    )
    found = read("match { $v: Vessel  $v $c:callsat $p } return { $c.berth }")
    assert found.pattern.hops[0].edge_variable == "c"
    assert found.variables["c"].kind is VariableKind.EDGE
    assert found.variables["c"].type_name == "CallsAt"


def test_an_anonymous_edge_is_not_named() -> None:
    assert only_hop("$v: Vessel  $v $_:callsAt $p").edge_variable is None


# ---- scans


@pytest.mark.parametrize(
    ("clauses", "scanned"),
    [
        ("$v callsAt $p", ["v"]),
        ("$v callsAt $p  $p feeds $q", ["v"]),
        ("$v callsAt $p  $p: Port", ["p"]),
        ("$x: Company  $v callsAt $p", ["x", "v"]),
        ("$a feeds $b  $c feeds $d", ["a", "c"]),
        ("$a feeds $b  $c feeds $d  $b feeds $c", ["a"]),
        ("$p feeds $p", ["p"]),
        ("$_ callsAt $p", ["_1"]),
    ],
)
def test_a_source_nothing_binds_is_scanned(clauses: str, scanned: list[str]) -> None:
    pattern = read(f"match {{ {clauses} }} return {{ 1 }}").pattern
    assert [bind.variable for bind in pattern.binds] == scanned


def test_binding_twice_joins_the_blocks() -> None:
    found = read('match { $v: Vessel { name: "a" }  $v: Vessel { dwt: 1 } } return { $v }')
    (bind,) = found.pattern.binds
    assert [m.left.property for m in bind.matches if isinstance(m, Compare) and isinstance(m.left, PropertyRef)] == ["name", "dwt"]  # fmt: skip
    assert len(found.pattern.variables) == 1


def test_a_match_on_a_list_is_membership() -> None:
    found = read('match { $v: Vessel { tags: "ice", name: "a" } } return { $v }')
    assert [m.op for m in found.pattern.binds[0].matches if isinstance(m, Compare)] == [
        "contains",
        "=",
    ]


# ---- anonymous variables


def test_every_anonymous_end_is_a_variable_of_its_own() -> None:
    found = read("match { $v: Vessel  $v callsAt $_  $v callsAt $_ } return { $v }")
    anonymous = [v for v in found.pattern.variables if v.anonymous]
    assert [v.name for v in anonymous] == ["_1", "_2"]
    assert {h.right for h in found.pattern.hops} == {"_1", "_2"}


def test_a_made_up_name_never_meets_one_of_the_user() -> None:
    found = read("match { $_1: Vessel  $_1 callsAt $_ } return { $_1 }")
    assert [v.name for v in found.pattern.variables] == ["_1", "_2"]


# ---- blocks


def test_a_block_lists_what_it_uses_and_what_it_introduces() -> None:
    found = read(
        "match { $v: Vessel  $w: Vessel  not { $v callsAt $p  not { $p.name = $w.name } } } return { $v }"
    )
    (outer,) = found.pattern.negations
    (inner,) = outer.negations
    assert outer.outer == {"v", "w"}
    assert [v.name for v in outer.variables] == ["p"]
    assert inner.outer == {"p", "w"}
    assert inner.variables == ()


def test_a_block_scans_what_no_outer_variable_reaches() -> None:
    found = read("match { $v: Vessel  not { $a feeds $b  $b.name = $v.name } } return { $v }")
    assert found.pattern.negations[0].binds == (Bind(variable="a", type_name="Port"),)


def test_a_hop_from_outside_is_not_scanned() -> None:
    found = read("match { $v: Vessel  not { $v callsAt $p } } return { $v }")
    assert found.pattern.negations[0].binds == ()


def test_rebinding_inside_a_block_is_a_test_of_the_outer_variable() -> None:
    found = read('match { $v: Vessel  not { $v: Vessel { kind: "bulk" } } } return { $v }')
    (block,) = found.pattern.negations
    assert block.outer == {"v"}
    assert block.variables == ()
    assert block.binds[0].variable == "v"


def test_direction_inside_a_block_follows_the_types() -> None:
    found = read("match { $p: Port  not { $p callsAt $v } } return { $p }")
    assert found.pattern.negations[0].hops[0].direction is Direction.IN


def test_two_blocks_may_use_one_name_for_different_things() -> None:
    found = read("match { $v: Vessel  not { $v callsAt $x }  not { $v ownedBy $x } } return { $v }")
    first, second = (block.variables[0] for block in found.pattern.negations)
    assert (first.type_name, second.type_name) == ("Port", "Company")
    assert first.name != second.name
    assert set(found.variables) == {"v", first.name, second.name}


def test_a_name_of_a_block_and_the_same_name_outside_stay_apart() -> None:
    found = read("match { $v: Vessel  not { $v callsAt $x }  $v ownedBy $x } return { $x.name }")
    (outside,) = (v for v in found.pattern.variables if v.type_name == "Company")
    assert outside.name == "x"
    assert found.pattern.negations[0].variables[0].name == "x_1"


def test_a_name_used_in_one_block_only_keeps_it() -> None:
    found = read('match { $v: Vessel  not { $v callsAt $p  $p.name = "a" } } return { $v }')
    assert found.pattern.negations[0].variables[0].name == "p"


def test_a_block_may_not_use_what_stands_below_it() -> None:
    text = (
        "query q() { match { $v: Vessel  not { $p.name = $v.name }  $v callsAt $p } return { $v } }"
    )
    assert [d.code for d in diagnostics(text)] == ["T6"]


def test_literals_are_typed_values() -> None:
    found = read(
        'match { $v: Vessel  $v.seen > datetime("2020-01-01T02:00:00+02:00") } return { $v }'
    )
    (condition,) = found.pattern.conditions
    assert isinstance(condition, Compare)
    assert isinstance(condition.right, Const)
    assert str(condition.right.value) == "2020-01-01 00:00:00+00:00"
    assert str(condition.right.type) == "DateTime"
