"""Values of every type in a result: whole entities as keys, truths by name, ids as texts, bounds of texts."""

from collections.abc import Iterator
from typing import Any

import pytest

from omnigraphdb.engine.read.operators import sort
from omnigraphdb.errors import QueryError
from tests.support.read_world import World

SCHEMA = """
interface Named { name: String? }
node P implements Named { k: String @key  i: I64?  b: Bool?  l: [I64]?  at: DateTime?  f: F32? }
node R implements Named { k: String @key }
edge E: P -> P { w: I64?  ok: Bool? }
"""
PEOPLE: list[dict[str, Any]] = [
    {"id": "a", "k": "a", "i": 1, "b": True, "l": [1, 2], "f": -0.0, "name": "x"},
    {"id": "b", "k": "b", "l": [], "f": 0.0},
    {"id": "c", "k": "c", "i": 3, "b": False},
]
EDGES: list[dict[str, Any]] = [
    {"id": "e1", "src": "a", "dst": "b", "w": 1, "ok": True},
    {"id": "e2", "src": "b", "dst": "a"},
    {"id": "e3", "src": "b", "dst": "c", "w": 1},
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World.of(SCHEMA)
    world.append("P", PEOPLE)
    world.append("R", [{"id": "a", "k": "a", "name": "x"}])
    world.append("E", EDGES)
    yield world
    world.close()


def ask(world: World, text: str, declared: str = "", **params: object) -> list[tuple[Any, ...]]:
    return world.rows(f"query q({declared}) {{ {text} }}", params)


# ---- whole entities


def test_a_whole_entity_is_a_group_key(world: World) -> None:
    found = ask(world, "match { $p: P  $p e $q } return { entity($p) as whole, count($q) as n }")
    assert [(row["k"], row["l"], n) for row, n in found] == [("a", (1, 2), 1), ("b", (), 2)]


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        ("return distinct { entity($a) as x }", 2),
        ("return distinct { edges($w) as x }", 4),
        ("return { count(distinct entity($b)) as n, count(distinct edges($w)) as m }", 1),
        ("return { edges($w) as x, entity($a) as y, count($b) as n } order { n desc }", 4),
        ("return { entity($a) as x } union match { $a: P } return { entity($a) as x }", 3),
        ("return { edges($w) as x } union all match { $a: P  $a $w:e{1,1} $b  $a $w2:e{1,2} $b } return { edges($w2) as x }", 7),
        ("with distinct { entity($a) as x } return { x, count(x) as n }", 2),
        ("with { entity($a) as x, $b } limit 1 per x return { x }", 2),
        ("return { entity($a) as x, count($b) as n } having { x is not null }", 2),
        ("return { first(edges($w)) as x, count($b) as n }", 3),
    ],
)  # fmt: skip
def test_values_of_many_parts_are_keys_wherever_there_are_keys(
    world: World, result: str, rows: int
) -> None:
    assert len(ask(world, f"match {{ $a: P  $a $w:e{{1,2}} $b }} {result}")) == rows


@pytest.mark.parametrize("whole", ["entity($p)", "$p.l"])
def test_a_union_that_is_ordered_breaks_ties_by_values_of_many_parts(
    world: World, whole: str
) -> None:
    parts = [
        f'match {{ $p: P {{ k: "{key}" }} }} return {{ {whole} as x, 1 as n }}' for key in "bca"
    ]
    found = [row[0] for row in ask(world, f"{' union all '.join(parts)} order {{ n }} limit 2")]
    if whole == "$p.l":
        assert found == [None, ()]
    else:
        assert [row["k"] for row in found] == ["a", "b"]


