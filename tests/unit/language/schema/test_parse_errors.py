"""Schema text that does not parse: where it says so, what it expected, and how to mend it."""

from typing import Any

import pytest

from omnigraphdb.language.diagnostics import diagnostics_of
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.source import Source
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from tests.support.schemas import refusal


def findings(text: str) -> list[dict[str, Any]]:
    return diagnostics_of(refusal(lambda: parse_schema_text(Source(text, "fleet.pg"))))


def first(text: str) -> dict[str, Any]:
    return findings(text)[0]


def pointed_at(text: str) -> str:
    span = first(text)["span"]
    return text[span["start"] : span["end"]]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("node Port { a: I32, b: I64 }", ","),
        ("node Port { a: I32; b: I64 }", ";"),
        ("# hull data", "#"),
        ("/* a /* b */ */", "*/"),
        ("/* never closed", "/*"),
        ("node vessel {}", "vessel"),
        ("node Port { GrossTonnage: I32 }", "GrossTonnage"),
        ('node Port { k: enum("roro") }', '"roro"'),
        ("node Port { v: Vector(-3) }", "-3"),
        ("node Port { a: I32 @x(1e3) }", "1e3"),
        ("node Port { a: I32 @note(-1) }", "-1"),
        ("nodeVessel {}", "nodeVessel"),
        ("enum Kind { a b }", "enum"),
        ('import "x.pg"', "import"),
        ("interface Named @x {}", "@"),
        ("interface Named { name: String @key(name) }", "@"),
        ("node P implements Named @x {}", "@"),
        ("node P { a: [I32?] }", "?"),
        ("node P { a: [[I32]] }", "["),
        ("node P { a: [Vector(2)] }", "Vector"),
        ("node P { a: [enum(a)] }", "enum"),
        ("node P { a: Text }", "Text"),
        ("node P { a I32 }", "I32"),
        ('edge E: A -> B @description("x") @card(0..1)', "card"),
        ("edge E: A -> B @card(0..1) @card(0..1)", "card"),
        ("node P { a: I32 @card }", "card"),
        ("edge E: A -> B @card(..5)", ".."),
        ("edge E: A -> B @card(-1..5)", "-1"),
        ("node P { a: I32 @range(a, ..) }", ")"),
        ("node P { a: I32 @range(a) }", ")"),
        ("node P { a: String @check(a) }", ")"),
        ("node P { a: String @check(a, x) }", "x"),
        ("node P { a: String @key() }", ")"),
        ('node P @x("unclosed {}\n', '"unclosed {}'),
        ('node P @x("a", "b") {}', '"b"'),
        ("node P @x(k=1) {}", "="),
        ("node P @x(k, j=word) {}", "word"),
        ("edge E: A - > B", "-"),
        ("node P {} }", "}"),
        ("node größe {}", "größe"),
        ("node P { größe: I32 }", "größe"),
        ("node P { a: I32\u00a0 b: I32 }", "\u00a0"),
    ],
)
def test_the_finding_points_at_the_offending_word(text: str, word: str) -> None:
    assert first(text)["code"] == "S001"
    assert pointed_at(text) == word


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("node Port { a: I32, b: I64 }", "remove the ','"),
        ("# hull data", "write // instead of #"),
        ("node vessel {}", "write Vessel"),
        ("node Port { GrossTonnage: I32 }", "write grossTonnage"),
        ("node Port { a: Text }", "write String"),
        ("node Port { a: Strng }", "write String"),
        ("nodeVessel {}", "write node Vessel"),
        ("node P { a: [I32?] }", "write [I32]?"),
        ('node Port { k: enum("roro") }', "write roro"),
        ("node P { a I32 }", "write a: I32"),
        ("node P { a: I32 @range(a) }", "write @range(property, low..high)"),
        ("node P { a: I32", "add '}'"),
        ("node P { a: I32\nnode Q { b: I32 }", "add '}' before 'node'"),
    ],
)
def test_an_obvious_mistake_comes_with_its_fix(text: str, fix: str) -> None:
    assert first(text)["fix"].startswith(fix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "a declaration (interface, node or edge) or the end of the text"),
        ("node", "a type name"),
        ("node P", "an annotation, 'implements' or '{'"),
        ("node P {", "a property, a constraint or '}'"),
        ("node P { a:", "a type"),
        ("node P { a: [", "a scalar type"),
        ("node P { a: I32 @", "the name of an annotation"),
        ("node P { a: I32 @x(", "a value or a name"),
        ("node P { a: enum(", "an enum value (letters, digits, '_' and '-')"),
        ("node P { a: Vector(", "a whole number"),
        ("edge E", "':'"),
        ("edge E: A", "'->'"),
        ("edge E: A -> B @card(", "a whole number"),
        ("node P { @check(a,", "a quoted text"),
    ],
)
def test_what_was_expected_is_said_in_words(text: str, expected: str) -> None:
    assert first(text)["expected"] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node Port {\n  a: I32\n\n// more to come\n", "inside node 'Port': the '{' of line 1"),
        ("edge Feeds: A -> B { w: [I32", "inside edge 'Feeds': the '[' of line 1"),
        ("interface Named {", "inside interface 'Named'"),
        ("edge Feeds: A", "the text ends after 'A'"),
        ("node", "the text ends after 'node'"),
    ],
)
def test_a_text_that_ends_too_early_says_what_is_open(text: str, says: str) -> None:
    assert says in first(text)["message"]


