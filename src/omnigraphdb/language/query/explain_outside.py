"""Why text outside of the clauses of a query does not fit: characters, declarations, open ends."""

import unicodedata

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.language.diagnostics import Diagnostic, finding, fix_line, show_text
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.state import HOPS, Opened, Stuck
from omnigraphdb.language.query.tokens import END, HEADER, OPEN_COMMENT, OPEN_STRING, STRAY, span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.language.source import Source, Span

OPENED_SHOWN_MAX = 3


# ---- strings, comments, characters


def explain_open_string(stuck: Stuck) -> Diagnostic | None:
    """A string without its closing quote."""
    # A quote that was forgotten closes at the next one, lines later; what follows makes no sense.
    runaway = next(
        (t for t in (stuck.token, stuck.state.previous) if t.startswith('"') and "\n" in t), None
    )
    string = runaway or (stuck.token if stuck.token.type == OPEN_STRING else None)
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


def explain_open_comment(stuck: Stuck) -> Diagnostic | None:
    """A comment without its end."""
    if stuck.token.type != OPEN_COMMENT:
        return None
    start = span_of(stuck.token).start
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


def explain_character(stuck: Stuck) -> Diagnostic | None:
    """A character that no rule uses."""
    token = stuck.token
    if token.type != STRAY or stuck.outside:
        return None
    name = unicodedata.name(token, "") if len(token) == 1 and not token.isascii() else ""
    return stuck.refuse(
        QueryCode.CHARACTER,
        f"{render_token(token)}{f' ({name})' if name else ''} is not part of the language",
        label=_character_hint(stuck),
        expected=stuck.expected(),
    )


def _character_hint(stuck: Stuck) -> str | None:
    if stuck.token == "!" and "QUESTION" in stuck.accepted:
        return "parameters are required; '?' makes one optional"
    return _CHARACTERS.get(stuck.token[:2] if stuck.token.startswith("--") else stuck.token)


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


def explain_header(stuck: Stuck) -> Diagnostic | None:
    """A header that is unknown or misplaced."""
    if stuck.accepted == {"EXTENSIONS"}:
        message = f"unknown header, 'use' before {render_token(stuck.token)}"
    elif stuck.outside and stuck.token == "use":
        message = "a header stands before the first query, once"
    else:
        return None
    return stuck.refuse(
        QueryCode.HEADER, message, expected=f"'{HEADER}' as the first line of the file", fix=HEADER
    )


def explain_outside(stuck: Stuck) -> Diagnostic | None:
    """Text where only a query may begin."""
    if not stuck.outside:
        return None
    word = stuck.token.lower()
    near = [] if word in _FOREIGN else did_you_mean(word, ["query"])
    plain = f"expected a query declaration, found {render_token(stuck.token)}{suggestion(near)}"
    hint = _character_hint(stuck) if stuck.token.type == STRAY else None
    message, label = _FOREIGN.get(word, (plain, hint or _READS))
    return stuck.refuse(
        QueryCode.OUTSIDE,
        message,
        label=label,
        expected="query name(…) { … }",
        fix=fix_line(stuck.source, span_of(stuck.token), "query") if near else None,
    )


def explain_query_head(stuck: Stuck) -> Diagnostic | None:
    """A query without its name or its parameter list."""
    previous = stuck.state.previous
    if previous.type == "QUERY":
        fix = "query name() {" if stuck.token in ("{", "(") else None
        return stuck.refuse(
            QueryCode.UNEXPECTED,
            f"expected a name after 'query', found {render_token(stuck.token)}",
            label="a query is addressed by its name",
            expected="a query name",
            fix=fix,
        )
    if stuck.state.before.type == "QUERY":
        return stuck.refuse(
            QueryCode.PARAMETER_LIST,
            f"expected '(' after the query name {render_token(previous)}, found {render_token(stuck.token)}",
            label="a query declares its parameters even when there are none",
            expected="'('",
            fix=f"query {show_text(previous)}() {{",
        )
    return None


def explain_still_open(stuck: Stuck) -> Diagnostic | None:
    """The end of the text, the next query or the next part of a read inside something."""
    opened, previous = stuck.state.opened, stuck.state.previous
    if stuck.token.type == END:
        last = span_of(previous).end
        return _report_unclosed(stuck, opened, Span(last, last), "the text ends")
    named = stuck.following[0].type in ("WORD", "TYPE")
    if stuck.kind == "QUERY" and named and stuck.state.query is not None:
        what = f"query {render_token(stuck.following[0])} begins"
        return _report_unclosed(stuck, opened, span_of(stuck.token), what)
    if stuck.token == "{" and previous.type == "WORD" and previous in ("match", "return", "order"):
        return _report_unclosed(stuck, opened[-1:], span_of(previous), f"'{previous} {{' begins")
    return None


def _report_unclosed(stuck: Stuck, opened: list[Opened], span: Span, what: str) -> Diagnostic:
    names = [_describe_opening(stuck.source, one) for one in reversed(opened[-OPENED_SHOWN_MAX:])]
    verb = "is" if len(names) == 1 else "are"
    inside = f"inside {', inside '.join(names)}, which {verb} not closed"
    after = f"after {render_token(stuck.state.previous)}, where more is needed"
    return finding(
        QueryCode.STILL_OPEN,
        span,
        f"{what} {inside if names else after}",
        expected=stuck.expected(),
        fix=_closing(stuck, opened),
    )


def _describe_opening(source: Source, one: Opened) -> str:
    line = source.position(span_of(one.token).start).line
    owner = "" if one.owner in (HOPS, str(one.token)) else f"{one.owner} "
    return f"'{owner}{one.token}' of line {line}"


_PARTNERS = {"{": "}", "(": ")", "[": "]", "case": "end"}
_PARTNER_TERMINALS = {"}": "RBRACE", ")": "RPAREN", "]": "RBRACKET", "end": "CASE_END"}


def _closing(stuck: Stuck, opened: list[Opened]) -> str | None:
    closing = [_PARTNERS[str(one.token)] for one in reversed(opened)]
    complete = closing and _PARTNER_TERMINALS[closing[0]] in stuck.accepted
    return " ".join(closing) if complete else None
