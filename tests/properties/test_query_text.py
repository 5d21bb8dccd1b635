"""Query text: any tree survives its layout, any damage is answered with findings inside the text."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import QueryError
from omnigraph.language.diagnostics import diagnostics_of
from omnigraph.language.query.codes import QueryCode
from omnigraph.language.query.format import format_queries, format_source
from omnigraph.language.query.parse import parse_findings, parse_queries
from omnigraph.language.query.tokens import COMMENT, scan
from omnigraph.language.query.tree import QueryFile
from omnigraph.language.source import Source
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from tests.support.queries import (
    any_files,
    conformance_texts,
    files,
    staged_files,
    without_places,
)

CONFORMING = tuple(text for _, text, parses in conformance_texts() if parses)
FRAGMENTS = (
    '"', "\\", "\\q", "$", "$P", "{", "}", "(", ")", "[", "]", "<", ">", "=", "==", "-5", "1e3", "1.",
    ",", ":", ".", "?", "@", "@note", "//", "/*", "*/", "\n", "\n\n", ";", "'x'", "é", "\ufeff", "\x00",
    "query ", "query q(", "use extensions\n", "match { ", "return {", "order ", "limit $n", "not ",
    " or ", " and ", " in [1]", " is null", "null", "NULL", "MATCH", "Treats", "nearest(", "count(",
    "where ", " -- $p ", "$e:--", "99999999999999999999", "\ud800", "mutation ", "SELECT ",
)  # fmt: skip


@settings(max_examples=120)
@given(any_files)
def test_a_tree_survives_its_layout(file: QueryFile) -> None:
    text = format_queries(file)
    assert without_places(parse_queries(Source(text))) == file
    assert format_source(Source(text)) == text


@settings(max_examples=40)
@given(staged_files())
def test_stages_unions_and_blocks_survive_their_layout(file: QueryFile) -> None:
    text = format_queries(file)
    assert without_places(parse_queries(Source(text))) == file
    assert format_source(Source(text)) == text


@given(files(extended=False))
def test_the_header_changes_nothing_in_a_text_that_needs_none(file: QueryFile) -> None:
    text = "use extensions\n" + format_queries(file)
    assert without_places(parse_queries(Source(text)).queries) == file.queries


@st.composite
def commented(draw: st.DrawFn) -> str:
    """A text with comments, blank lines and line ends thrown in between its tokens."""
    text = format_queries(draw(any_files))
    noise = st.sampled_from(
        ("", "", "", " ", " // one\n", "/* two */", "\n\n\n", "\n// three\n\n", "/* four\n\n  */ // five\n",
         "\r\n", "\t", "// \r\n", "\n/**/\n")
    )  # fmt: skip
    tokens = list(scan(text))
    # `$.` of the row of a statement is written in one.
    starts = [0, *(two.start_pos or 0 for one, two in pairwise(tokens) if one != "$")]
    pieces = [text[a:b] + draw(noise) for a, b in pairwise([*starts, len(text)])]
    return draw(noise) + "".join(pieces)


@settings(max_examples=80)
@given(commented())
def test_no_comment_is_lost_and_the_layout_is_stable(text: str) -> None:
    laid_out = format_source(Source(text))
    assert without_places(parse_queries(Source(laid_out))) == without_places(
        parse_queries(Source(text))
    )
    assert comments(laid_out) == comments(text)
    assert format_source(Source(laid_out)) == laid_out


def comments(text: str) -> Counter[str]:
    return Counter(token.rstrip() for token in scan(text) if token.type == COMMENT)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A text with pieces cut out, doubled, swapped or replaced by fragments."""
    text = draw(st.one_of(st.sampled_from(CONFORMING), any_files.map(format_queries)))
    for _ in range(draw(st.integers(1, 6))):
        start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        end = min(end, start + 12)
        piece = draw(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3), st.just("")))
        text = (
            text[:start]
            + draw(st.sampled_from((piece, piece, text[start:end] + piece)))
            + text[end:]
        )
    return text


@settings(max_examples=120)
@given(damaged())
def test_damage_is_answered_with_findings_inside_the_text(text: str) -> None:
    assert_answered(text)


@settings(max_examples=80)
@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    assert_answered(text)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_much_damage_is_answered_with_findings_inside_the_text(seed: int) -> None:
    # Plain randomness: Hypothesis would remember every one of so many texts.
    chance = random.Random(seed)
    for _ in range(1_000):
        text = chance.choice(CONFORMING)
        for _ in range(chance.randint(1, 8)):
            start = chance.randint(0, len(text))
            end = min(len(text), start + chance.choice((0, 0, 1, 3, 12)))
            kept = text[start:end] if chance.random() < 0.3 else ""
            text = text[:start] + kept + chance.choice(FRAGMENTS) + text[end:]
        assert_answered(text)


@pytest.mark.soak
@settings(max_examples=5_000)
@given(any_files)
def test_many_trees_survive_their_layout(file: QueryFile) -> None:
    text = format_queries(file)
    assert without_places(parse_queries(Source(text))) == file


def assert_answered(text: str) -> None:
    source = Source(text)
    file, findings = parse_findings(source)
    assert (file is None) == bool(findings)
    assert len(findings) <= PROBLEMS_SHOWN_MAX
    assert list(findings) == sorted(findings, key=lambda one: one.span)
    for one in findings:
        assert 0 <= one.span.start <= one.span.end <= len(text)
        assert one.position == source.position(one.span.start)
        assert one.code in set(QueryCode) - {QueryCode.FILE}
    if findings:
        with pytest.raises(QueryError) as caught:
            parse_queries(source)
        assert [one["code"] for one in diagnostics_of(caught.value)] == [d.code for d in findings]
