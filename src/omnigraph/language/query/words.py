"""Which terminal a token is, where it stands: almost every keyword is also a fine name."""

from collections.abc import Container

from lark import Token

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


def terminal(token: Token, following: tuple[Token, Token], choices: Container[str]) -> str:
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
