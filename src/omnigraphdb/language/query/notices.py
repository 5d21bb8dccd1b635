"""Findings about tokens that fit the grammar; parsing continues after each."""

import math
import re
from collections.abc import Callable, Iterable
from itertools import islice

from lark import Token

from omnigraphdb.language.diagnostics import Diagnostic, finding, fix_line, show_text
from omnigraphdb.language.query.build import ESCAPES
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.state import ParserState
from omnigraphdb.language.query.tokens import span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.language.source import Source, Span
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX

ANNOTATIONS = ("@description", "@instruction", "@mcp")
INTEGER_MAX = 2**63 - 1
_INTEGER_DIGITS_MAX = len(str(INTEGER_MAX))
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

Findings = Iterable[Diagnostic]
Notice = Callable[[Source, ParserState, Token], Findings]


# ---- words and literals


def _check_variable(source: Source, state: ParserState, token: Token) -> Findings:
    word = token.value
    if not word[1].isupper() or not state.first_time(word):
        return ()
    lower = "$" + word[1].lower() + word[2:]
    diagnostic = finding(
        QueryCode.VARIABLE_CASE,
        span_of(token),
        f"variable {render_token(token)} starts with an upper-case letter",
        label="variables start with a lower-case letter or '_'",
        expected=show_text(lower),
        fix=fix_line(source, span_of(token), lower),
    )
    return (diagnostic,)


def _check_string(source: Source, _place: ParserState, token: Token) -> Findings:
    return _list_escapes(source, token) if "\\" in token.value else ()


def _list_escapes(source: Source, token: Token) -> Findings:
    unknown = (match for match in _ESCAPE.finditer(token, 1) if match[1] not in ESCAPES)
    for match in islice(unknown, PROBLEMS_SHOWN_MAX):
        start = span_of(token).start + match.start()
        escape = Span(start, start + 2)
        yield finding(
            QueryCode.ESCAPE,
            escape,
            f"unknown escape '{match[0]}' in a string",
            label="a backslash itself is written twice",
            expected=r"one of \" \\ \n \r \t",
            fix=fix_line(source, escape, "\\" + match[0]),
        )


def _check_integer(_source: Source, state: ParserState, token: Token) -> Findings:
    digits = token.value.lstrip("0")
    if len(digits) < _INTEGER_DIGITS_MAX:
        return ()
    bound = INTEGER_MAX + (state.previous.type == "SIGN")
    if len(digits) == _INTEGER_DIGITS_MAX and int(digits) <= bound:
        return ()
    return (_report_range(token, "integers go from -9223372036854775808 to 9223372036854775807"),)


def _check_decimal(_source: Source, _place: ParserState, token: Token) -> Findings:
    if math.isinf(float(token)):
        yield _report_range(token, "floats go up to about 1.8e308")


def _check_direction(source: Source, state: ParserState, token: Token) -> Findings:
    closed = state.closed
    if state.previous.type != "RPAREN" or closed is None or closed.owner != "nearest":
        return
    yield finding(
        QueryCode.NEAREST_DIRECTION,
        span_of(token),
        f"nearest(…) takes no direction, found {render_token(token)}",
        label="the nearest always comes first",
        fix=fix_line(source, span_of(token), "").rstrip() or None,
    )


def _report_range(token: Token, range_: str) -> Diagnostic:
    return finding(
        QueryCode.NUMBER,
        span_of(token),
        f"number {render_token(token)} is out of range",
        expected=range_,
    )


def _check_annotation(_source: Source, state: ParserState, token: Token) -> Findings:
    if token not in ANNOTATIONS:
        message, label = f"unknown annotation {render_token(token)} of a query", None
    elif state.first_time(token):
        return
    else:
        message, label = (
            f"annotation {render_token(token)} is given twice",
            "each stands at most once",
        )
    yield finding(
        QueryCode.ANNOTATION,
        span_of(token),
        message,
        label=label,
        expected='@description("…"), @instruction("…") and @mcp(…), each at most once',
    )


NOTICES: dict[str, Notice] = {
    "VARIABLE": _check_variable,
    "STRING": _check_string,
    "INT": _check_integer,
    "FLOAT": _check_decimal,
    "ASC": _check_direction,
    "DESC": _check_direction,
    "ANNOTATION": _check_annotation,
    "MCP": _check_annotation,
}
"""Everything to say about a token that the parser has just taken, by its terminal; about no other is there anything."""