def test_the_end_of_the_text_is_after_its_last_word() -> None:
    found = first("node Port {\n  a: I32  // c\n\n\n")
    assert (found["position"]["line"], found["position"]["column"]) == (2, 9)


def test_positions_count_characters_and_bytes() -> None:
    found = first('node P @d("é😀") {\n  Ä: I32 }')
    assert found["position"] == {"line": 2, "column": 3, "byte": 24}
    assert found["source_name"] == "fleet.pg"


def test_an_unknown_escape_is_s002_and_named() -> None:
    found = first(r'node P @description("a\qb") {}')
    assert found["code"] == "S002"
    assert r"\q" in found["message"]
    assert pointed_at(r'node P @description("a\qb") {}') == r"\q"


def test_an_escape_inside_a_pattern_must_be_doubled() -> None:
    found = first(r'node P { a: String @check(a, "^\d+$") }')
    assert (found["code"], found["fix"]) == ("S002", r"write \\d for a backslash")


def test_independent_mistakes_are_reported_together_in_text_order() -> None:
    text = "\n".join(
        [
            "node one { a: I32 }",
            "node Two { a: Text b: I32 }",
            "node Three { Height: I32, c: I32 }",
            "edge Four: A - B",
            r'node Five @d("\q") {}',
            "nodeSix {}",
            "node Seven { a: I32",
            "node Eight { a: I32 }",
        ]
    )
    found = findings(text)
    assert [f["position"]["line"] for f in found] == [1, 2, 3, 4, 5, 6, 8]
    assert [f["code"] for f in found] == ["S001"] * 4 + ["S002"] + ["S001"] * 2


def test_mistakes_inside_one_body_are_reported_together() -> None:
    text = "node P {\n a: Text\n b: [Blob?]\n c: I32, \n @range(c)\n d: I32 @x(-1)\n e: I32\n}\nnode q {}"
    assert [f["position"]["line"] for f in findings(text)] == [2, 3, 4, 5, 6, 9]


def test_words_in_comments_and_texts_are_not_taken_for_declarations() -> None:
    text = (
        'node P { a: Text /* node Q { */ @d("node R {") // edge E: A\n b: I32 }\nnode S { c: I32 }'
    )
    assert len(findings(text)) == 1


def test_a_text_of_errors_reports_a_bounded_number() -> None:
    assert len(findings("node A { a: Text }\n" * 500)) == PROBLEMS_SHOWN_MAX


def test_a_finding_on_a_very_long_line_shows_a_part_of_it() -> None:
    text = "node P { " + "a: I32 " * 5_000 + "B: I32 }"
    error = refusal(lambda: parse_schema_text(Source(text)))
    assert len(str(error)) < 1_000
    line, caret = str(error).splitlines()[3:5]
    assert line[caret.index("^")] == "B"


def test_the_message_is_the_form_people_read() -> None:
    error = refusal(lambda: parse_schema_text(Source("node Port {\n  a: Text\n}", "fleet.pg")))
    assert str(error).splitlines() == [
        "error[S001]: 'Text' is not a type; did you mean 'String'?",
        "  --> fleet.pg:2:6",
        "   |",
        " 2 |   a: Text",
        "   |      ^^^^ types are String, Blob, Bool, I32, I64, U32, U64, F32, F64, Date, DateTime, "
        "enum(…), Vector(n) and lists such as [String]",
        "   = expected: a type",
        "   = fix: write String",
    ]
    assert error.kind == "schema_error"
