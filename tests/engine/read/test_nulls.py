"""NULL means one thing everywhere: in groups, in nested blocks, in joins, and beside an empty list."""

from collections.abc import Iterator
from typing import Any

import pytest

from omnigraphdb.engine.cached.traversal import Mode, Traversal
from tests.support.read_world import World

SCHEMA = """
node A { k: String @key  s: String?  d: Date?  t: DateTime?  b: Bool?  i: I32?  u: U64?  f: F64?  l: [String]? }
node B { k: String @key  s: String?  n: I32? }
edge E: A -> B { w: I32? }
edge F: B -> B
"""
PROPERTIES = ("k", "s", "d", "t", "b", "i", "u", "f")


@pytest.fixture
def world() -> Iterator[World]:
    """a1 leads to a B with values, a2 to one without, a3 nowhere."""
    world = World.of(SCHEMA)
    world.append(
        "A", [{"id": k, "k": k, "s": s} for k, s in (("a1", "x"), ("a2", None), ("a3", None))]
    )
    world.append("B", [{"id": "b1", "k": "b1", "s": "x", "n": 1}, {"id": "b2", "k": "b2"}])
    world.append(
        "E",
        [{"id": "e1", "src": "a1", "dst": "b1", "w": 7}, {"id": "e2", "src": "a2", "dst": "b2"}],
    )
    world.append("F", [{"id": "f1", "src": "b1", "dst": "b2"}])
    yield world
    world.close()


def asked(world: World, match: str, result: str, **params: object) -> list[tuple[Any, ...]]:
    declared = ", ".join(f"${name}: [String]?" for name in params)
    text = f"use extensions query q({declared}) {{ match {{ {match} }} return {{ {result} }} }}"
    return sorted(world.rows(text, params), key=str)


# ---- groups


@pytest.mark.parametrize(("name", "value"), [("s", "x"), ("n", 1)])
def test_a_missing_entity_and_a_stored_null_are_one_group(
    world: World, name: str, value: object
) -> None:
    found = asked(world, "$a: A  optional { $a e $b }", f"$b.{name} as key, count($a) as n")
    assert sorted(found, key=lambda row: row[1]) == [(value, 1), (None, 2)]


def test_null_is_one_group_beside_other_keys(world: World) -> None:
    found = asked(world, "$a: A  optional { $a $e:e $b }", "$b.s as s, $e.w as w, count($a) as n")
    assert found == [("x", 7, 1), (None, None, 2)]


# ---- blocks about a missing entity


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        ("$b.s is null", ["a1"]),
        ("$b.k is null", ["a1", "a2"]),
        ("$b.s is not null", ["a2", "a3"]),
        ('$b.s = "x"', ["a2", "a3"]),
        ('not $b.s = "x"', ["a1", "a2", "a3"]),
        ("$a.s is null  $b.s is null", ["a1"]),
        ("$b: B", ["a3"]),
        ('$b: B { s: "x" }', ["a2", "a3"]),
        ("$b f $c", ["a2", "a3"]),
        ("$c: B  $b.s is null", ["a1"]),
        ("$c: B  $c.s = $b.s", ["a2", "a3"]),
        ("$b <f>{1,2} $c", ["a3"]),
        ("$a e $b", ["a3"]),
        ("$c: B  not { $b.s is null }", ["a2", "a3"]),
        ("$c: B  not { $b f $c }", []),
    ],
)
@pytest.mark.parametrize("mode", [Mode.CSR, Mode.INDEXED])
def test_a_negated_block_sees_a_missing_entity_as_null(
    world: World, block: str, kept: list[str], mode: Mode
) -> None:
    text = f"$a: A  optional {{ $a e $b }}  not {{ {block} }}"
    query = f"use extensions query q() {{ match {{ {text} }} return {{ $a }} order {{ $a.k }} }}"
    found = world.rows(query, traversal=Traversal(mode=mode))
    assert [row[0] for row in found] == kept


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        ("$b f $c", [("a1", "b2"), ("a2", None), ("a3", None)]),
        (
            "$c: B  $b.s is null",
            [("a1", None), ("a2", "b1"), ("a2", "b2"), ("a3", "b1"), ("a3", "b2")],
        ),
        ("$c: B  $c.s = $b.s", [("a1", "b1"), ("a2", None), ("a3", None)]),
        ("$b: B  $c: B", [("a1", "b1"), ("a1", "b2"), ("a2", "b1"), ("a2", "b2"), ("a3", None)]),
    ],
)
def test_a_second_optional_block_sees_a_missing_entity_as_null(
    world: World, block: str, rows: list[tuple[str, str | None]]
) -> None:
    found = asked(world, f"$a: A  optional {{ $a e $b }}  optional {{ {block} }}", "$a, $c")
    assert found == rows


# ---- equality between unconnected variables


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("empty", ["$a", "$b", "both"])
def test_an_equality_with_an_empty_side_gives_no_rows(name: str, empty: str) -> None:
    world = World.of(SCHEMA)
    if empty != "both":
        world.append("A", [{"id": "1", "k": "1"}])
    tests = "" if empty == "both" else f'{empty}.k = "none"'
    assert asked(world, f"$a: A  $b: A  $a.{name} = $b.{name}  {tests}", "$a, $b") == []
    world.close()


# ---- nothing is in an empty list


@pytest.mark.parametrize("spelling", ["$a.s in []", "$a.s in $none", "[] contains $a.s"])
def test_null_is_not_in_an_empty_list(world: World, spelling: str) -> None:
    params = {"none": ()} if "$none" in spelling else {}
    every = [("a1",), ("a2",), ("a3",)]
    assert asked(world, f"$a: A  {spelling}", "$a", **params) == []
    assert asked(world, f"$a: A  not {spelling}", "$a", **params) == every
    assert asked(world, f"$a: A  not {{ {spelling} }}", "$a", **params) == every
    assert asked(world, f"$a: A  {spelling} or $a.s is null", "$a", **params) == every[1:]
    assert asked(world, f"$a: A  not {{ not {spelling} }}", "$a", **params) == []


def test_null_is_unknown_among_anything_else(world: World) -> None:
    assert asked(world, '$a: A  not $a.s in ["y"]', "$a") == [("a1",)]
    assert asked(world, "$a: A  not $a.s in $none", "$a", none=None) == []


@pytest.mark.parametrize("test", ["$a.s in $a.l", "$a.l contains $a.s", "$n in $a.l"])
def test_null_is_not_in_a_stored_list_that_is_empty(world: World, test: str) -> None:
    world.append(
        "A", [{"id": f"c{n}", "k": f"c{n}", "l": items} for n, items in enumerate([[], ["x"]])]
    )
    declared = "$n: String?"
    for form in (f"match {{ $a: A  not ({test}) }}", f"match {{ $a: A  not {{ {test} }} }}"):
        text = f"query q({declared}) {{ {form} return {{ $a }} order {{ $a.k }} }}"
        kept = [row[0] for row in world.rows(text, {"n": None}) if row[0].startswith("c")]
        # What is not true is kept by the block, what is unknown is not kept by the negation.
        assert kept == (["c0", "c1"] if "not {" in form else ["c0"])
    text = f"query q({declared}) {{ match {{ $a: A }} return {{ $a, ({test}) as t }} }}"
    assert [row for row in world.rows(text, {"n": None}) if row[0] == "c0"] == [("c0", False)]
