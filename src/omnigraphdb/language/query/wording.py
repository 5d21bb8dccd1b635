"""Wording of tokens, expectations and fixes."""

from collections.abc import Iterable

from lark import Token

from omnigraphdb.language.diagnostics import join_alternatives, show_text
from omnigraphdb.language.query.tokens import END, FUNCTIONS, KEYWORDS

EXPECTED_SHOWN_MAX = 8

_LITERALS = frozenset({"STRING", "INT", "FLOAT", "TRUE", "FALSE", "NULL", "DATE", "LBRACKET"})
_EXPRESSIONS = (
    _LITERALS
    | set(FUNCTIONS.values())
    | {"VARIABLE", "SUBJECT", "ROW", "WORD", "NOT", "GROUP", "SIGN", "CASE", "EXISTS", "COUNT"}
)
_CLAUSES = _EXPRESSIONS | {"OPTIONAL"}
_COMPARISONS = frozenset({"EQUAL", "UNEQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})
_TESTS = frozenset({"CONTAINS", "STARTS_WITH", "ENDS_WITH", "MATCHES", "_IS", "_IN", "_BETWEEN"})
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"})
# The name of a whole group, used when all of its first set is accepted; larger groups come first.
_GROUPS = (
    (frozenset({"STRING", "AGGREGATE", "OPTIONAL"}), _CLAUSES, "a clause"),
    (frozenset({"STRING", "AGGREGATE"}), _EXPRESSIONS, "an expression"),
    (frozenset({"STRING", "INT"}), _LITERALS, "a literal"),
    (_COMPARISONS, _COMPARISONS | _TESTS, "a comparison such as '='"),
    (_ARITHMETIC, _ARITHMETIC, "an operator such as '+'"),
)
_WORDS = {terminal: f"'{word}'" for word, terminal in (FUNCTIONS | KEYWORDS).items()} | {
    "WORD": "a name",
    "TYPE": "a type name",
    "VARIABLE": "a variable",
    "STRING": "a string",
    "INT": "a whole number",
    "SCALAR": "a type",
    "VECTOR": "'Vector'",
    "ANNOTATION": "an annotation",
    "MCP": "an annotation",
    "EDGE_OPEN": "'<'",
    "ANY_EDGE": "'--'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "_LPAREN": "'('",
    "GROUP": "'('",
    "RPAREN": "')'",
    "LBRACKET": "'['",
    "RBRACKET": "']'",
    "_COMMA": "','",
    "_COLON": "':'",
    "_DOT": "'.'",
    "QUESTION": "'?'",
    "MINUS": "'-'",
    "SIGN": "'-'",
    "SUBJECT": "a variable",
    "ROW": "'$.'",
    "STAR": "'*'",
    "_PIPE": "'|'",
    END: "the end of the text",
}
_NAMES_AFTER = {
    "QUERY": "a query name",
    "_DOT": "a property name",
    "_AS": "an alias",
    "VARIABLE": "an edge word",
    "EDGE_OPEN": "an edge word",
}


def render_token(token: Token) -> str:
    """Render a token for a message, quoted and cut to a bound."""
    return "the end of the text" if token.type == END else f"'{show_text(token)}'"


def describe_accepted(accepted: Iterable[str], previous: Token) -> str:
    """Describe the tokens that the parser could take, in the words of a person."""
    left, words = set(accepted), []
    for sign, group, name in _GROUPS:
        if sign <= left:
            words.append(name)
            left -= group
    words += sorted(_name_terminal(symbol, previous) for symbol in left)
    return join_alternatives(words[:EXPECTED_SHOWN_MAX])


def _name_terminal(terminal: str, previous: Token) -> str:
    if terminal == "WORD":
        return _NAMES_AFTER.get(previous.type, "a property name")
    return _WORDS.get(terminal, terminal.lower())
