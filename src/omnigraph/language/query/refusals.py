"""Why the parser is stuck, in words that help; the first rule that recognises the case speaks."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lark import Token

from omnigraph.errors import did_you_mean, suggestion
from omnigraph.language.query.codes import QueryCode, finding
from omnigraph.language.query.notices import HEADER
from omnigraph.language.query.place import HOPS, Opened, Place
from omnigraph.language.query.tokens import END, OPEN_COMMENT, OPEN_STRING, STRAY, span_of
from omnigraph.language.query.wording import described, line_with, shown
from omnigraph.language.query.words import FUNCTIONS
from omnigraph.language.source import Diagnostic, Source, Span
from omnigraph.limits import NESTING_MAX

OPENED_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A token that does not fit, and everything known about the place."""

    source: Source
    token: Token
    kind: str
    following: tuple[Token, Token]
    place: Place
    accepted: frozenset[str]

    @property
    def owner(self) -> str:
        """What the innermost open bracket belongs to; empty outside of all."""
        return self.place.inside.owner if self.place.inside else ""

    @property
    def outside(self) -> bool:
        """Whether a new query could begin here."""
        return "QUERY" in self.accepted

    def expected(self) -> str:
        """What would fit, in words."""
        return described(self.accepted, self.place.previous)

    def refuse(
        self,
        code: QueryCode,
        message: str,
        *,
        label: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> Diagnostic:
        """A finding at the token."""
        return finding(code, span_of(self.token), message, label=label, expected=expected, fix=fix)


Rule = Callable[[Stuck], Diagnostic | None]


def explain(stuck: Stuck) -> Diagnostic:
    """Say why the token does not fit, and what would."""
    return next(found for rule in _RULES if (found := rule(stuck)))


# ---- strings, comments, characters


def _open_string(stuck: Stuck) -> Diagnostic | None:
    # A quote that was forgotten closes at the next one, lines later; what follows makes no sense.
    runaway = next(
        (t for t in (stuck.token, stuck.place.previous) if t.startswith('"') and "\n" in t), None
    )
    start = runaway or (stuck.token if stuck.token.type == OPEN_STRING else None)
    if start is None:
        return None
    span = Span(span_of(start).start, span_of(start).start + start.find("\n") % (len(start) + 1))
    return finding(
        QueryCode.OPEN_STRING,
        span,
        "the string that starts here is not closed on its line",
        label="the closing '\"' is missing",
        expected="'\"'",
    )


def _open_comment(stuck: Stuck) -> Diagnostic | None:
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
    "*": "a property is named: $v.name; count($v) counts rows",
    "!": "the opposite of a pattern is not { … }",
    "+": "there is no arithmetic",
    "-": "there is no arithmetic, and a traversal is $a edge $b",
    "/": "a comment starts with '//'",
    "%": "there is no arithmetic",
    "--": "a comment starts with '//'",
    "->": "a traversal is $a edge $b",
    "=>": "'greater or equal' is written '>='",
    "$": "a variable is '$' and a name that starts with a lower-case letter or '_'",
}


def _character(stuck: Stuck) -> Diagnostic | None:
    token = stuck.token
    if token.type != STRAY or stuck.outside:
        return None
    name = unicodedata.name(token, "") if len(token) == 1 and not token.isascii() else ""
    return stuck.refuse(
        QueryCode.CHARACTER,
        f"{shown(token)}{f' ({name})' if name else ''} is not part of the language",
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
    "node": ("this looks like schema text", "schema text belongs into a .pg file"),
    "edge": ("this looks like schema text", "schema text belongs into a .pg file"),
    "interface": ("this looks like schema text", "schema text belongs into a .pg file"),
}


def _header(stuck: Stuck) -> Diagnostic | None:
    if stuck.accepted == {"EXTENSIONS"}:
        message = f"unknown header 'use {stuck.token}'"
    elif stuck.outside and stuck.token == "use":
        message = "a header stands before the first query, once"
    else:
        return None
    return stuck.refuse(
        QueryCode.HEADER, message, expected=f"'{HEADER}' as the first line of the file", fix=HEADER
    )


