"""Parsing `.gq` text: into a tree, or into the findings that prevent one."""

import re
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark, Token

from omnigraphdb.language.diagnostics import (
    Diagnostic,
    find_half_character,
    finding,
    locate,
    query_error,
    show_text,
)
from omnigraphdb.language.query.automaton import Automaton, Tables
from omnigraphdb.language.query.build import TreeBuilder
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.explain import explain, report_depth
from omnigraphdb.language.query.notices import NOTICES
from omnigraphdb.language.query.repairs import UnexpectedToken, repair
from omnigraphdb.language.query.state import ParserState, SyntaxFailure, is_call
from omnigraphdb.language.query.tokens import (
    END,
    KEYWORDS,
    OPEN_COMMENT,
    RELATING,
    UNDECIDED,
    WORDS,
    choose_terminal,
    read_words,
    scan,
    span_of,
)
from omnigraphdb.language.query.tree import QueryFile
from omnigraphdb.language.source import Source, Span, pause_collection
from omnigraphdb.language.tables import tables_file
from omnigraphdb.limits import NESTING_MAX, PROBLEMS_SHOWN_MAX, SOURCE_BYTES_MAX
from omnigraphdb.values import dataclass, replace

_DECLARATION = re.compile(r"(?:^|(?<=\}))[ \t]*(?=query\s+[A-Za-z_]\w*\s*[({@])", re.MULTILINE)
_BEFORE_PARAMETERS = frozenset({"_LPAREN", "_COMMA"})
_DOUBTFUL = frozenset({"_LPAREN", "VARIABLE"})
"""Behind a word they make it look like a function or an edge."""


def parse_queries(source: Source) -> QueryFile:
    """Parse a query file, or raise `QueryError` with its findings."""
    file, findings = parse_findings(source)
    if file is None:
        raise query_error(source, findings)
    return file


def parse_findings(source: Source) -> tuple[QueryFile | None, tuple[Diagnostic, ...]]:
    """Read a query file: its tree, or at least one finding, in the order of the text."""
    unreadable = _unreadable(source)
    if unreadable is not None:
        return None, (locate(source, unreadable),)
    with pause_collection(source):
        file, findings = _read(source)
    problems = sorted(findings, key=lambda problem: problem.span)[:PROBLEMS_SHOWN_MAX]
    return (None if problems else file), tuple(locate(source, problem) for problem in problems)


@cache
def grammar() -> Lark:
    """Return the grammar, read at the first text."""
    path = Path(__file__).with_name("query.lark")
    return Lark(
        path.read_text("utf-8"),
        parser="lalr",
        lexer="basic",
        start="file",
        cache=tables_file(path),
    )


@cache
def _tables() -> Tables:
    return Tables(grammar(), TreeBuilder())


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
    while start is not None and len(findings) < PROBLEMS_SHOWN_MAX:
        segment = _Segment(source)
        start = segment.read(start)
        findings += segment.findings
        if start is None:
            return segment.file, findings
    return None, findings


