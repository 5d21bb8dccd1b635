"""Cutting query text into tokens, in time linear in its length, and naming the terminal each token is."""

import re
from collections.abc import Container, Iterator

from lark import Token

from omnigraph.language.source import Span

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
}

# Every alternative is possessive or has no inner choice, so that no text makes matching slow; the
# last two make it total. Habits of other languages ('text', ==, <>, &&) are one stray token each.
_TOKEN = re.compile(
    r"""[\s\ufeff]*+(?:
      (?P<WORD> [a-z_][A-Za-z0-9_]*+ )
    | (?P<VARIABLE> \$ [A-Za-z_][A-Za-z0-9_]*+ )
    | (?P<FOREIGN> == | => | -> | <> | && | \|\| | --[^\n]*+ | '[^'\n]*+' )
    | (?P<MARK> [<>!]= | [{}()\[\],:.?=<>] )
    | (?P<TYPE> [A-Z][A-Za-z0-9_]*+ )
    | (?P<STRING> "(?: [^"\\]++ | \\. )*+" )
    | (?P<NUMBER> -?[0-9] (?: [eE][+-][0-9] | [A-Za-z0-9_] | \.[A-Za-z0-9_] )*+ \.?+ )
    | (?P<COMMENT> //[^\n]*+ | /\*.*?\*/ )
    | (?P<ANNOTATION> @[A-Za-z0-9_]*+ )
    | (?P<OPEN_STRING> "[^\n]*+ )
    | (?P<OPEN_COMMENT> /\*.*+ )
    | (?P<STRAY> . )
    | (?P<END> \Z )
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NUMBERS = (
    ("INT", re.compile(r"[0-9]+")),
    ("FLOAT", re.compile(r"[0-9]+\.[0-9]+")),
    ("SIGNED", re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")),
)


def span_of(token: Token) -> Span:
    """The span of a token."""
    return Span(token.start_pos or 0, token.end_pos or 0)


def scan(text: str, start: int = 0) -> Iterator[Token]:
    """Cut the text from an offset on; comments are tokens too, the last token is the end."""
    for found in _TOKEN.finditer(text, start):
        group = found.lastgroup or _END
        if group == _END:
            break
        word = found[group]
        yield token_at(_kind(group, word), word, found.start(group), found.end())
        if group == OPEN_STRING:
            # Looking for the end of each later string would run through the whole text every time.
            break
    yield token_at(END, "", len(text), len(text))


def token_at(kind: str, word: str, start: int, end: int) -> Token:
    """A token of a text; lines are counted when something is said about it."""
    # The constructor takes as long as everything else that is done to cut a token.
    token = str.__new__(Token, word)
    token.type = kind
    token.value = word
    token.start_pos = start
    token.end_pos = end
    return token


def _kind(group: str, word: str) -> str:
    if group == "MARK":
        return PUNCTUATION[word]
    if group == "NUMBER":
        for kind, form in _NUMBERS:
            if form.fullmatch(word):
                return kind
        return BAD_NUMBER
    return STRAY if group == "FOREIGN" else group


def read_words(text: str, start: int = 0) -> Iterator[Token]:
    """The same without comments."""
    return (token for token in scan(text, start) if token.type != COMMENT)


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
    "return": "_RETURN",
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
    "contains": "CONTAINS",
    "starts_with": "STARTS_WITH",
    "insert": "INSERT",
    "update": "UPDATE",
    "delete": "DELETE",
    "set": "_SET",
    "where": "_WHERE",
    "true": "TRUE",
    "false": "FALSE",
    "null": "NULL",
}

FUNCTIONS = {
    "now": "NOW",
    "count": "AGGREGATE",
    "sum": "AGGREGATE",
    "avg": "AGGREGATE",
    "min": "AGGREGATE",
    "max": "AGGREGATE",
    "search": "SEARCH",
    "match_text": "SEARCH",
    "fuzzy": "FUZZY",
    "nearest": "NEAREST",
    "bm25": "BM25",
    "rrf": "RRF",
    "date": "DATE",
    "datetime": "DATE",
}

# Operators that are edge words in `$a in $b`: both readings fit after a bare variable.
_EDGE_LIKE = frozenset({"_IN", "_IS", "CONTAINS", "STARTS_WITH"})

# Words between conditions; a name in their place could only be a slip.
_JOINS = frozenset({"_AND", "_OR"})

# Nothing is ordered by a constant, but a column may be called `null`.
_CONSTANTS = frozenset({"TRUE", "FALSE", "NULL"})


UNDECIDED = frozenset({"WORD", "TYPE", "_LPAREN", "LESS"})
"""Kinds of tokens that are different terminals in different places; every other token is what it looks like."""


def choose_terminal(token: Token, following: tuple[Token, Token], choices: Container[str]) -> str:
    """Name the terminal a token is, given the next two and what the parser could take now.

    Like the parser's action table, `choices` holds terminals and the rules that may begin here.
    """
    match token.type:
        case "WORD":
            return _word(token, following, choices)
        case "TYPE":
            return _type(token, choices)
        case "_LPAREN" if "_LPAREN" not in choices and "GROUP" in choices:
            return "GROUP"
        case "LESS" if following[0].type in ("WORD", "TYPE") and following[1].type == "GREATER":
            return "EDGE_OPEN"
    return token.type


def _word(token: Token, following: tuple[Token, Token], choices: Container[str]) -> str:
    after, later = following
    if after.type == "_COLON":
        return "WORD"
    called = FUNCTIONS.get(token.value) if after.type == "_LPAREN" else None
    keyword = called or KEYWORDS.get(token.value)
    if keyword is None or ("key" in choices and keyword in _CONSTANTS):
        return "WORD"
    if ("edge_word" in choices and keyword == "NOT") or (
        "condition" in choices and keyword in _JOINS
    ):
        return keyword
    if "edge_word" in choices and keyword in _EDGE_LIKE and _ends_a_traversal(after, later):
        return "WORD"
    return keyword if keyword in choices or "WORD" not in choices else "WORD"


def _ends_a_traversal(after: Token, later: Token) -> bool:
    return after.type == "LBRACE" or (after.type == "VARIABLE" and later.type != "_DOT")


def _type(token: Token, choices: Container[str]) -> str:
    if "VECTOR" in choices and token.value == "Vector":
        return "VECTOR"
    if "SCALAR" in choices and token.value in SCALARS:
        return "SCALAR"
    return "TYPE"
