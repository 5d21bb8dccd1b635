"""Cutting query text into tokens: total, linear, and without a word about what follows what."""

import re
from collections.abc import Iterator

from lark import Token

from omnigraph.language.source import Span

COMMENT = "COMMENT"
END = "$END"
_END = "END"

# Kinds that fit no grammar rule; each has its own explanation in `refusals`.
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
    """Where a token stands."""
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


def words(text: str, start: int = 0) -> Iterator[Token]:
    """The same without comments."""
    return (token for token in scan(text, start) if token.type != COMMENT)
