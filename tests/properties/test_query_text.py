"""Query text: any tree survives its layout, any damage is answered with findings inside the text."""

import time
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.compile.check import check_findings
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.descriptor import describe_operation
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.rules import optimize
from omnigraphdb.errors import QueryError
from omnigraphdb.language.diagnostics import diagnostics_of, render
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.format import format_queries, format_source
from omnigraphdb.language.query.parse import parse_findings, parse_queries
from omnigraphdb.language.query.tokens import COMMENT, scan
from omnigraphdb.language.query.tree import QueryFile
from omnigraphdb.language.source import Source
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from tests.support.damaged_texts import FRAGMENTS, Spoiler
from tests.support.queries import (
    any_files,
    conformance_texts,
    files,
    staged_files,
    without_places,
)
from tests.support.query_forms import catalog

SECONDS_MAX = 2.0
"""No text of a few hundred characters takes so long, on a busy machine either."""
CONFORMING = tuple(text for _, text, parses in conformance_texts() if parses)


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


@pytest.mark.parametrize(
    "clauses",
    [
        "count, ($b)",
        "$a.n, contains, 4",
        "1 = from, ($b)",
        "in = 1",
        "query, $a.x",
        "$a.count, ($b)",
    ],
)
def test_names_that_look_like_operators_and_functions_stay_names(clauses: str) -> None:
    tree = parse_queries(Source(f"query q() {{ match {{ $a: T, {clauses} }} return {{ $a }} }}"))
    assert without_places(parse_queries(Source(format_queries(tree)))) == without_places(tree)


# ---- texts that somebody spoiled


def test_a_spoiled_text_is_refused_with_a_fix_or_compiles() -> None:
    assert_answered_or_compiled(seed=0, texts=800)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_a_million_spoiled_texts_are_refused_with_a_fix_or_compile(seed: int) -> None:
    assert_answered_or_compiled(seed=1_000 + seed, texts=10_000)


def assert_answered_or_compiled(seed: int, texts: int) -> None:
    """Read and check so many texts; plain randomness, since Hypothesis would remember every one of them."""
    compiled = 0
    for text in islice(Spoiler(seed).texts(), texts):
        start = time.process_time()
        try:
            compiled += answered_or_compiled(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text!r}") from error
        assert time.process_time() - start < SECONDS_MAX, text
    # Texts that are all refused, or none of them, would test little.
    assert texts * 0.05 < compiled < texts * 0.6


def answered_or_compiled(text: str) -> bool:
    """Whether a text compiles; else each finding must say what is wrong, where, and what would be right."""
    source = Source(text)
    file, found = parse_findings(source)
    queries = file.queries if file else ()
    if file is not None:
        laid_out = format_queries(file)
        assert without_places(parse_queries(Source(laid_out))) == without_places(file)
        assert format_source(Source(laid_out)) == laid_out
    for query in queries:
        checked, more = check_findings(query, catalog(), source)
        assert (checked is None) == bool(more)
        found += more
        if checked is not None:
            describe_operation(checked, catalog())
        if isinstance(checked, CheckedRead):
            assert optimize(lower(checked, catalog())).text
    for one in found:
        assert one.code, one
        assert one.message, one
        assert one.fix or one.expected, one
        assert 0 <= one.span.start <= one.span.end <= len(text)
        assert one.position == source.position(one.span.start)
        assert render(source, one)
    return file is not None and not found


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