def _outside(stuck: Stuck) -> Diagnostic | None:
    if not stuck.outside:
        return None
    word = stuck.token.lower()
    near = [] if word in _FOREIGN else did_you_mean(word, ["query"])
    plain = f"expected a query declaration, found {shown(stuck.token)}{suggestion(near)}"
    message, label = _FOREIGN.get(word, (plain, _READS))
    return stuck.refuse(
        QueryCode.OUTSIDE,
        message,
        label=label,
        expected="query name(…) { … }",
        fix=line_with(stuck.source, span_of(stuck.token), "query") if near else None,
    )


def _query_head(stuck: Stuck) -> Diagnostic | None:
    previous = stuck.place.previous
    if previous.type == "QUERY":
        fix = "query name() {" if stuck.token in ("{", "(") else None
        return stuck.refuse(
            QueryCode.UNEXPECTED,
            f"expected a name after 'query', found {shown(stuck.token)}",
            label="a query is addressed by its name",
            expected="a query name",
            fix=fix,
        )
    if stuck.place.before.type == "QUERY":
        return stuck.refuse(
            QueryCode.PARAMETER_LIST,
            f"expected '(' after the query name '{previous}', found {shown(stuck.token)}",
            label="a query declares its parameters even when there are none",
            expected="'('",
            fix=f"query {previous}() {{",
        )
    return None


def _still_open(stuck: Stuck) -> Diagnostic | None:
    """The end of the text, the next query or the next part of a read inside something."""
    opened, previous = stuck.place.opened, stuck.place.previous
    if stuck.token.type == END:
        last = span_of(previous).end
        return _unclosed(stuck, opened, Span(last, last), "the text ends")
    if stuck.kind == "QUERY" and stuck.place.query is not None:
        what = f"query '{stuck.following[0]}' begins"
        return _unclosed(stuck, opened, span_of(stuck.token), what)
    if stuck.token == "{" and previous.type == "WORD" and previous in ("match", "return", "order"):
        return _unclosed(stuck, opened[-1:], span_of(previous), f"'{previous} {{' begins")
    return None


def _unclosed(stuck: Stuck, opened: list[Opened], span: Span, what: str) -> Diagnostic:
    names = [_opened(stuck.source, one) for one in reversed(opened[-OPENED_SHOWN_MAX:])]
    verb = "is" if len(names) == 1 else "are"
    inside = f"inside {', inside '.join(names)}, which {verb} not closed"
    after = f"after '{stuck.place.previous}', where more is needed"
    return finding(
        QueryCode.STILL_OPEN,
        span,
        f"{what} {inside if names else after}",
        expected=stuck.expected(),
        fix=_closing(stuck, opened),
    )


def _opened(source: Source, one: Opened) -> str:
    line = source.position(span_of(one.token).start).line
    owner = "" if one.owner in (HOPS, str(one.token)) else f"{one.owner} "
    return f"'{owner}{one.token}' of line {line}"


_PARTNERS = {"{": "}", "(": ")", "[": "]"}
_PARTNER_TERMINALS = {"}": "RBRACE", ")": "RPAREN", "]": "RBRACKET"}


def _closing(stuck: Stuck, opened: list[Opened]) -> str | None:
    closing = [_PARTNERS[str(one.token)] for one in reversed(opened)]
    complete = closing and _PARTNER_TERMINALS[closing[0]] in stuck.accepted
    return " ".join(closing) if complete else None


# ---- bodies


def _body(stuck: Stuck) -> Diagnostic | None:
    if "_MATCH" in stuck.accepted and "INSERT" in stuck.accepted:
        what = "is empty" if stuck.token == "}" else f"cannot begin with {shown(stuck.token)}"
        return stuck.refuse(
            QueryCode.BODY,
            f"the body of query '{stuck.place.query}' {what}",
            label="a query reads (match, return) or writes (insert, update, delete)",
            expected="'match', 'insert', 'update' or 'delete'",
        )
    reads_then_writes = stuck.kind in ("INSERT", "UPDATE", "DELETE")
    writes_then_reads = stuck.kind in ("_MATCH", "_RETURN") and "INSERT" in stuck.accepted
    if not reads_then_writes and not writes_then_reads:
        return None
    return stuck.refuse(
        QueryCode.BODY,
        f"query '{stuck.place.query}' both reads and writes, at {shown(stuck.token)}",
        label="a query reads or writes, never both: make two queries",
        expected=stuck.expected(),
    )


