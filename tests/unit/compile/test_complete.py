"""What completion offers at each position of a query text."""

import pytest

from omnigraphdb.api.texts import parse_schema
from omnigraphdb.compile.complete import CompletionKind, complete, is_bare

CATALOG = parse_schema(
    """
node Person { name: String @key  age: I32?  mood: enum(glad, sad)? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
)


def offered(text: str) -> list[str]:
    """What is offered where `|` stands, or at the end."""
    before, _, behind = text.partition("|")
    return [one.text for one in complete(before + behind, len(before), CATALOG)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["match", "insert", "upsert", "update", "delete", "unnest"]),
        ("ma", ["match"]),
        ("match { $p: ", ["City", "Person"]),
        ("match { $p: per", ["Person"]),
        ("match { $p: Person { ", ["age: ", "mood: ", "name: "]),
        ("match { $p: Person { age: 3, ", ["mood: ", "name: "]),
        ("match { $p: Person  $p li", ["livesIn"]),
        ("match { $c: City  $c l", ["livesIn", "lower(", "length(", "last("]),
        ("match { $p: Person  $p livesIn $c  $c.", ["name", "id"]),
        ("match { $p livesIn $c  $p.m", ["mood"]),
        ("match { $p: Person  $p $k: knows $q  $k.s", ["since", "src"]),
        ("match { $p: Person } return { $p.na", ["name"]),
        ("match { $p: Person } return { $p.name } or", ["order"]),
        ("match { $p: Person } return { count($p) as total } having { tot", ["total"]),
        (
            "match { $p: Person } with { $p, $p.age as years } match { $p.age > yea",
            ["years", "year("],
        ),
        ("match { $p: Person } return { $p.name } order { $p.age d", ["desc"]),
        ("insert ", ["City", "Person", "Knows", "LivesIn"]),
        ("insert Knows { ", ["since: ", "from: ", "to: "]),
        ("update Person set { age: 3 } where ag", ["age"]),
        ("update Person set { age: 3 } where age > 3 and mo", ["mood", "month("]),
        ("update Person set { age: $.", ["age", "mood", "name"]),
        ("upsert Person { ", ["age: ", "mood: ", "name: "]),
        ('insert Person { name: "a" } re', ["returning"]),
        ('insert Person { name: "a" } if a', ["absent"]),
        ("match { $p: Person } upd", ["update"]),
        ("query a($x: I", ["I32", "I64"]),
        ("query a($n: String) { match { $p: Person { name: $", ["$n", "$p"]),
        ("query broken( { }\nquery b() { match { $p: C", ["City"]),
    ],
)
def test_words_that_fit_are_offered(text: str, expected: list[str]) -> None:
    assert offered(text) == expected


def test_the_values_of_an_enum_come_before_other_expressions() -> None:
    found = offered("insert Person { mood: ")
    assert found[:2] == ['"glad"', '"sad"']
    assert {"null", "now(", "case", "lower("} <= set(found)
    assert "age: " not in found


@pytest.mark.parametrize(
    "text",
    ['match { $p: Person { name: "a', "match { // pe", "match { /* pe", "match { $p: Person ) "],
)
def test_nothing_is_offered_inside_literals_and_behind_errors(text: str) -> None:
    assert offered(text) == []


def test_a_word_in_the_middle_is_completed() -> None:
    assert offered("match { $p: Per| } return { $p.name }") == ["Person"]


def test_a_completion_says_what_it_is_and_what_it_replaces() -> None:
    text = "match { $p: Person  $p kn"
    (found,) = complete(text, len(text), CATALOG)
    assert (found.kind, found.start, found.detail) == (
        CompletionKind.EDGE,
        len(text) - 2,
        "Person -> Person",
    )


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("match { }", True),
        ("  insert Person { }", True),
        ("query q() { }", False),
        ("use extensions", False),
        ("// all\nmatch { }", True),
        ('insert Person { name: "a query b" }', True),
    ],
)
def test_a_body_without_its_head_is_recognised(text: str, bare: bool) -> None:
    assert is_bare(text) is bare


@pytest.mark.parametrize("begun", ["{1,8 by ", "{1,8 where ", "{1,8 by since where not "])
def test_a_walk_offers_the_properties_of_its_edges(begun: str) -> None:
    walk = "match { $a: Person  $a $w:knows"
    assert "since" in offered(walk + begun)
    assert {"by", "best", "all", "where"} <= set(offered(walk + "{1,8 "))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("match { $p: Person  $p <kn", ["knows"]),
        ("match { $p: Person  $p <li", []),
        ("match { $p: Person  $p $w:<", ["knows"]),
        ("match { $p: Person  $p $e:l", ["livesIn"]),
        ("match { $p: Person  $p knows|", []),
        ("match { $p: Person  $p.age <kn", []),
    ],
)
def test_edges_that_fit_the_walk_are_offered(text: str, expected: list[str]) -> None:
    assert offered(text) == expected


def test_a_sign_behind_a_variable_opens_a_walk_or_compares() -> None:
    assert {"knows", "$p", "lower("} <= set(offered("match { $p: Person  $p <"))
    assert "knows" not in offered("match { $p: Person } return { $p <")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('insert Person { name: "a" }', ["age", "mood", "name", "id"]),
        ('insert Person { name: "a" } if absent', ["age", "mood", "name", "id", "created"]),
        ('upsert Person { name: "a" } set { age: 3 }', ["age", "mood", "name", "id", "created"]),
        ('update Person set { age: 3 } where name = "a"', ["age", "mood", "name", "id"]),
        ("match { $p: Person } delete $p", ["age", "mood", "name", "id"]),
        ('delete Knows where from = "a"', ["since", "from", "to", "id"]),
        ("match { $p $e:knows $q } update $e set { since: 1 }", ["since", "from", "to", "id"]),
    ],
)
@pytest.mark.parametrize("begun", ["", "id, ", "concat("])
def test_what_a_statement_may_return_is_offered(text: str, expected: list[str], begun: str) -> None:
    found = complete(whole := f"{text} returning {{ {begun}", len(whole), CATALOG)
    assert [one.text for one in found if one.kind == CompletionKind.PROPERTY] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("insert Person { name: $r.", [("name", "String"), ("years", "I32?")]),
        ("upsert Person { name: $r.name } set { age: $r.y", [("years", "I32?")]),
        ("insert Person { name: $other.", []),
    ],
)
def test_the_fields_of_an_unnested_record_are_offered(
    text: str, expected: list[tuple[str, str]]
) -> None:
    head = "query q($n: I64, $rows: [{ name: String, years: I32? }]) { unnest $rows as $r "
    found = complete(head + text, len(head + text), CATALOG)
    assert [(one.text, one.detail) for one in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("match { $p: Person } update $p set { ", ["age: ", "mood: ", "name: "]),
        ("match { $p: Person } update $p set { age: $.", ["age", "mood", "name"]),
        ("match { $p $e:knows $q } update $e set { ", ["since: "]),
        ("update Person set { age: 3 } where length(na", ["name"]),
        ('update Person set { age: 3 } where mood = "', []),
        ("match { $c: City  $c livesIn $p  $p.a", ["age"]),
        ("match { $a: Person  $a $w:knows{1,3 where since > 3 and since < 9} $b  $b.a", ["age"]),
        ("query q($n: I64) @", ["@description(", "@instruction(", "@mcp("]),
    ],
)
def test_names_follow_from_what_stands_before_them(text: str, expected: list[str]) -> None:
    assert offered(text) == expected


def test_the_values_of_an_enum_are_offered_in_the_condition_of_a_statement() -> None:
    assert offered("delete Person where mood = ")[:2] == ['"glad"', '"sad"']
