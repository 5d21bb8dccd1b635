"""Cutting query text into tokens, in time linear in its length, and naming the terminal each token is."""

import re
from collections.abc import Container, Iterator

from lark import Token

from omnigraphdb.language.source import Span

COMMENT = "COMMENT"
END = "$END"
_END = "END"

# Kinds that fit no grammar rule; each has its own explanation in `explain_outside`.
OPEN_STRING = "OPEN_STRING"
OPEN_COMMENT = "OPEN_COMMENT"
BAD_NUMBER = "BAD_NUMBER"
STRAY = "STRAY"

PUNCTUATION = {
    "{": "LBRACE",
    "}": "RBRACE",
    "(": "_LPAREN",
    ")": "RPAREN",
    "[": "LBRACKET",
    "]": "RBRACKET",
    ",": "_COMMA",
    ":": "_COLON",
    ".": "_DOT",
    "?": "QUESTION",
    "=": "EQUAL",
    "!=": "UNEQUAL",
    "<": "LESS",
    "<=": "LESS_EQUAL",
    ">": "GREATER",
    ">=": "GREATER_EQUAL",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "|": "_PIPE",
}

# Every alternative is possessive or has no inner choice, so that no text makes matching slow; the
# last two make it total. Habits of other languages ('text', ==, <>, &&) are one stray token each.
_TOKEN = re.compile(
    r"""[\s\ufeff]*+(?:
      (?P<WORD> [a-z_][A-Za-z0-9_]*+ )
    | (?P<VARIABLE> \$ [A-Za-z_][A-Za-z0-9_]*+ )
    | (?P<ANY_EDGE> --(?= (?: [\s\ufeff] | //[^\n]*+\n | /\*.*?\*/ )*+ [${] ) )
    | (?P<ROW> \$ (?=[\s]*\.) )
    | (?P<FOREIGN> == | => | -> | <> | && | \|\| | --[^\n]*+ | '[^'\n]*+' )
    | (?P<COMMENT> //[^\n]*+ | /\*.*?\*/ )
    | (?P<OPEN_COMMENT> /\*.*+ )
    | (?P<MARK> [<>!]= | [{}()\[\],:.?=<>+\-*/%|] )
    | (?P<TYPE> [A-Z][A-Za-z0-9_]*+ )
    | (?P<STRING> "(?: [^"\\]++ | \\. )*+" )
    | (?P<NUMBER> [0-9] (?: [eE][+-][0-9] | [A-Za-z0-9_] | \.[A-Za-z0-9_] )*+ \.?+ )
    | (?P<MCP> @mcp(?![A-Za-z0-9_]) )
    | (?P<ANNOTATION> @[A-Za-z0-9_]*+ )
    | (?P<OPEN_STRING> "[^\n]*+ )
    | (?P<STRAY> . )
    | (?P<END> \Z )
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_GROUPS = ("", *_TOKEN.groupindex)
_WRITTEN = frozenset({"MARK", "NUMBER", COMMENT, OPEN_STRING, _END})
# The token type of each group of the expression; None where it depends on the text, or where a token ends the reading.
_KINDS = tuple(
    None if group in _WRITTEN else STRAY if group == "FOREIGN" else group for group in _GROUPS
)
_NUMBERS = (
    ("INT", re.compile(r"[0-9]+")),
    ("FLOAT", re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")),
)


def span_of(token: Token) -> Span:
    """Return the span of a token."""
    return Span(token.start_pos or 0, token.end_pos or 0)


def scan(text: str, start: int = 0, *, comments: bool = True) -> Iterator[Token]:
    """Cut the text from an offset on; comments are tokens too if `comments` is set, the last token is the end."""
    kinds, signs, make = _KINDS, PUNCTUATION, token_at
    for match in _TOKEN.finditer(text, start):
        number: int = match.lastindex  # type: ignore[assignment]
        word = match[number]
        kind = kinds[number] or signs.get(word)
        if kind is None:
            kind = _kind_of(_GROUPS[number], word)
            if kind == _END:
                break
            if kind == COMMENT and not comments:
                continue
        end = match.end()
        yield make(kind, word, end - len(word), end)
        if kind == OPEN_STRING:
            # Looking for the end of each later string would run through the whole text every time.
            break
    yield make(END, "", len(text), len(text))


def token_at(kind: str, word: str, start: int, end: int) -> Token:
    """Make a token of a text; lines are counted when a message needs them."""
    # The constructor takes as long as everything else that is done to cut a token.
    token = str.__new__(Token, word)
    token.type = kind
    token.value = word
    token.start_pos = start
    token.end_pos = end
    return token


def _kind_of(group: str, word: str) -> str:
    if group != "NUMBER":
        return group
    return next((kind for kind, form in _NUMBERS if form.fullmatch(word)), BAD_NUMBER)


def read_words(text: str, start: int = 0) -> Iterator[Token]:
    """Cut the text like `scan`, without comments."""
    return scan(text, start, comments=False)


# ---- terminals: almost every keyword is also a valid name, so its position decides


SCALARS = frozenset(
    {"String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"}
)

HEADER = "use extensions"

KEYWORDS = {
    "use": "USE",
    "extensions": "EXTENSIONS",
    "query": "QUERY",
    "match": "_MATCH",
    "with": "_WITH",
    "per": "_PER",
    "union": "UNION",
    "all": "ALL",
    "return": "_RETURN",
    "distinct": "DISTINCT",
    "having": "_HAVING",
    "order": "_ORDER",
    "limit": "_LIMIT",
    "offset": "_OFFSET",
    "as": "_AS",
    "asc": "ASC",
    "desc": "DESC",
    "not": "NOT",
    "optional": "OPTIONAL",
    "and": "_AND",
    "or": "_OR",
    "is": "_IS",
    "in": "_IN",
    "between": "_BETWEEN",
    "contains": "CONTAINS",
    "starts_with": "STARTS_WITH",
    "ends_with": "ENDS_WITH",
    "matches": "MATCHES",
    "case": "CASE",
    "when": "_WHEN",
    "then": "_THEN",
    "else": "_ELSE",
    "end": "CASE_END",
    "exists": "EXISTS",
    "insert": "INSERT",
    "upsert": "UPSERT",
    "update": "UPDATE",
    "delete": "DELETE",
    "set": "_SET",
    "where": "_WHERE",
    "unnest": "UNNEST",
    "if": "IF",
    "absent": "ABSENT",
    "by": "_BY",
    "best": "_BEST",
    "returning": "_RETURNING",
    "true": "TRUE",
    "false": "FALSE",
    "null": "NULL",
}

AGGREGATES = ("count", "sum", "avg", "min", "max", "collect", "stddev", "percentile")

CALLS = (
    *("coalesce", "lower", "upper", "trim", "length", "substring", "replace", "concat"),
    *("abs", "round", "floor", "ceil", "year", "month", "day", "date_trunc", "duration"),
    *("size", "first", "last", "id", "type", "from", "to", "entity"),
    *("hops", "nodes", "edges"),
)
"""The functions of values."""

FUNCTIONS = {
    "now": "NOW",
    **dict.fromkeys(AGGREGATES, "AGGREGATE"),
    **dict.fromkeys(CALLS, "CALL"),
    "search": "SEARCH",
    "match_text": "SEARCH",
    "fuzzy": "FUZZY",
    "nearest": "NEAREST",
    "bm25": "BM25",
    "rrf": "RRF",
    "date": "DATE",
    "datetime": "DATE",
}

WORDS = frozenset({*KEYWORDS, *FUNCTIONS})
"""Every other word is a name wherever it stands."""

# Operators that are edge words in `$a in $b`: both readings fit after a bare variable.
_EDGE_LIKE = frozenset(
    {"_IN", "_IS", "_BETWEEN", "CONTAINS", "STARTS_WITH", "ENDS_WITH", "MATCHES", "_AND", "_OR"}
)

RELATING = frozenset(word for word, kind in KEYWORDS.items() if kind in _EDGE_LIKE)
"""Words behind an operand."""

_RELATIONS = frozenset({"EQUAL", "UNEQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})

_JOINS = frozenset({"_AND", "_OR"})

# Nothing is ordered by a constant, but a column may be called `null`.
_TRUTHS = frozenset({"TRUE", "FALSE"})
_CONSTANTS = _TRUTHS | {"NULL"}

# Words that begin an expression only before these; elsewhere they are names.
_OPENERS = {"CASE": "when", "EXISTS": "{"}

# Tokens that follow a name that ends its item, so that `not` there is a name.
_ENDS = frozenset({"}", ",", ")", "asc", "desc"})

UNDECIDED = frozenset({"WORD", "TYPE", "_LPAREN", "LESS", "VARIABLE", "MINUS"})
"""Kinds of tokens that are different terminals in different places; every other token is its own terminal."""


def choose_terminal(
    token: Token, following: tuple[Token, Token, Token], choices: Container[str]
) -> str:
    """Name the terminal of a token, given the next three tokens and the choices of the parser.

    Like the parser's action table, `choices` holds terminals and the rules that may begin here.
    """
    match token.type:
        case "WORD":
            # Most words are names only, and a text may be long.
            return _word(token, following[0], choices) if token.value in WORDS else "WORD"
        case "VARIABLE" if "SUBJECT" in choices and _begins_pattern(following):
            return "SUBJECT"
        case "TYPE":
            return _type(token, choices)
        case "_LPAREN" if "_LPAREN" not in choices and "GROUP" in choices:
            return "GROUP"
        case "MINUS" if "MINUS" not in choices and "SIGN" in choices:
            return "SIGN"
        case "LESS" if _is_edge(following):
            return "EDGE_OPEN"
    return token.type


def _is_edge(following: tuple[Token, ...]) -> bool:
    return following[0].type in ("WORD", "TYPE") and following[1].type in ("GREATER", "_PIPE")


def _begins_pattern(following: tuple[Token, Token, Token]) -> bool:
    """Whether a variable begins a binding or a traversal, and not an expression."""
    after, later, last = following
    if after.type != "WORD":
        is_edge = after.type == "LESS" and _is_edge((later, last))
        return is_edge or after.type in ("_COLON", "VARIABLE", "TYPE", "ANY_EDGE")
    keyword = KEYWORDS.get(after.value)
    if keyword not in _EDGE_LIKE or (keyword == "_BETWEEN" and last.value == "and"):
        return keyword != "_BETWEEN"
    return later.type in ("LBRACE", "_PIPE") or (later.type == "VARIABLE" and last.type != "_DOT")


def _word(token: Token, after: Token, choices: Container[str]) -> str:
    keyword = None if after.type == "_COLON" else _keyword(token, after)
    if keyword is None or ("key" in choices and keyword in _CONSTANTS):
        return "WORD"
    if keyword == "NOT" and "WORD" in choices and after.value in _ENDS:
        return "WORD"
    # A condition of a statement may begin with a property of any name; a truth value is not a name.
    if "predicate" in choices and after.type in _RELATIONS and keyword not in _TRUTHS:
        return "WORD"
    if "edge_word" in choices and keyword == "NOT":
        return keyword
    # Between the parts of a condition a name in the place of such a word could only be a slip.
    if keyword in _JOINS and "negation" in choices and "expr" not in choices:
        return keyword
    return keyword if keyword in choices or "WORD" not in choices else "WORD"


def _keyword(token: Token, after: Token) -> str | None:
    """Return the terminal that a word may be besides a name."""
    if after.type == "_LPAREN" and token.value in FUNCTIONS:
        return FUNCTIONS[token.value]
    if token.value == "count" and after.type == "LBRACE":
        return "COUNT"
    keyword = KEYWORDS.get(token.value)
    return keyword if keyword not in _OPENERS or after.value == _OPENERS[keyword] else None


def _type(token: Token, choices: Container[str]) -> str:
    if "VECTOR" in choices and token.value == "Vector":
        return "VECTOR"
    if "SCALAR" in choices and token.value in SCALARS:
        return "SCALAR"
    return "TYPE"