_BLOCKS = {
    "match": "a match needs at least one clause",
    "return": "a return needs at least one item",
    "order": "an order needs at least one key; leave it out to have none",
    "not": "a not block needs at least one clause",
    "optional": "an optional block needs at least one clause",
    "set": "an update assigns at least one property",
}


def _empty_block(stuck: Stuck) -> Diagnostic | None:
    if stuck.token != "}" or stuck.place.previous != "{" or stuck.owner == HOPS:
        return None
    label = _BLOCKS.get(stuck.owner, "an insert assigns at least one property")
    return stuck.refuse(
        QueryCode.EMPTY_BLOCK,
        f"the block of '{stuck.owner}' is empty",
        label=label,
        expected=stuck.expected(),
    )


_PARTS = {"_MATCH", "_RETURN", "_ORDER", "_LIMIT", "_OFFSET"}


def _clause_order(stuck: Stuck) -> Diagnostic | None:
    if stuck.accepted == {"_RETURN"}:
        message = f"expected 'return {{ … }}' after the match block, found {shown(stuck.token)}"
    elif stuck.kind in _PARTS and stuck.place.previous.type != "LBRACE":
        message = f"{shown(stuck.token)} cannot stand here"
    else:
        return None
    return stuck.refuse(
        QueryCode.CLAUSE_ORDER,
        message,
        label="match, return, order, limit: in this order, each at most once",
        expected=stuck.expected(),
    )


# ---- pieces


def _nearest_direction(stuck: Stuck) -> Diagnostic | None:
    closed = stuck.place.closed
    if stuck.kind not in ("ASC", "DESC") or closed is None or closed.owner != "nearest":
        return None
    return stuck.refuse(
        QueryCode.NEAREST_DIRECTION,
        f"nearest(…) takes no direction, found {shown(stuck.token)}",
        label="the nearest always comes first",
        expected=stuck.expected(),
        fix=line_with(stuck.source, span_of(stuck.token), "").rstrip() or None,
    )


def _list_item(stuck: Stuck) -> Diagnostic | None:
    if stuck.owner != "[" or "SCALAR" in stuck.accepted or stuck.place.query is None:
        return None
    if stuck.token.type not in ("VARIABLE", "WORD", "TYPE"):
        return None
    return stuck.refuse(
        QueryCode.LIST_ITEM,
        f"a list holds literals only, found {shown(stuck.token)}",
        label="pass the whole list as a parameter, such as ($values: [String])",
        expected=stuck.expected(),
    )


def _vector_list(stuck: Stuck) -> Diagnostic | None:
    if stuck.token != "Vector" or stuck.owner != "[":
        return None
    return stuck.refuse(
        QueryCode.PARAMETER_TYPE,
        "there is no list of vectors",
        expected="a list of scalars such as [String], or one Vector(n)",
    )


def _among(stuck: Stuck) -> Diagnostic | None:
    if stuck.kind != "_DOT" or stuck.place.before.type != "_IN":
        return None
    variable, name = stuck.place.previous, stuck.following[0]
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        "'in' takes a list of literals or a parameter, not a property",
        label=f"membership in a property is {variable}.{name} contains …",
        expected="a list such as [1, 2], or a parameter",
    )


def _where(stuck: Stuck) -> Diagnostic | None:
    place, token = stuck.place, stuck.token
    if "_WHERE" in stuck.accepted:
        message, label = "a 'where' is needed", "it says which entities are meant"
    elif place.before.type == "_WHERE" and "EQUAL" in stuck.accepted:
        message = f"'where' takes one comparison, found {shown(token)}"
        label = "contains and starts_with belong to match"
    elif place.previous.type == "_WHERE":
        message = f"expected a property name after 'where', found {shown(token)}"
        label = "the property stands alone: where name = …"
    elif "INSERT" in stuck.accepted and stuck.kind in ("_AND", "_OR", "_COMMA"):
        message = f"'where' takes exactly one comparison, found {shown(token)}"
        label = "make one statement per condition, or select with a read first"
    else:
        return None
    return stuck.refuse(
        QueryCode.WHERE, message, label=label, expected="'where property = value', once"
    )


