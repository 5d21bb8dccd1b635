"""Schema text that parses: what the tree holds, and which words are free."""

import pytest

from omnigraphdb.errors import ResourceLimit
from omnigraphdb.language.schema.parse import decode_schema, parse_schema_text
from omnigraphdb.language.schema.tree import (
    Card,
    Constraint,
    EdgeDecl,
    InterfaceDecl,
    Name,
    NodeDecl,
    Property,
    SchemaTree,
)
from omnigraphdb.language.source import Source
from omnigraphdb.limits import SOURCE_BYTES_MAX
from tests.support.schemas import refusal, without_places


def parse(text: str) -> SchemaTree:
    return parse_schema_text(Source(text, "fleet.pg"))


def node(text: str) -> NodeDecl:
    (found,) = parse(text).declarations
    assert isinstance(found, NodeDecl)
    return found


def only_property(text: str) -> Property:
    (found,) = node(f"node Port {{ {text} }}").members
    assert isinstance(found, Property)
    return found


def test_a_node_keeps_its_parts_in_text_order() -> None:
    found = node('node Port @owner("ops") implements Named, Coded { lat: F64? @range(lat, ..90) }')
    assert found.name.text == "Port"
    assert [a.name for a in found.annotations] == ["owner"]
    assert [name.text for name in found.implements] == ["Named", "Coded"]
    lat, bounds = found.members
    assert isinstance(lat, Property)
    assert (lat.type.scalar, lat.type.nullable) == ("F64", True)
    assert isinstance(bounds, Constraint)
    assert bounds.low is None
    assert bounds.high is not None
    assert bounds.high.text == "90"


def test_an_edge_keeps_its_ends_card_and_body() -> None:
    bare, full = parse(
        "edge Feeds: Port -> Port edge OwnedBy: Vessel -> Company @card(1..1) {}"
    ).declarations
    assert isinstance(bare, EdgeDecl)
    assert isinstance(full, EdgeDecl)
    assert (bare.source.text, bare.target.text, bare.card, bare.has_body) == (
        "Port",
        "Port",
        None,
        False,
    )
    assert full.card is not None
    assert (full.card.low, full.card.high, full.has_body) == (1, 1, True)


def test_an_open_card_has_no_high() -> None:
    (found,) = without_places(parse("edge Feeds: Port -> Port @card(2..)")).declarations
    assert isinstance(found, EdgeDecl)
    assert found.card == Card(low=2, high=None)


def test_an_interface_has_properties() -> None:
    (found,) = parse("interface Named { name: String @index alias: [String]? }").declarations
    assert isinstance(found, InterfaceDecl)
    assert [p.name.text for p in found.properties] == ["name", "alias"]
    assert found.properties[1].type.is_list


@pytest.mark.parametrize(
    "text", ["", "  \r\n\t", "// nothing yet", "/* nothing */", "/* a */ // b\n/**/", "/***/"]
)
def test_a_text_without_declarations_is_a_schema(text: str) -> None:
    assert parse(text).declarations == ()


def test_a_mark_with_a_parenthesis_is_a_constraint_even_behind_a_property() -> None:
    email, unique = node("node P { email: String @unique(email) }").members
    assert isinstance(email, Property)
    assert email.annotations == ()
    assert isinstance(unique, Constraint)
    assert unique.kind == "unique"


def test_a_mark_without_a_parenthesis_is_an_annotation() -> None:
    email, name = node("node P { email: String @unique name: String }").members
    assert isinstance(email, Property)
    assert [a.name for a in email.annotations] == ["unique"]
    assert isinstance(name, Property)


@pytest.mark.parametrize(
    "mark", ["@key (a)", "@ key(a)", "@key /* why */ (a)", "@key // why\n (a)", "@\n key\n(\na\n)"]
)
def test_space_and_comments_inside_a_constraint_do_not_change_it(mark: str) -> None:
    members = node(f"node P {{ a: I32 {mark} }}").members
    assert isinstance(members[1], Constraint)
    assert (members[1].kind, [c.text for c in members[1].columns]) == ("key", ["a"])


def test_keywords_and_scalars_are_free_as_names_of_properties_and_enum_values() -> None:
    found = node(
        "node String { node: I32 @x edge: I32 @y(1) implements: I32 enum: I32 true: Bool "
        "kind: enum(node, String, true, 3rd_party, ro-ro, -) }"
    )
    assert found.name.text == "String"
    assert [m.name.text for m in found.members if isinstance(m, Property)] == [
        "node", "edge", "implements", "enum", "true", "kind",
    ]  # fmt: skip


