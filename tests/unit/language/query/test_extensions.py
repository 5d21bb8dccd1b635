"""Connectives, null tests, paging and optional blocks, and the header that once allowed them."""

from typing import Any

import pytest

from omnigraphdb.language.query.parse import parse_findings, parse_queries
from omnigraphdb.language.query.tree import (
    AllOf,
    AnyOf,
    Binding,
    Compare,
    Filter,
    InList,
    IsNull,
    LiteralExpr,
    Name,
    Not,
    Optional,
    PropertyExpr,
    Read,
    TextExpr,
    Traversal,
    VariableExpr,
)
from omnigraphdb.language.source import Source
from tests.support.queries import without_places

HEADER = "use extensions\n"


def query(match: str = "$v: T", rest: str = "return { $v }") -> str:
    return f"query q() {{ match {{ {match} }} {rest} }}"


def read(match: str = "$v: T", rest: str = "return { $v }") -> Read:
    file = without_places(parse_queries(Source(HEADER + query(match, rest))))
    assert file.extended
    body = file.queries[0].body
    assert isinstance(body, Read)
    return body


def clauses(text: str) -> list[Any]:
    return [one.condition if isinstance(one, Filter) else one for one in read(text).clauses]


def condition(text: str) -> Any:
    (found,) = clauses(text)
    return found


def equals(name: str, value: int) -> Compare:
    return Compare(
        left=PropertyExpr(variable="v", property=name),
        op="=",
        right=LiteralExpr(form="int", value=value),
    )


A, B, C = equals("a", 1), equals("b", 2), equals("c", 3)
X = PropertyExpr(variable="v", property="x")
NULL = LiteralExpr(form="null", value=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$v.a = 1 and $v.b = 2", AllOf(parts=(A, B))),
        ("$v.a = 1 and $v.b = 2 and $v.c = 3", AllOf(parts=(A, B, C))),
        ("$v.a = 1 or $v.b = 2 or $v.c = 3", AnyOf(parts=(A, B, C))),
        ("$v.a = 1 and $v.b = 2 or $v.c = 3", AnyOf(parts=(AllOf(parts=(A, B)), C))),
        ("$v.a = 1 or $v.b = 2 and $v.c = 3", AnyOf(parts=(A, AllOf(parts=(B, C))))),
        ("($v.a = 1 or $v.b = 2) and $v.c = 3", AllOf(parts=(AnyOf(parts=(A, B)), C))),
        ("$v.a = 1 and ($v.b = 2 and $v.c = 3)", AllOf(parts=(A, AllOf(parts=(B, C))))),
        ("not $v.a = 1 and $v.b = 2", AllOf(parts=(Not(part=A), B))),
        ("not ($v.a = 1 and $v.b = 2)", Not(part=AllOf(parts=(A, B)))),
        ("not not $v.a = 1", Not(part=Not(part=A))),
        ("(($v.a = 1))", A),
        ("$v.x is null", IsNull(operand=X, negated=False)),
        ("$v.x is not null", IsNull(operand=X, negated=True)),
        ("$p is null", IsNull(operand=VariableExpr(name="p"), negated=False)),
        ("$v.x is null and $v.a = 1", AllOf(parts=(IsNull(operand=X, negated=False), A))),
        ("$v.x in $list", InList(operand=X, choices=VariableExpr(name="list"))),
        ("$v.x = null", Compare(left=X, op="=", right=NULL)),
    ],
)
def test_conditions(text: str, expected: object) -> None:
    assert condition(text) == expected


def test_in_takes_a_list_of_literals() -> None:
    choices = LiteralExpr(
        form="list", value=tuple(LiteralExpr(form="int", value=n) for n in (1, -2))
    )
    assert condition("$v.x in [1, -2]") == InList(operand=X, choices=choices)
    assert condition("$p in [1, -2]") == InList(operand=VariableExpr(name="p"), choices=choices)


def test_a_text_function_can_be_joined_and_negated() -> None:
    found = TextExpr(function="search", field=X, query=LiteralExpr(form="string", value="y"))
    assert condition('not search($v.x, "y") or $v.a = 1') == AnyOf(parts=(Not(part=found), A))


def test_a_line_break_is_still_a_conjunction_of_clauses() -> None:
    assert clauses("$v.a = 1\n$v.b = 2 or $v.c = 3\n($v.a = 1)\nnot $v.b = 2") == [
        A,
        AnyOf(parts=(B, C)),
        A,
        Not(part=B),
    ]


def test_a_condition_goes_on_behind_a_line_break_when_the_word_says_so() -> None:
    assert condition("$v.a = 1\nor $v.b = 2") == AnyOf(parts=(A, B))


def test_parentheses_let_two_parameters_be_compared_as_text() -> None:
    p, q = VariableExpr(name="p"), VariableExpr(name="q")
    assert condition("($p contains $q)") == Compare(left=p, op="contains", right=q)
    assert condition("not $p contains $q") == Not(part=Compare(left=p, op="contains", right=q))
    assert condition("$p contains $q") == Traversal(
        left=Name("p"), edge=Name("contains"), right=Name("q")
    )


