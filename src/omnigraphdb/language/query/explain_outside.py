"""Findings for text outside the clauses of a query: characters, declarations, open ends."""

import unicodedata

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.language.diagnostics import Diagnostic, finding, fix_line, show_text
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.state import HOPS, OpenBracket, SyntaxFailure
from omnigraphdb.language.query.tokens import END, HEADER, OPEN_COMMENT, OPEN_STRING, STRAY, span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.language.source import Source, Span

OPENED_SHOWN_MAX = 3


# ---- strings, comments, characters


def explain_open_string(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a string without its closing quote."""
    # A forgotten quote closes at the next quote, lines later; the text behind it makes no sense.
    runaway = next(
        (t for t in (fault.token, fault.state.previous) if t.startswith('"') and "\n" in t), None
    )
    string = runaway or (fault.token if fault.token.type == OPEN_STRING else None)
    if string is None:
        return None
    start = span_of(string).start
    return finding(
        QueryCode.OPEN_STRING,
        Span(start, start + len(string.split("\n", 1)[0])),
        "the string that starts here is not closed on its line",
        label="the closing '\"' is missing",
        expected="'\"'",
    )


def explain_open_comment(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a comment without its end."""
    if fault.token.type != OPEN_COMMENT:
        return None
    start = span_of(fault.token).start
    return finding(
        QueryCode.OPEN_COMMENT,
        Span(start, start + 2),
        "the comment that starts here is not closed",
        expected="'*/'",
    )


_CHARACTERS = {
    "#": "a comment starts with '//'",
    "!": "the opposite of a pattern is not { … }, of a condition not …",
    "--": "a comment starts with '//'; any edge is $a -- $b, a sign of a sign -(-x)",
    "->": "a traversal is $a edge $b",
    "=>": "'greater or equal' is written '>='",
    "$": "a variable is '$' and a name that starts with a lower-case letter or '_'",
}


def explain_character(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a character that no rule uses."""
    token = fault.token
    if token.type != STRAY or fault.outside:
        return None
    name = unicodedata.name(token, "") if len(token) == 1 and not token.isascii() else ""
    return fault.refuse(
        QueryCode.CHARACTER,
        f"{render_token(token)}{f' ({name})' if name else ''} is not part of the language",
        label=_character_hint(fault),
        expected=fault.expected(),
    )


def _character_hint(fault: SyntaxFailure) -> str | None:
    if fault.token == "!" and "QUESTION" in fault.accepted:
        return "parameters are required; '?' makes one optional"
    return _CHARACTERS.get(fault.token[:2] if fault.token.startswith("--") else fault.token)


# ---- between queries

_READS = "a read is query name() { match { … } return { … } }"
_WRITES = "there is no wrapper: a write is query name() { insert Type { … } }"
_FOREIGN = {
    "mutation": ("there is no 'mutation' block", _WRITES),
    "insert": ("a statement stands inside of a query", _WRITES),
    "update": ("a statement stands inside of a query", _WRITES),
    "delete": ("a statement stands inside of a query", _WRITES),
    "match": ("a match stands inside of a query", _READS),
    "return": ("a return stands inside of a query", _READS),
    "create": ("this looks like Cypher or SQL", _WRITES),
    "merge": ("this looks like Cypher", _WRITES),
    "select": ("this looks like SQL", _READS),
    "with": ("this looks like SQL or Cypher", _READS),
    "subscription": ("this looks like GraphQL", _READS),
    "fragment": ("this looks like GraphQL", _READS),
    "{": ("a query has a keyword, a name and a parameter list", _READS),
    "}": ("one '}' too many", "every '{' before it is closed already"),
    "node": ("this looks like schema text", "schema text belongs in a .pg file"),
    "edge": ("this looks like schema text", "schema text belongs in a .pg file"),
    "interface": ("this looks like schema text", "schema text belongs in a .pg file"),
}


def explain_header(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a header that is unknown or misplaced."""
    if fault.accepted == {"EXTENSIONS"}:
        message = f"unknown header, 'use' before {render_token(fault.token)}"
    elif fault.outside and fault.token == "use":
        message = "a header stands before the first query, once"
    else:
        return None
    return fault.refuse(
        QueryCode.HEADER, message, expected=f"'{HEADER}' as the first line of the file", fix=HEADER
    )


def explain_outside(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain text where only a query may begin."""
    if not fault.outside:
        return None
    word = fault.token.lower()
    near = [] if word in _FOREIGN else did_you_mean(word, ["query"])
    plain = f"expected a query declaration, found {render_token(fault.token)}{suggestion(near)}"
    hint = _character_hint(fault) if fault.token.type == STRAY else None
    message, label = _FOREIGN.get(word, (plain, hint or _READS))
    return fault.refuse(
        QueryCode.OUTSIDE,
        message,
        label=label,
        expected="query name(…) { … }",
        fix=fix_line(fault.source, span_of(fault.token), "query") if near else None,
    )


def explain_query_head(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a query without its name or its parameter list."""
    previous = fault.state.previous
    if previous.type == "QUERY":
        fix = "query name() {" if fault.token in ("{", "(") else None
        return fault.refuse(
            QueryCode.UNEXPECTED,
            f"expected a name after 'query', found {render_token(fault.token)}",
            label="a query is addressed by its name",
            expected="a query name",
            fix=fix,
        )
    if fault.state.before.type == "QUERY":
        return fault.refuse(
            QueryCode.PARAMETER_LIST,
            f"expected '(' after the query name {render_token(previous)}, found {render_token(fault.token)}",
            label="a query declares its parameters even when there are none",
            expected="'('",
            fix=f"query {show_text(previous)}() {{",
        )
    return None


def explain_still_open(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain an open bracket at the end of the text, at the next query or at the next part of a read."""
    opened, previous = fault.state.opened, fault.state.previous
    if fault.token.type == END:
        last = span_of(previous).end
        return _report_unclosed(fault, opened, Span(last, last), "the text ends")
    has_name = fault.following[0].type in ("WORD", "TYPE")
    if fault.kind == "QUERY" and has_name and fault.state.query is not None:
        what = f"query {render_token(fault.following[0])} begins"
        return _report_unclosed(fault, opened, span_of(fault.token), what)
    if fault.token == "{" and previous.type == "WORD" and previous in ("match", "return", "order"):
        return _report_unclosed(fault, opened[-1:], span_of(previous), f"'{previous} {{' begins")
    return None


def _report_unclosed(
    fault: SyntaxFailure, opened: list[OpenBracket], span: Span, what: str
) -> Diagnostic:
    names = [
        _describe_opening(fault.source, bracket) for bracket in reversed(opened[-OPENED_SHOWN_MAX:])
    ]
    verb = "is" if len(names) == 1 else "are"
    inside = f"inside {', inside '.join(names)}, which {verb} not closed"
    after = f"after {render_token(fault.state.previous)}, where more is needed"
    return finding(
        QueryCode.STILL_OPEN,
        span,
        f"{what} {inside if names else after}",
        expected=fault.expected(),
        fix=_closing(fault, opened),
    )


def _describe_opening(source: Source, bracket: OpenBracket) -> str:
    line = source.position(span_of(bracket.token).start).line
    owner = "" if bracket.owner in (HOPS, str(bracket.token)) else f"{bracket.owner} "
    return f"'{owner}{bracket.token}' of line {line}"


_PARTNERS = {"{": "}", "(": ")", "[": "]", "case": "end"}
_PARTNER_TERMINALS = {"}": "RBRACE", ")": "RPAREN", "]": "RBRACKET", "end": "CASE_END"}


def _closing(fault: SyntaxFailure, opened: list[OpenBracket]) -> str | None:
    closing = [_PARTNERS[str(bracket.token)] for bracket in reversed(opened)]
    complete = closing and _PARTNER_TERMINALS[closing[0]] in fault.accepted
    return " ".join(closing) if complete else None
