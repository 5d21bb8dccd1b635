"""Parsing `.gq` text: into a tree, or into the findings that prevent one."""

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from lark import Lark, Token, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from omnigraph.language.diagnostics import (
    Diagnostic,
    find_half_character,
    finding,
    locate,
    query_error,
    show_text,
)
from omnigraph.language.query.build import TreeBuilder
from omnigraph.language.query.codes import QueryCode
from omnigraph.language.query.explain import explain, report_depth
from omnigraph.language.query.notices import WATCHED, find_notices
from omnigraph.language.query.repairs import Slip, repair
from omnigraph.language.query.state import ParserState, Stuck, is_call
from omnigraph.language.query.tokens import (
    KEYWORDS,
    OPEN_COMMENT,
    UNDECIDED,
    choose_terminal,
    read_words,
    span_of,
)
from omnigraph.language.query.tree import QueryFile
from omnigraph.language.source import Source, Span, pause_collection
from omnigraph.language.tables import tables_file
from omnigraph.limits import NESTING_MAX, PROBLEMS_SHOWN_MAX, SOURCE_BYTES_MAX

_DECLARATION = re.compile(r"(?:^|(?<=\}))[ \t]*(?=query\s+[A-Za-z_]\w*\s*[({@])", re.MULTILINE)


def parse_queries(source: Source) -> QueryFile:
    """Parse a query file, or raise `QueryError` with its findings."""
    file, findings = parse_findings(source)
    if file is None:
        raise query_error(source, findings)
    return file


def parse_findings(source: Source) -> tuple[QueryFile | None, tuple[Diagnostic, ...]]:
    """Read a query file; without a tree there is at least one finding, in the order of the text."""
    unreadable = _unreadable(source)
    if unreadable is not None:
        return None, (locate(source, unreadable),)
    with pause_collection(source):
        file, findings = _read(source)
    shown = sorted(findings, key=lambda one: one.span)[:PROBLEMS_SHOWN_MAX]
    return (None if shown else file), tuple(locate(source, one) for one in shown)


@cache
def grammar() -> Lark:
    """The parser, built at the first text it reads."""
    path = Path(__file__).with_name("query.lark")
    return Lark(
        path.read_text("utf-8"),
        parser="lalr",
        lexer="basic",
        start="file",
        transformer=TreeBuilder(),
        cache=tables_file(path),
    )


def _unreadable(source: Source) -> Diagnostic | None:
    half = find_half_character(source, QueryCode.CHARACTER, "query")
    if half is not None:
        return half
    size = len(source.text.encode("utf-8"))
    return _too_large(size) if size > SOURCE_BYTES_MAX else None


def _too_large(size: int) -> Diagnostic:
    return finding(
        QueryCode.TOO_LARGE,
        Span(0, 0),
        f"the text has {size} bytes, the limit is {SOURCE_BYTES_MAX}",
        expected="less text: split the queries over several files",
    )


def _read(source: Source) -> tuple[QueryFile | None, list[Diagnostic]]:
    """Parse the text; after a token that does not fit, continue at the next query."""
    findings: list[Diagnostic] = []
    start: int | None = 0
    extended = False
    while start is not None and len(findings) < PROBLEMS_SHOWN_MAX:
        segment = _Segment(source, extended)
        start = segment.read(start)
        extended = segment.state.extended
        findings += segment.findings
        if start is None:
            return segment.file, findings
    return None, findings


class _Segment:
    """The text from an offset to its end, or to the first token that does not fit."""

    def __init__(self, source: Source, extended: bool) -> None:
        self.source = source
        self.state = ParserState(extended=extended)
        self.findings: list[Diagnostic] = []
        self.file: QueryFile | None = None
        self._parser: InteractiveParser = grammar().parse_interactive()
        self._choices: Callable[[], Container[str]] = self._parser.choices

    def read(self, start: int) -> int | None:
        """Parse; give the offset to continue from when a token does not fit."""
        for token, following in _with_following(read_words(self.source.text, start)):
            problem = self._step(token, following)
            if problem is not None:
                self._report(problem)
                return self._resume(token, problem)
            if len(self.findings) >= PROBLEMS_SHOWN_MAX:
                return None
        return None

    def _step(self, token: Token, following: tuple[Token, Token]) -> Diagnostic | None:
        """Take a token, or give the finding that stops parsing."""
        choices = self._choices()
        kind = token.type
        # Most of a text is none of these, and a text may be long.
        if kind in UNDECIDED:
            kind = choose_terminal(token, following, choices)
            if kind == "WORD" and kind in choices and self._is_unknown_call(token, following[0]):
                return self._explain(token, kind, following)
            if self._begins_inside(token, following) and "QUERY" not in choices:
                return self._explain(token, "QUERY", following)
        if kind in choices:
            return self._take(token, kind, following)
        slip = Slip(
            source=self.source, token=token, following=following, state=self.state, choices=choices
        )
        repaired = repair(slip)
        if repaired is None:
            return self._explain(token, kind, following)
        self._report(repaired.finding)
        problems = (self._take(one, one.type, following) for one in repaired.tokens)
        return next(filter(None, problems), None)

    def _take(self, token: Token, kind: str, following: tuple[Token, Token]) -> Diagnostic | None:
        cut = token.type
        token.type = kind
        try:
            self.file = self._parser.feed_token(token)
        except UnexpectedToken:
            token.type = cut
            return self._explain(token, kind, following)
        if kind in WATCHED:
            for found in find_notices(self.source, self.state, token, following[0]):
                self._report(found)
        self.state.take(token)
        return report_depth(token) if self.state.levels > NESTING_MAX else None

    def _begins_inside(self, token: Token, following: tuple[Token, Token]) -> bool:
        """Whether this can only be the next query, though the one before it is not complete."""
        if token.value != "query" or following[0].type not in ("WORD", "TYPE"):
            return False
        if following[1].type not in ("_LPAREN", "LBRACE"):
            return False
        previous = self.state.previous
        gap = self.source.text[previous.end_pos or 0 : token.start_pos]
        return previous == "}" or ("\n" in gap and previous.type not in ("_AS", "_DOT", "QUERY"))

    def _is_unknown_call(self, token: Token, after: Token) -> bool:
        named = self.state.previous.type in ("QUERY", "_AS", "_DOT")
        return is_call(token, after) and not named

    def _explain(self, token: Token, kind: str, following: tuple[Token, Token]) -> Diagnostic:
        return explain(
            Stuck(
                source=self.source,
                token=token,
                kind=KEYWORDS.get(token.value, kind),
                following=following,
                state=self.state,
                accepted=frozenset(self._parser.accepts()),  # type: ignore[no-untyped-call]
            )
        )

    def _report(self, found: Diagnostic) -> None:
        named = show_text(self.state.query) if self.state.query else None
        self.findings.append(replace(found, query_name=named))

    def _resume(self, token: Token, problem: Diagnostic) -> int | None:
        if token.type == OPEN_COMMENT:
            return None
        if token.value == "query" and problem.code == QueryCode.STILL_OPEN:
            return span_of(token).start
        # A runaway string is blamed at its start; the queries it swallowed are worth reading.
        start = min(span_of(token).start, problem.span.end)
        found = _DECLARATION.search(self.source.text, start)
        return found.end() if found else None


def _with_following(tokens: Iterator[Token]) -> Iterator[tuple[Token, tuple[Token, Token]]]:
    """Each token with the two behind it; the end is followed by itself."""
    token = next(tokens)
    after = next(tokens, token)
    while True:
        later = next(tokens, after)
        yield token, (after, later)
        if token is after:
            return
        token, after = after, later