def test_a_declaration_may_follow_an_annotated_head_directly() -> None:
    text = 'edge A: X -> Y @x edge B: X -> Y @x("1", k=2) node X {}'
    assert [d.name.text for d in parse(text).declarations] == ["A", "B", "X"]


def test_arguments_keep_their_spelling() -> None:
    found = only_property('a: I32 @b(1.50, on=true, n=007, s="x\\ty") @c(word) @d("q")')
    first, second, third = found.annotations
    assert first.value is not None
    assert (first.value.text, first.value.form) == ("1.50", "float")
    assert [(k.text, v.text, v.form) for k, v in first.keywords] == [
        ("on", "true", "bool"),
        ("n", "007", "int"),
        ("s", "x\ty", "string"),
    ]
    assert second.value is not None
    assert (second.value.text, second.value.form) == ("word", "ident")
    assert third.value is not None
    assert (third.value.text, third.value.form) == ("q", "string")


def test_every_escape_is_read() -> None:
    found = only_property(r'a: I32 @d("\"\\\n\r\t")')
    assert found.annotations[0].value is not None
    assert found.annotations[0].value.text == '"\\\n\r\t'


def test_a_text_may_run_over_lines() -> None:
    found = only_property('a: I32 @d("one\ntwo")')
    assert found.annotations[0].value is not None
    assert found.annotations[0].value.text == "one\ntwo"


def test_whitespace_before_a_question_mark_is_allowed() -> None:
    assert only_property("berth: String ?").type.nullable


def test_names_are_case_sensitive_and_kept() -> None:
    assert only_property("grossTonnage: I32").name.text == "grossTonnage"


def test_spans_point_at_the_words() -> None:
    text = "node Port {\n  lat: F64? @index\n}"
    (found,) = parse(text).declarations
    assert text[found.span.start : found.span.end] == text
    assert isinstance(found, NodeDecl)
    (lat,) = found.members
    assert isinstance(lat, Property)
    assert text[lat.span.start : lat.span.end] == "lat: F64? @index"
    assert text[lat.type.span.start : lat.type.span.end] == "F64?"
    assert text[lat.name.span.start : lat.name.span.end] == "lat"


def test_a_number_too_long_for_any_bound_is_still_read() -> None:
    assert only_property(f"v: Vector({'9' * 5_000})").type.dimension == 10**18
    assert only_property(f"v: Vector({'0' * 5_000}8)").type.dimension == 8


def test_comments_are_kept_with_their_places() -> None:
    text = '// one\nnode P { /* two */ a: I32 @d("// no") } // three  \r\n'
    found = parse(text).comments
    assert [(c.text, c.own_line) for c in found] == [
        ("// one", True),
        ("/* two */", False),
        ("// three", False),
    ]
    assert [text[c.span.start : c.span.end] for c in found] == [c.text for c in found]


def test_a_text_past_the_bound_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ResourceLimit, match=r"fleet\.pg"):
        parse(" " * (SOURCE_BYTES_MAX + 1))


def test_bytes_are_read_as_utf_8_with_or_without_a_mark() -> None:
    text = 'node P { a: I32 @d("é") }'
    assert decode_schema(text.encode()).text == text
    assert decode_schema(text.encode("utf-8-sig"), "x.pg").text == text


def test_bytes_that_are_not_utf_8_are_refused_at_their_place() -> None:
    error = refusal(lambda: decode_schema(b"node P {}\n\xff node", "x.pg"))
    assert error.code == "S001"
    finding = error.details["diagnostic"]
    assert (finding["position"]["line"], finding["position"]["column"]) == (2, 1)
    assert "UTF-8" in finding["message"]
    assert finding["source_name"] == "x.pg"


def test_bytes_behind_a_mark_are_refused_at_their_place() -> None:
    error = refusal(lambda: decode_schema("\ufeff// é\n".encode() + b"\xff", "x.pg"))
    assert error.details["diagnostic"]["position"]["line"] == 2
    assert "byte 9 " in error.details["diagnostic"]["message"]


def test_half_a_surrogate_pair_is_refused_at_its_place() -> None:
    finding = refusal(lambda: parse("node P {} \ud800")).details["diagnostic"]
    assert (finding["code"], finding["span"]["start"]) == ("S001", 10)


def test_a_literal_in_a_group_is_kept_for_the_report() -> None:
    _, key = node('node P { k: String @key("x") }').members
    assert isinstance(key, Constraint)
    assert [Name(c.text) for c in key.columns] == [Name('"x"')]
