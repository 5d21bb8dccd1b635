"""The layout of schema text: one form, every comment kept."""

import pytest

from omnigraphdb.language.schema.format import format_schema
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.source import Source
from tests.support.schemas import fixture


def format_text(text: str) -> str:
    return format_schema(parse_schema_text(Source(text)))


@pytest.mark.parametrize("name", ["messy", "fleet", "museum"])
def test_a_schema_is_laid_out_as_its_fixture_shows(name: str) -> None:
    assert format_text(fixture(f"{name}.pg")) == fixture(f"{name}.formatted.pg")


@pytest.mark.parametrize("name", ["messy", "fleet", "museum"])
def test_the_layout_of_a_layout_is_itself(name: str) -> None:
    assert format_text(fixture(f"{name}.formatted.pg")) == fixture(f"{name}.formatted.pg")


def test_an_empty_schema_is_an_empty_text() -> None:
    assert format_text("  \n") == ""


def test_a_schema_of_comments_keeps_them() -> None:
    assert format_text("// one\n\n\n\n/* two */") == "// one\n\n/* two */\n"


def test_a_comment_behind_a_member_stays_on_its_line() -> None:
    text = "node P { a: I32 // first\n b: I32 /* second */ // third\n }"
    assert format_text(text) == "node P {\n  a: I32 // first\n  b: I32 /* second */ // third\n}\n"


def test_a_comment_inside_a_member_moves_before_it() -> None:
    assert format_text("node P { a /* why */ : I32 }") == "node P {\n  /* why */\n  a: I32\n}\n"


def test_two_line_comments_of_a_head_get_two_lines() -> None:
    text = "node // one\nP // two\n{ a: I32 }"
    assert format_text(text) == "node P { // one\n  // two\n  a: I32\n}\n"


def test_a_comment_over_lines_is_not_reindented() -> None:
    text = "node P {\n/* a\nb */\na: I32 }"
    assert format_text(text) == "node P {\n  /* a\nb */\n  a: I32\n}\n"


def test_blank_lines_between_members_shrink_to_one() -> None:
    text = "node P {\n\n\n a: I32\n\n\n\n b: I32\n // c\n\n}"
    assert format_text(text) == "node P {\n  a: I32\n\n  b: I32\n  // c\n}\n"


def test_edges_without_a_body_stay_together() -> None:
    text = "edge A: X -> X\nedge B: X -> X\n\n\nedge C: X -> X node X {}"
    assert format_text(text) == "edge A: X -> X\nedge B: X -> X\n\nedge C: X -> X\n\nnode X {}\n"


def test_texts_are_written_with_the_escapes_of_the_language() -> None:
    text = 'node P @d("a\nb\\t\\"\\\\é") {}'
    assert format_text(text) == 'node P @d("a\\nb\\t\\"\\\\é") {}\n'


def test_what_is_wrong_in_meaning_is_laid_out_all_the_same() -> None:
    text = 'node P@rename_from("a","b"){k:String@key("x")}'
    assert format_text(text) == 'node P @rename_from("a", "b") {\n  k: String\n  @key("x")\n}\n'