class _Segment:
    """The text from an offset to its end, or to the first token that does not fit."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.state = ParserState()
        self.findings: list[Diagnostic] = []
        self.begins_pattern = False
        self.parameters: set[str] = set()
        """The parameters that the query declares."""
        self._automaton = Automaton(_tables())
        self._feed = self._automaton.feed

    @property
    def file(self) -> QueryFile | None:
        """The tree, once the whole text was taken."""
        return cast(QueryFile | None, self._automaton.result)

    def read(self, start: int) -> int | None:
        """Parse; give the offset to continue from when a token does not fit."""
        step, findings = self._step, self.findings
        for token, following in _with_following(read_words(self.source.text, start)):
            problem = step(token, following)
            if problem is not None:
                self._report(problem)
                return self._resume(token, problem)
            if findings and len(findings) >= PROBLEMS_SHOWN_MAX:
                return None
        return None

    def _step(self, token: Token, following: tuple[Token, Token, Token]) -> Diagnostic | None:
        """Take a token, or give the finding that stops parsing."""
        choices = self._automaton.choices
        kind = token.type
        # Most tokens have other kinds, and a text may be long.
        if kind in UNDECIDED:
            if kind == "WORD":
                if token.value in WORDS or following[0].type in _DOUBTFUL:
                    kind = choose_terminal(token, following, choices)
                    if self._is_misplaced(token, kind, following[0], choices):
                        return self._explain(token, kind, following)
                    if token.value == "query" and self._begins_inside(token, following, choices):
                        return self._explain(token, "QUERY", following)
            else:
                kind = choose_terminal(token, following, choices)
                if kind == "SUBJECT" and self._compares_parameter(token, following):
                    kind = "VARIABLE"
                if self.begins_pattern and _ends_behind(following):
                    pattern = _PATTERN_TERMINALS.get(kind, kind)
                    kind = pattern if pattern in choices else kind
        if kind in choices:
            return self._take(token, kind, following)
        return self._repair(token, kind, following)

    def _repair(
        self, token: Token, kind: str, following: tuple[Token, Token, Token]
    ) -> Diagnostic | None:
        slip = UnexpectedToken(
            source=self.source,
            token=token,
            following=following,
            state=self.state,
            choices=self._automaton.choices,
        )
        repaired = repair(slip)
        if repaired is None:
            return self._explain(token, kind, following)
        self._report(repaired.finding)
        problems = (
            self._take(replacement, replacement.type, following) for replacement in repaired.tokens
        )
        return next(filter(None, problems), None)

    def _take(
        self, token: Token, kind: str, following: tuple[Token, Token, Token]
    ) -> Diagnostic | None:
        if not self._feed(token, kind):
            return self._explain(token, kind, following)
        # To everything behind the grammar a variable that begins a pattern is a variable.
        if kind == "SUBJECT":
            kind = token.type
        else:
            token.type = kind
        state = self.state
        if kind == "QUERY":
            self.parameters = set()
        elif kind == "VARIABLE" and state.previous.type in _BEFORE_PARAMETERS:
            self.parameters |= {token.value} if following[0].type == "_COLON" else set()
        if kind in NOTICES:
            for notice in NOTICES[kind](self.source, state, token):
                self._report(notice)
        return report_depth(token) if state.take(token, kind) > NESTING_MAX else None

    def expected(self) -> frozenset[str]:
        """Return the terminals that may come next, and the rules that may begin with them."""
        # States that the parser merged also list terminals that only one of them takes.
        rules = (name for name in self._automaton.choices if name.islower())
        return self._automaton.accepted().union(rules)

    def _compares_parameter(self, token: Token, following: tuple[Token, Token, Token]) -> bool:
        """Whether this can only be a comparison: no edge begins or ends at a parameter."""
        if following[0].value not in RELATING:
            return False
        return not self.parameters.isdisjoint((token.value, following[1].value))

    def _begins_inside(
        self, token: Token, following: tuple[Token, Token, Token], choices: Container[str]
    ) -> bool:
        """Whether this can only be the next query, though the one before it is not complete."""
        if "QUERY" in choices or following[0].type not in ("WORD", "TYPE"):
            return False
        if following[1].type not in ("_LPAREN", "LBRACE"):
            return False
        previous = self.state.previous
        gap = self.source.text[previous.end_pos or 0 : token.start_pos]
        return previous == "}" or ("\n" in gap and previous.type not in ("_AS", "_DOT", "QUERY"))

    def _is_misplaced(self, token: Token, kind: str, after: Token, choices: Container[str]) -> bool:
        """Whether a word fits where a name may stand, and is an unknown function or an edge inside a condition."""
        if after.type not in _DOUBTFUL or kind != "WORD" or "WORD" not in choices:
            return False
        if after.type == "_LPAREN":
            return is_call(token, after) and self.state.previous.type not in (
                "QUERY",
                "_AS",
                "_DOT",
            )
        if self.state.previous.type != "VARIABLE":
            return False
        return self.state.before.type in ("NOT", "_AND", "_OR", "GROUP")

    def _explain(
        self, token: Token, kind: str, following: tuple[Token, Token, Token]
    ) -> Diagnostic:
        return explain(
            SyntaxFailure(
                source=self.source,
                token=token,
                kind=KEYWORDS.get(token.value, kind),
                following=following,
                state=self.state,
                accepted=self._automaton.accepted(),
            )
        )

    def _report(self, diagnostic: Diagnostic) -> None:
        query_name = show_text(self.state.query) if self.state.query else None
        self.findings.append(replace(diagnostic, query_name=query_name))

    def _resume(self, token: Token, problem: Diagnostic) -> int | None:
        if token.type == OPEN_COMMENT:
            return None
        if token.value == "query" and problem.code == QueryCode.STILL_OPEN:
            return span_of(token).start
        # A runaway string is blamed at its start; the queries it swallowed are worth reading.
        start = min(span_of(token).start, problem.span.end)
        declaration = _DECLARATION.search(self.source.text, start)
        return declaration.end() if declaration else None


def _ends_behind(following: tuple[Token, Token, Token]) -> bool:
    """Whether the text ends behind a token, or behind the sign that may open the edge of a walk."""
    after, later, _ = following
    return after.type == END or (after.type == "LESS" and later.type == END)


def _with_following(tokens: Iterator[Token]) -> Iterator[tuple[Token, tuple[Token, Token, Token]]]:
    """Yield each token with the three behind it; the end is followed by itself."""
    token = next(tokens)
    after = next(tokens, token)
    later = next(tokens, after)
    for last in tokens:
        yield token, (after, later, last)
        token, after, later = after, later, last
    last = later
    while True:
        yield token, (after, later, last)
        if token is after:
            return
        token, after, later = after, later, last


# ---- tokens that may come next

_BEGUN = re.compile(r"[$@]?[A-Za-z_][A-Za-z0-9_]*\Z|[$@]\Z", re.ASCII)
_PATTERN_TERMINALS = {"VARIABLE": "SUBJECT", "LESS": "EDGE_OPEN"}
_UNREADABLE = frozenset({"STRING", "OPEN_STRING", "COMMENT", "OPEN_COMMENT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The tokens that may stand at an offset of a text that is being written.

    `choices` are the terminals and rules that may begin there, `taken` the tokens of the query before it, `opened`
    the brackets that are open, as indices into `taken`; `start` is the beginning of the word that ends at the offset.
    """

    start: int
    choices: frozenset[str] = frozenset()
    taken: tuple[Token, ...] = ()
    opened: tuple[int, ...] = ()