@pytest.mark.parametrize("whole", ["entity($a)", "edges($w)", "$a.l"])
@pytest.mark.parametrize("limit", [1, 2])
def test_the_first_of_groups_are_found_by_keys_of_many_parts(
    world: World, whole: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As among many groups: the first are selected before they are sorted.
    monkeypatch.setattr(sort, "_SELECT_PART", 0)
    left = f"match {{ $a: P  $a $w:e{{1,2}} $b }} return {{ {whole} as x, count($b) as n }}"
    every = ask(world, left)
    assert len(every) > 1
    assert ask(world, f"{left} limit {limit}") == every[:limit]
    backwards = ask(world, f"{left} order {{ n desc }} limit {limit}")
    assert backwards == sorted(every, key=lambda row: -row[1])[:limit]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("match { $a: P  $a e $b } return { collect(id($b)) as x }", ("b", "a", "c")),
        ("match { $a: P  $a $z:e $b } with { $a, $z } match { $b e $a } return { collect(id($b)) as x }", ("b", "a", "a")),
        ('match { $p: P { k: "a" } } return { collect($b.k) { $a <e> $p  $a e $b } as x }', ("a", "c")),
    ],
)  # fmt: skip
def test_a_list_has_the_order_of_the_ids_of_its_rows_whatever_else_is_returned(
    world: World, text: str, expected: tuple[str, ...]
) -> None:
    assert ask(world, text)[0][0] == expected
    more = text.replace("as x }", "as x, count($a) as n }") if "$p" not in text else text
    assert ask(world, more)[0][0] == expected


@pytest.mark.parametrize("distinct", ["", "distinct "])
def test_a_limit_for_each_entity_takes_equal_ids_of_two_types_for_two(
    world: World, distinct: str
) -> None:
    text = f"match {{ $x: Named }} with {distinct}{{ $x }} order {{ id($x) }} limit 1 per $x return {{ $x, type($x) as t }}"
    assert sorted(ask(world, text)) == [("a", "P"), ("a", "R"), ("b", "P"), ("c", "P")]


def test_structs_are_equal_where_their_fields_are_and_null_is_one_of_them(world: World) -> None:
    left = "match { $p: P  optional { $p e $q } }"
    found = ask(world, f"{left} return {{ entity($q) as x, count($p) as n }}")
    assert [(row and row["k"], n) for row, n in found] == [(None, 1), ("a", 1), ("b", 1), ("c", 1)]
    shared = ask(world, "match { $x: Named } return { entity($x) as e, count($x) as n }")
    # Equal values of two types are one value.
    assert [(row["id"], row["name"], n) for row, n in shared] == [
        ("a", "x", 2), ("b", None, 1), ("c", None, 1),
    ]  # fmt: skip


# ---- having


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("return { $p.i > 0 as c, count($p) as n } having { c }", [(True, 2)]),
        ("return { $p.i > 0 as c, count($p) as n } having { $p.i > 0 }", [(True, 2)]),
        ("return { $p.i > 2 as c, count($p) as n } having { not c }", [(False, 1)]),
        ("return { $p.i is null as c, count($p) as n } having { c or n > 1 }", [(False, 2), (True, 1)]),
        ("return { $p.i in [1] and $p.b as c, count($p) as n } having { c }", [(True, 1)]),
        ("return distinct { not { $p e $_ } as c } having { c }", [(True,)]),
        ("return { exists { $p e $_ } as c, count($p) as n } having { c and n = 2 }", [(True, 2)]),
        ("return { count { $p e $_ } as c, count($p) as n } having { c > 1 }", [(2, 1)]),
        ("return { $p.i > 0 as c, c as d, count($p) as n } having { d }", [(True, True, 2)]),
        ("return { count($p) > 2 as c } having { c }", [(True,)]),
        ("with { $p.i > 0 as c, count($p) as n } having { c } return { n }", [(2,)]),
        ("return distinct { 1 < 2 as c } having { c }", [(True,)]),
    ],
)  # fmt: skip
def test_having_takes_a_truth_by_its_name(
    world: World, result: str, expected: list[tuple[Any, ...]]
) -> None:
    assert ask(world, f"match {{ $p: P }} {result}") == expected