_SIGNATURES = {
    "now": "now()",
    "count": "count($v) or count($v.property)",
    "sum": "sum($v.property)",
    "avg": "avg($v.property)",
    "min": "min($v.property)",
    "max": "max($v.property)",
    "search": 'search($v.property, "text")',
    "match_text": 'match_text($v.property, "text")',
    "fuzzy": 'fuzzy($v.property, "text") or fuzzy($v.property, "text", 1)',
    "nearest": "nearest($v.property, $query)",
    "bm25": 'bm25($v.property, "text")',
    "rrf": "rrf(a, b) or rrf(a, b, 60), where a and b are nearest(…) or bm25(…)",
    "date": 'date("2026-02-14")',
    "datetime": 'datetime("2026-02-14T08:00:00Z")',
}


def _unknown_function(stuck: Stuck) -> Diagnostic | None:
    token = stuck.token
    if not is_call(token, stuck.following[0]) or stuck.kind != "WORD":
        return None
    near = did_you_mean(token, FUNCTIONS)
    return stuck.refuse(
        QueryCode.FUNCTION,
        f"there is no function {shown(token)}{suggestion(near)}",
        expected=f"one of {', '.join(FUNCTIONS)}",
    )


def _arguments(stuck: Stuck) -> Diagnostic | None:
    if stuck.owner not in FUNCTIONS:
        return None
    return stuck.refuse(
        QueryCode.FUNCTION,
        f"unexpected {shown(stuck.token)} in the arguments of {stuck.owner}(…)",
        expected=stuck.expected(),
        fix=_SIGNATURES[stuck.owner],
    )


def is_call(token: Token, after: Token) -> bool:
    """Whether a word is written as a function, its parenthesis right behind it."""
    return after.type == "_LPAREN" and after.start_pos == token.end_pos


def _hops(stuck: Stuck) -> Diagnostic | None:
    if stuck.owner != HOPS:
        return None
    low = stuck.place.previous if stuck.place.previous.type == "INT" else "1"
    return stuck.refuse(
        QueryCode.HOPS,
        f"hop bounds are written {{min,max}}, found {shown(stuck.token)}",
        label="two whole numbers, the first at least 1",
        expected=stuck.expected(),
        fix=f"{{{low},{low}}}",
    )


def _block_value(stuck: Stuck) -> Diagnostic | None:
    if stuck.token != "." or stuck.place.previous.type != "VARIABLE" or stuck.owner in FUNCTIONS:
        return None
    if not {"_COMMA", "RBRACE"} <= stuck.accepted:
        return None
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        "a property of a variable cannot stand in a block",
        label="compare two properties in a filter of their own: $a.x = $b.y",
        expected="a literal, a parameter or now()",
    )


def _pattern_in_condition(stuck: Stuck) -> Diagnostic | None:
    place = stuck.place
    if stuck.kind != "WORD" or place.previous.type != "VARIABLE":
        return None
    if place.before.type not in ("NOT", "_AND", "_OR", "GROUP"):
        return None
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        f"a condition compares values; '{place.previous} {stuck.token} …' is a traversal",
        label="a traversal is a clause of its own; without a match of it: not { … }",
        expected=stuck.expected(),
    )


def _edge_not(stuck: Stuck) -> Diagnostic | None:
    if stuck.kind != "NOT" or stuck.place.previous.type not in ("VARIABLE", "EDGE_OPEN", "_COLON"):
        return None
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        "'not' cannot be an edge word",
        label="a pattern that must not match is not { … }",
        expected=stuck.expected(),
    )


def _unexpected(stuck: Stuck) -> Diagnostic:
    where = f" inside '{stuck.owner}'" if stuck.owner and stuck.owner != HOPS else ""
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        f"unexpected {shown(stuck.token)}{where}",
        expected=stuck.expected(),
    )


_RULES: tuple[Rule, ...] = (
    _open_string,
    _open_comment,
    _still_open,
    _header,
    _outside,
    _arguments,
    _character,
    _query_head,
    _body,
    _nearest_direction,
    _vector_list,
    _list_item,
    _block_value,
    _pattern_in_condition,
    _edge_not,
    _among,
    _where,
    _hops,
    _empty_block,
    _clause_order,
    _unknown_function,
    _unexpected,
)


def too_deep(token: Token) -> Diagnostic:
    """The finding for a block nested past the bound."""
    return finding(
        QueryCode.NESTING,
        span_of(token),
        f"blocks are nested more than {NESTING_MAX} deep",
        expected=f"at most {NESTING_MAX} levels of '{{', '(', '[' and 'not'",
    )