def expect_at(text: str, offset: int) -> Expected:
    """Read a text up to the word at an offset; only the last query before the offset counts."""
    begun = _BEGUN.search(text, 0, offset)
    start = begun.start() if begun else offset
    before = text[:start]
    if _ends_inside_literal(text[:offset]):
        return Expected(start=offset)
    declared = [declaration.end() for declaration in _DECLARATION.finditer(before)]
    start_at = declared[-1] if declared else 0
    # A variable at the end, and a sign behind it, may belong to a pattern or an expression: both are read.
    readings = [_expect(before, start, start_at, begins) for begins in (False, True)]
    return replace(readings[1], choices=readings[0].choices | readings[1].choices)


def _expect(before: str, start: int, start_at: int, begins_pattern: bool) -> Expected:
    segment = _Segment(Source(before))
    segment.begins_pattern = begins_pattern
    tokens: list[Token] = []
    for token, following in _with_following(read_words(before, start_at)):
        if token.type == END:
            break
        if segment._step(token, following) is not None:
            return Expected(start=start)
        tokens.append(token)
    numbers = {id(token): number for number, token in enumerate(tokens)}
    return Expected(
        start=start,
        choices=segment.expected(),
        taken=tuple(tokens),
        opened=tuple(
            numbers[id(bracket.token)]
            for bracket in segment.state.opened
            if id(bracket.token) in numbers
        ),
    )


def _ends_inside_literal(text: str) -> bool:
    """Whether the end of a text is inside a string or a comment."""
    last: Token | None = None
    for token in scan(text):
        if token.type != END:
            last = token
    if last is None or last.type not in _UNREADABLE:
        return False
    closed = last.type == "STRING" or last.value.endswith("*/")
    return last.end_pos == len(text) and not closed