@pytest.mark.parametrize(
    "result",
    [
        "return { $p.k, count($p) as n } having { $p.i > 0 }",
        "return { $p, count($p) as n } having { n > 0 and $p.i > 0 }",
        "return distinct { $p.k } having { $p.i > 0 }",
        "return { $p.k, count($p) as n } having { count { $p e $_ } > 1 }",
        "return { $p.k } having { count($p) > 0 }",
        "with { $p.k as k, count($p) as n } having { $p.b } return { k }",
    ],
)
def test_having_refuses_what_the_rows_of_the_result_do_not_have(world: World, result: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(world, f"match {{ $p: P }} {result}")
    assert caught.value.code == "T36"


# ---- ids


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('concat(id($p), "!")', "a!"),
        ("upper(id($p))", "A"),
        ('coalesce(id($p), "none")', "a"),
        ('case when id($p) = "a" then id($p) else "other" end', "a"),
        ("length(id($p)) + 1", 2),
        ('id($p) in ["a", "b"]', True),
        ('id($p) starts_with "a"', True),
        ('"a" = id($p)', True),
    ],
)
def test_an_id_is_a_text(world: World, expression: str, expected: object) -> None:
    found = ask(world, f'match {{ $p: P {{ k: "a" }} }} return {{ {expression} as c }}')
    assert found == [(expected,)]


def test_ids_are_aggregated_compared_and_grouped_as_texts(world: World) -> None:
    every = "max(id($p)) as m, min(id($p)) as n, count(distinct id($p)) as c, collect(id($p)) as l"
    assert ask(world, f"match {{ $p: P }} return {{ {every} }}") == [("c", "a", 3, ("a", "b", "c"))]
    assert ask(world, "match { $p: P  $r: R  id($p) = id($r) } return { $p, $r }") == [("a", "a")]
    assert ask(world, "match { $p: P  $q: P  id($p) < id($q) } return { count($p) as n }") == [(3,)]
    shared = "match { $x: Named } return { id($x) as i, count($x) as n }"
    assert ask(world, shared) == [("a", 2), ("b", 1), ("c", 1)]
    assert ask(world, "match { $x: Named } return { count(distinct id($x)) as n }") == [(3,)]
    edges = 'match { $p: P  $p $e:e $q  lower(id($e)) = "e1" } return { upper(id($e)) as i }'
    assert ask(world, edges) == [("E1",)]
    lost = 'match { $p: P  optional { $p e $q } } return distinct { coalesce(id($q), "-") as q }'
    assert ask(world, lost) == [("-",), ("a",), ("b",), ("c",)]


# ---- bounds


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (2, LARGEST, "bc"),
        (LARGEST, LARGEST, ""),
        (-LARGEST, LARGEST, ""),
        (1, LARGEST, "abc"),
        (-1, 4, "ab"),
        (LARGEST, 1, ""),
        (2, -LARGEST, ""),
    ],
)
def test_a_part_of_a_text_takes_any_bounds(
    world: World, start: int, length: int, expected: str
) -> None:
    item = 'substring("abc", $s, $n) as c'
    text = f'match {{ $p: P {{ k: "a" }} }} return {{ {item} }}'
    assert ask(world, text, "$s: I64, $n: I64", s=start, n=length) == [(expected,)]


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("$n in $list", True),
        ("$list contains $n", True),
        ("$n in $list and $p.i = 1", True),
        ("not ($n in $list)", False),
        ("$whole starts_with $part", True),
        ("$n in [1]", True),
        ("$n is null", False),
        ("$n between $n and $n", True),
    ],
)
def test_parameters_on_both_sides_are_compared(world: World, test: str, kept: bool) -> None:
    declared = "$n: I64, $list: [I64], $whole: String, $part: String"
    text = f'match {{ $p: P {{ k: "a" }}  {test} }} return {{ $p }}'
    found = ask(world, text, declared, n=1, list=(1, 2), whole="abc", part="ab")
    assert found == ([("a",)] if kept else [])
