"""How every rule of the schema language refuses: code, facts, order, and what may stand where."""

from typing import Any

import pytest

from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from tests.support.schemas import codes, compiled, refused

A = "node A { k: String @key } "

EVERY_CODE = [
    ("S001", "node Vase { a: I32, b: I32 }", [","]),
    ("S002", r'node Vase @description("a\qb") {}', [r"\q"]),
    ("S003", "node Vase { _rowid: I32 }", ["_rowid", "_rowaddr"]),
    ("S003", "node Vase { id: String }", ["id", "Vase"]),
    ("S003", "interface Named { id: String }", ["id", "Named"]),
    ("S003", A + "edge E: A -> A { src: String }", ["src", "dst", "from", "to"]),
    ("S003", A + "edge E: A -> A { from: String }", ["from"]),
    ("S010", "node Vase { v: Vector(0) }", ["Vase.v", "0", "2147483647"]),
    ("S010", "node Vase { v: Vector(2147483648) }", ["2147483648"]),
    ("S012", "node Vase { v: [Blob] }", ["Vase.v"]),
    ("S013", "node Vase { v: enum(a, b, a) }", ["Vase.v", "'a'"]),
    ("S020", "node Vase {}\nnode Vase {}", ["Vase", "line 1, column 6"]),
    ("S020", "interface Vase {} interface Vase {}", ["interface 'Vase'"]),
    ("S020", A + "edge E: A -> A edge E: A -> A", ["edge 'E'"]),
    ("S021", "node Vase { a: I32\n a: I64 }", ["Vase", "'a'", "line 1, column 13"]),
    ("S021", "interface Named { a: I32 a: I32 }", ["Named", "'a'"]),
    ("S022", A + "edge Holds: A -> Shelf", ["Holds", "Shelf"]),
    ("S022", A + "edge Holds: Aa -> A", ["Holds", "Aa", "did you mean 'A'"]),
    ("S022", A + "interface I {} edge Holds: A -> I", ["Holds", "'I'", "not a node type"]),
    ("S022", A + "edge E: A -> A edge Holds: A -> E", ["Holds", "'E'", "not a node type"]),
    ("S023", A + "edge HoldsAll: A -> A edge Holdsall: A -> A", ["HoldsAll", "Holdsall"]),
    ("S024", A + "edge E: A -> A @card(3..2)", ["3", "2", "'E'"]),
    ("S024", A + "edge E: A -> A @card(4294967296..)", ["4294967296", "'E'"]),
    ("S030", "interface Named {} node A implements Name {}", ["'A'", "'Name'", "did you mean 'Named'"]),
    ("S031", "interface N { n: String } node A implements N { n: I32 }", ["A.n", "'N'", "String", "I32"]),
    ("S031", "interface N { n: String } node A implements N { n: String? }", ["A.n", "String?"]),
    ("S031", "interface N { n: enum(a) } node A implements N { n: enum(a, b) }", ["enum(a, b)"]),
    ("S032", "interface P { n: String } interface Q { n: I32 } node A implements P, Q {}", ["'A'", "'n'", "'P'", "'Q'"]),
    ("S032", "interface P { n: String } interface Q { n: String @index } node A implements P, Q {}", ["annotations"]),
    ("S040", "node A @key { k: String }", ["@key", "node 'A'"]),
    ("S041", 'node A @description("  ") {}', ["@description", "'A'"]),
    ("S041", "node A @instruction {}", ["@instruction", "'A'"]),
    ("S041", "node A { k: String @description }", ["@description", "A.k"]),
    ("S042", 'node A @description("x") @description("y") {}', ["@description", "'A'"]),
    ("S042", "node A { k: String @key @key }", ["@key", "A.k"]),
    ("S042", 'node A { t: String v: Vector(2)? @embed(t) @embed(t) }', ["@embed", "A.v"]),
    ("S042", 'node A @x(1, k="a", k="b") {}', ["'k'", "@x"]),
    ("S044", 'node A { t: String v: Vector(2)? @embed("t", dim="2") }', ["dim", "A.v"]),
    ("S045", "node A @rename_from {}", ["'A'"]),
    ("S045", 'node A @rename_from("") {}', ["'A'"]),
    ("S045", 'node A @rename_from("x", "y") {}', ["'A'"]),
    ("S045", 'node A { k: I32 @rename_from("x", k="y") }', ["A.k"]),
    ("S045", 'node A @rename_from("x") @rename_from("y") {}', ["'A'"]),
    ("S045", "node A @rename_from(3) {}", ["'A'"]),
    ("S050", "node A { code: String @key(cod) }", ["@key", "A.cod", "did you mean 'code'"]),
    ("S050", "node A { n: I32 @range(m, 0..1) }", ["@range", "A.m"]),
    ("S050", 'node A { n: String @check(m, "x") }', ["@check", "A.m"]),
    ("S050", "node A { k: I32 @unique(src) }", ["@unique", "A.src"]),
    ("S050", A + "edge E: A -> A { w: I32 @index(id) }", ["@index", "E.id"]),
    ("S051", "node A { k: [String] @key }", ["@key", "A.k", "[String]"]),
    ("S051", "node A { k: Vector(2) @key }", ["A.k", "Vector(2)"]),
    ("S051", "node A { k: Blob @key(k) }", ["@key", "A.k", "Blob"]),
    ("S051", "node A { b: Blob? @unique }", ["@unique", "A.b", "Blob?"]),
    ("S051", "node A { b: Blob? @unique(b) }", ["@unique", "A.b"]),
    ("S051", "node A { t: [String] @unique }", ["A.t"]),
    ("S051", "node A { t: [String] @unique(t) }", ["A.t"]),
    ("S051", "node A { v: Vector(2) @unique(v) }", ["A.v"]),
    ("S051", "node A { b: Blob @index }", ["@index", "A.b"]),
    ("S051", "node A { b: Blob @index(b) }", ["@index", "A.b"]),
    ("S051", "node A { t: [I32] @index }", ["@index", "A.t"]),
    ("S052", "node A { k: String? @key }", ["@key", "A.k", "String?"]),
    ("S052", "node A { a: I32 b: I32? @key(a, b) }", ["A.b"]),
    ("S052", "interface I { k: String? @key }", ["I.k"]),
    ("S053", "node A { k: String @key q: String @key }", ["'A'", "@key(k)", "@key(q)"]),
    ("S053", "node A { k: String @key q: String @key(k, q) }", ["'A'"]),
    ("S053", "interface I { k: String @key } node A implements I { q: String @key }", ["'A'"]),
    ("S053", "interface I { k: String @key q: String @key }", ["'I'"]),
    ("S054", A + "edge E: A -> A { w: I32? @range(w, 0..1) }", ["@range", "'E'"]),
    ("S054", A + 'edge E: A -> A { w: String? @check(w, "x") }', ["@check", "'E'"]),
    ("S054", A + "edge E: A -> A { w: I32 @key(w) }", ["@key", "'E'"]),
    ("S055", "node A { k: String @range(k, 0..1) }", ["A.k", "String"]),
    ("S055", "node A { k: [I32] @range(k, 0..1) }", ["A.k", "[I32]"]),
    ("S055", "node A { k: Date @range(k, 0..1) }", ["A.k", "Date"]),
    ("S056", 'node A { n: I32 @check(n, "x") }', ["A.n", "I32"]),
    ("S056", 'node A { n: [String] @check(n, "x") }', ["A.n", "[String]"]),
    ("S057", 'node A { k: String @key("x") }', ["@key", "'A'", '"x"']),
    ("S057", "node A { k: String @index(1) }", ["@index", "1"]),
    ("S057", "node A { n: I64 @range(n, 0..99999999999999999999) }", ["A.n", "99999999999999999999"]),
    ("S057", f"node A {{ n: F64 @range(n, {'9' * 350}.0..) }}", ["A.n"]),
    ("S057", 'node A @description("x", lang="en") {}', ["@description"]),
    ("S058", 'node A { k: String @check(k, "([a-z") }', ["A.k"]),
    ("S058", 'node A { k: String @check(k, "(?=x)") }', ["A.k"]),
    ("S058", r'node A { k: String @check(k, "(a)\\1") }', ["A.k"]),
    ("S059", "node A { n: I32 @range(n, 5..1) }", ["A.n", "5", "1"]),
    ("S059", "node A { n: F64 @range(n, 0.5..-0.5) }", ["A.n", "0.5", "-0.5"]),
    ("S060", 'node A { t: String v: String @embed("t") }', ["A.v", "String"]),
    ("S061", 'node A { blurb: String v: Vector(2)? @embed("blurp") }', ["A.v", "blurp", "did you mean 'blurb'"]),
    ("S061", "node A { v: Vector(2)? @embed }", ["A.v"]),
    ("S061", 'node A { v: Vector(2)? @embed(" ") }', ["A.v"]),
    ("S062", 'node A { n: I32 v: Vector(2)? @embed("n") }', ["A.v", "A.n", "I32"]),
    ("S062", 'node A { n: enum(a) v: Vector(2)? @embed("n") }', ["A.n"]),
    ("S062", 'node A { n: [String] v: Vector(2)? @embed("n") }', ["A.n", "[String]"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "facts"), EVERY_CODE)
def test_a_broken_rule_is_refused_alone_with_its_code_and_facts(
    code: str, text: str, facts: list[str]
) -> None:
    found = refused(text)
    assert [f["code"] for f in found] == [code]
    missing = [fact for fact in facts if fact not in found[0]["message"]]
    assert not missing, found[0]["message"]


def test_every_code_of_the_language_is_among_them() -> None:
    known = (
        "S001 S002 S003 S010 S012 S013 S020 S021 S022 S023 S024 S030 S031 S032 S040 S041 S042 S044 "
        "S045 S050 S051 S052 S053 S054 S055 S056 S057 S058 S059 S060 S061 S062"
    )
    assert {code for code, _, _ in EVERY_CODE} == set(known.split())


def test_a_finding_has_its_place_its_owner_and_a_way_out() -> None:
    (found,) = refused("node Port {\n  code: String? @key\n}")
    assert found["position"]["line"] == 2
    assert found["position"]["column"] == 17
    assert (found["type_name"], found["property"]) == ("Port", "code")
    assert found["fix"] == "write code: String"
    assert found["stage"] == "typecheck"


def test_several_errors_are_told_in_the_order_of_the_checks() -> None:
    text = (
        "edge E: Lost -> B\n"  # the catalog as a whole
        "node B { n: String @range(n, 0..1) }\n"  # constraints
        "node C @key {}\n"  # annotations
        "node D implements Lost {}\n"  # interfaces
        "node F { id: I32 }\n"  # one declaration
    )
    assert codes(text) == ["S003", "S030", "S040", "S055", "S022"]


def test_errors_of_one_check_are_told_in_text_order() -> None:
    text = "node B { a: I32? @key }\nnode A { a: Blob @key }\nnode C { a: I32? @key }"
    assert [f["type_name"] for f in refused(text)] == ["B", "A", "C"]


def test_a_wrong_type_does_not_cause_errors_about_what_uses_it() -> None:
    text = 'node A { v: Vector(0) @embed("e") @index  e: enum(a, a) @key  l: [Blob] @unique(l) }'
    assert codes(text) == ["S010", "S013", "S012"]


def test_a_schema_of_errors_reports_a_bounded_number() -> None:
    text = "\n".join(f"node N{i} {{ a: I32? @key }} edge E{i}: Nx{i} -> N{i}" for i in range(100))
    assert len(codes(text)) == PROBLEMS_SHOWN_MAX


# ---- what may stand where

PLACES = {
    "start of a body": "node P {{ {mark} p: {type} {rest} }}",
    "node property": "node P {{ p: {type} {mark} {rest} }}",
    "interface property": "interface P {{ p: {type} {mark} {rest} }}",
    "edge property": "edge P: A -> A {{ p: {type} {mark} {rest} }}",
    "node body": "node P {{ p: {type} {rest} {mark} }}",
    "edge body": "edge P: A -> A {{ p: {type} {rest} {mark} }}",
    "node head": "node P {mark} {{ p: {type} {rest} }}",
    "edge head": "edge P: A -> A {mark} {{ p: {type} {rest} }}",
}

MATRIX: list[tuple[str, str, list[str], str | dict[str, str]]] = [
    ("@key", "String", ["node property", "interface property"], "S040"),
    ("@key(p)", "String", ["node body"], {"edge body": "S054", "interface property": "S001"}),
    ("@unique", "String", ["node property", "interface property", "edge property"], "S040"),
    ("@unique(p)", "String", ["node body", "edge body"], {"interface property": "S001"}),
    ("@unique(src, dst, p)", "String", ["edge body"], {"node body": "S050"}),
    ("@index", "String", ["node property", "interface property", "edge property"], "S040"),
    ("@index(p)", "String", ["node body", "edge body"], {"interface property": "S001"}),
    ("@index(src)", "String", ["edge body"], {"node body": "S050"}),
    ("@range(p, 0..1)", "I32", ["node body"], {"edge body": "S054", "node head": "S001"}),
    ('@check(p, "x")', "String", ["node body"], {"edge body": "S054", "node head": "S001"}),
    ("@range", "I32", [], {"node property": "S040", "edge property": "S040", "node head": "S040"}),
    ("@check", "String", [], {"node property": "S040", "interface property": "S040"}),
    ("@card(0..1)", "I32", ["edge head"], {"node head": "S001", "node property": "S001", "edge body": "S001"}),
    ('@embed("t")', "Vector(2)", ["node property", "interface property"], {"edge property": "S040", "node head": "S040", "edge head": "S040"}),
    ('@rename_from("q")', "I32", ["node property", "interface property", "edge property", "node head", "edge head"], {"start of a body": "S001"}),
    ('@description("q")', "I32", ["node property", "interface property", "edge property", "node head", "edge head"], {"start of a body": "S001"}),
    ('@instruction("q")', "I32", ["node head", "edge head"], "S040"),
    ('@owner("q")', "I32", ["node property", "interface property", "edge property", "node head", "edge head"], {"start of a body": "S001"}),
]  # fmt: skip

_HEADS = ("node head", "edge head")
_PROPERTIES = ("node property", "interface property", "edge property")


def _cells() -> list[Any]:
    cells = []
    for mark, type_, allowed, denied in MATRIX:
        if isinstance(denied, str):
            others = [place for place in (*_HEADS, *_PROPERTIES) if place not in allowed]
            denied = dict.fromkeys(others, denied)
        cells += [
            pytest.param(mark, type_, place, None, id=f"{mark} on {place}") for place in allowed
        ]
        cells += [
            pytest.param(mark, type_, place, code, id=f"{mark} not on {place}")
            for place, code in denied.items()
        ]
    return cells


@pytest.mark.parametrize(("mark", "type_", "place", "code"), _cells())
def test_a_mark_stands_where_the_language_lets_it(
    mark: str, type_: str, place: str, code: str | None
) -> None:
    rest = "t: String" if "embed" in mark else ""
    text = A + PLACES[place].format(type=type_, mark=mark, rest=rest)
    if code is None:
        compiled(text)
    else:
        assert codes(text)[0] == code