def test_an_operand_before_and_is_no_edge() -> None:
    right = VariableExpr(name="p")
    first = Compare(left=X, op="=", right=right)
    assert condition("$v.x = $p and $v.a = 1") == AllOf(parts=(first, A))
    assert clauses("$v.x = $p  $v and $w") == [
        first,
        Traversal(left=Name("v"), edge=Name("and"), right=Name("w")),
    ]


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("-5", "int", -5),
        ("-9223372036854775808", "int", -(2**63)),
        ("-0.5", "float", -0.5),
        ("1e3", "float", 1000.0),
        ("1.5E-3", "float", 0.0015),
        ("-2e+2", "float", -200.0),
        ("null", "null", None),
    ],
)
def test_literals(text: str, form: str, value: object) -> None:
    found = read(rest=f"return {{ {text} as n }}").items[0].expr
    assert found == LiteralExpr(form=form, value=value)  # type: ignore[arg-type]
    assert isinstance(found, LiteralExpr)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    "text", ["$v.x <-5", "$v.x >=-5", "$v.x =-5", "$v.x = [-1,-2]", "$v: T { x: -5 }"]
)
def test_a_sign_needs_no_space(text: str) -> None:
    assert read(text)


def test_a_null_may_be_assigned() -> None:
    file = without_places(
        parse_queries(Source(HEADER + "query m() { update T set { a: null } where b = -1 }"))
    )
    assert file.queries[0].body[0].assignments[0].value == NULL  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("text", "limit", "offset"),
    [
        ("limit $n", VariableExpr(name="n"), None),
        ("offset 3", None, LiteralExpr(form="int", value=3)),
        ("offset $o limit 5", LiteralExpr(form="int", value=5), VariableExpr(name="o")),
        ("limit 5 offset $o", LiteralExpr(form="int", value=5), VariableExpr(name="o")),
    ],
)
def test_paging(text: str, limit: object, offset: object) -> None:
    found = read(rest=f"return {{ $v }} {text}")
    assert (found.limit, found.offset) == (limit, offset)


def test_optional_blocks() -> None:
    assert condition("optional { $w: T not { $w e $_ } }") == Optional(
        clauses=read("$w: T not { $w e $_ }").clauses
    )
    assert isinstance(clauses("$v.x = $p optional { $w: T }")[1], Optional)
    assert clauses("$v optional{1,2} $w  $w: T") == [
        read("$v optional{1,2} $w").clauses[0],
        Binding(variable=Name("w"), type_name=Name("T")),
    ]


# ---- the header


@pytest.mark.parametrize("text", ["$v.a = 1 and not $v.b in [-1]", "optional { $w: T }"])
def test_the_header_changes_nothing(text: str) -> None:
    bare = without_places(parse_queries(Source(query(text))))
    assert not bare.extended
    assert bare.queries[0].body == read(text)


@pytest.mark.parametrize(
    "text",
    ["// c\nuse extensions\nquery q() { delete T where a = -1 }", "use /* c */ extensions query q() { delete T where a = -1 }"],
)  # fmt: skip
def test_comments_may_stand_before_and_inside_the_header(text: str) -> None:
    assert parse_queries(Source(text)).extended


def test_the_header_alone_is_a_file() -> None:
    assert parse_queries(Source("use extensions")).extended


def test_the_word_use_is_free_elsewhere() -> None:
    text = "query use($use: I32) { match { $use: T { use: $use } $a use $b } return { $use.use as use } order { use } }"
    assert not parse_queries(Source(text)).extended
    assert parse_queries(Source(HEADER + text)).extended


def test_the_header_is_remembered_after_an_error() -> None:
    text = "use extensions\nquery a() { match { } return { $v } }\n" + query("$v.a = -1")
    _, found = parse_findings(Source(text))
    assert [one.code for one in found] == ["Q021"]


@pytest.mark.parametrize("text", ["$v.a = -9223372036854775809", "$v.a = 1e999", "$v.a = -1e999"])
def test_numbers_out_of_range_are_refused(text: str) -> None:
    _, found = parse_findings(Source(HEADER + query(text)))
    assert [one.code for one in found] == ["Q015"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("not $a knows $b", "knows"),
        ("$v.a = 1 and $a knows $b", "knows"),
        ("$v.a is 3", "3"),
        ("$v.a = 1 and", "}"),
        ("$v.a = 1 or or $v.b = 2", "or"),
        ("($v.a = 1", "}"),
        ("$v feeds{-1,2} $w", "-"),
    ],
)
def test_extended_text_can_be_wrong_too(text: str, word: str) -> None:
    whole = HEADER + query(text)
    file, found = parse_findings(Source(whole))
    assert file is None
    assert whole[found[0].span.start : found[0].span.end] == word
