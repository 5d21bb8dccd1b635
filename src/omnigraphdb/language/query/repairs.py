"""Mistakes with one possible meaning: they are reported, and parsing continues with the meant tokens."""

from collections.abc import Callable, Container

from lark import Token

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.language.diagnostics import Diagnostic, finding, fix_line, show_text
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.state import ParserState
from omnigraphdb.language.query.tokens import BAD_NUMBER, SCALARS, STRAY, choose_terminal, span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.language.source import Source, Span
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedToken:
    """A token that the parser cannot take, and the terminals that it could take."""

    source: Source
    token: Token
    following: tuple[Token, Token, Token]
    state: ParserState
    choices: Container[str]

    def meant(self, kind: str, text: str) -> Token:
        """Make the token that belongs here."""
        return read_as(self.token, kind, text)

    def fixed(self, text: str) -> str:
        """Return the line as it should be."""
        return fix_line(self.source, span_of(self.token), text)


@dataclass(frozen=True, slots=True)
class Repair:
    """A finding to report, and the tokens to read instead."""

    finding: Diagnostic
    tokens: tuple[Token, ...]


def read_as(token: Token, kind: str, text: str) -> Token:
    """Make a token of another kind and text at the same position."""
    return Token(kind, text, token.start_pos, 0, 0, 0, 0, token.end_pos)


def repair(slip: UnexpectedToken) -> Repair | None:
    """Correct a mistake that has one possible meaning."""
    return next((correction for rule in _RULES if (correction := rule(slip))), None)


def _repair_missing_parameters(slip: UnexpectedToken) -> Repair | None:
    token, name = slip.token, slip.state.previous
    if "_LPAREN" not in slip.choices or slip.state.before.type != "QUERY":
        return None
    if token.type not in ("LBRACE", "ANNOTATION", "MCP"):
        return None
    end = span_of(name).end
    return Repair(
        finding(
            QueryCode.PARAMETER_LIST,
            span_of(token),
            f"expected '(' after the query name {render_token(name)}",
            label="a query declares its parameters even when there are none",
            expected="'('",
            fix=fix_line(slip.source, Span(end, end), "()"),
        ),
        (slip.meant("_LPAREN", "("), slip.meant("RPAREN", ")"), token),
    )


def _repair_missing_colon(slip: UnexpectedToken) -> Repair | None:
    token, previous = slip.token, slip.state.previous
    bound = token.type == "TYPE" and slip.following[0].type not in ("VARIABLE", "LBRACE")
    if previous.type != "VARIABLE" or "_COLON" not in slip.choices or not bound:
        return None
    return Repair(
        finding(
            QueryCode.UNEXPECTED,
            span_of(token),
            f"expected ':' between {render_token(previous)} and its type {render_token(token)}",
            expected="':'",
            fix=fix_line(slip.source, span_of(previous), f"{previous}:"),
        ),
        (slip.meant("_COLON", ":"), slip.meant("TYPE", token)),
    )


def _repair_equals_for_colon(slip: UnexpectedToken) -> Repair | None:
    if slip.token.type != "EQUAL" or "_COLON" not in slip.choices:
        return None
    return Repair(
        finding(
            QueryCode.UNEXPECTED,
            span_of(slip.token),
            f"a property in a block is written '{show_text(slip.state.previous)}: value'",
            expected="':'",
            fix=slip.fixed(":"),
        ),
        (slip.meant("_COLON", ":"),),
    )


def _repair_comma(slip: UnexpectedToken) -> Repair | None:
    inside = slip.state.inside
    if slip.token.type != "_COMMA" or inside is None:
        return None
    if inside.owner not in ("match", "not", "optional") or "NOT" not in slip.choices:
        return None
    return Repair(
        finding(
            QueryCode.UNEXPECTED,
            span_of(slip.token),
            "a comma stands only between two clauses, and once",
            label="a space or a new line is enough",
            expected="a clause",
            fix=slip.fixed(""),
        ),
        (),
    )


# ---- upper and lower case

_ROLE_AFTER = {
    "VARIABLE": "an edge",
    "EDGE_OPEN": "an edge",
    "_COLON": "an edge",
    "_DOT": "a property",
    "_WHERE": "a property",
    "_AS": "an alias",
    "QUERY": "a query name",
}


def _repair_upper_keyword(slip: UnexpectedToken) -> Repair | None:
    lower = slip.meant("WORD", slip.token.lower())
    kind = choose_terminal(lower, slip.following, slip.choices)
    if slip.token.type != "TYPE" or kind == "WORD" or kind not in slip.choices:
        return None
    return Repair(
        finding(
            QueryCode.KEYWORD_CASE,
            span_of(slip.token),
            f"the keyword {render_token(slip.token)} is written in lower case",
            expected=f"'{show_text(lower)}'",
            fix=slip.fixed(lower),
        ),
        (slip.meant(kind, lower),),
    )


def _repair_upper_name(slip: UnexpectedToken) -> Repair | None:
    if slip.token.type != "TYPE" or "WORD" not in slip.choices:
        return None
    lower = slip.token[0].lower() + slip.token[1:]
    role = _ROLE_AFTER.get(slip.state.previous.type, "a name")
    return Repair(
        finding(
            QueryCode.NAME_CASE,
            span_of(slip.token),
            f"{render_token(slip.token)} starts with an upper-case letter, as only types do",
            label=f"{role} is written with a lower-case first letter",
            expected=f"'{show_text(lower)}'",
            fix=slip.fixed(lower),
        ),
        (slip.meant("WORD", lower),),
    )


def _repair_lower_type(slip: UnexpectedToken) -> Repair | None:
    token = slip.token
    if "TYPE" not in slip.choices or not (token[:1].isalpha() or token.startswith("_")):
        return None
    upper = token.lstrip("_")[:1].upper() + token.lstrip("_")[1:] or "Type"
    return Repair(
        finding(
            QueryCode.TYPE_CASE,
            span_of(token),
            f"type name {render_token(token)} starts with a lower-case letter",
            label="type names start with an upper-case letter",
            expected=f"'{show_text(upper)}'",
            fix=slip.fixed(upper),
        ),
        (slip.meant("TYPE", upper),),
    )


# ---- parameter types

_HABITS = {
    "text": "String",
    "str": "String",
    "varchar": "String",
    "id": "String",
    "int": "I64",
    "integer": "I64",
    "long": "I64",
    "bigint": "I64",
    "uint": "U64",
    "short": "I32",
    "float": "F64",
    "double": "F64",
    "number": "F64",
    "boolean": "Bool",
    "timestamp": "DateTime",
    "time": "DateTime",
    "bytes": "Blob",
    "binary": "Blob",
}


def _repair_unknown_scalar(slip: UnexpectedToken) -> Repair | None:
    token = slip.token
    if "SCALAR" not in slip.choices or not token[:1].isalpha() or token == "Vector":
        return None
    habit = _HABITS.get(token.lower())
    near = [habit] if habit else did_you_mean(token, sorted(SCALARS))
    return Repair(
        finding(
            QueryCode.PARAMETER_TYPE,
            span_of(token),
            f"unknown parameter type {render_token(token)}{suggestion(near)}",
            expected=f"{', '.join(sorted(SCALARS))}, a list [T] of one of them, or Vector(n)",
            fix=slip.fixed(near[0]) if near else None,
        ),
        (slip.meant("SCALAR", "String"),),
    )


# ---- habits of other languages

_SIGNS = {"==": "EQUAL", "<>": "UNEQUAL", "&&": "_AND", "||": "_OR"}
_SPELLED = {"EQUAL": "=", "UNEQUAL": "!=", "_AND": "and", "_OR": "or"}


def _repair_foreign_sign(slip: UnexpectedToken) -> Repair | None:
    kind = _SIGNS.get(slip.token)
    if kind is None or kind not in slip.choices:
        return None
    sign = _SPELLED[kind]
    return Repair(
        finding(
            QueryCode.CHARACTER,
            span_of(slip.token),
            f"{render_token(slip.token)} is written '{sign}'",
            expected=f"'{sign}'",
            fix=slip.fixed(sign),
        ),
        (slip.meant(kind, sign),),
    )


def _repair_single_quotes(slip: UnexpectedToken) -> Repair | None:
    if slip.token[:1] != "'" or len(slip.token) < 2 or "STRING" not in slip.choices:
        return None
    quoted = '"' + slip.token[1:-1].replace("\\", "\\\\").replace('"', '\\"') + '"'
    return Repair(
        finding(
            QueryCode.CHARACTER,
            span_of(slip.token),
            "a string is written in double quotes",
            expected=show_text(quoted),
            fix=slip.fixed(quoted),
        ),
        (slip.meant("STRING", quoted),),
    )


def _repair_semicolon(slip: UnexpectedToken) -> Repair | None:
    if slip.token.type != STRAY or slip.token != ";":
        return None
    return Repair(
        finding(
            QueryCode.CHARACTER,
            span_of(slip.token),
            "';' is not part of the language",
            label="nothing separates clauses, items and statements; items may have a ','",
            expected="nothing in its place",
            fix=slip.fixed("") or None,
        ),
        (),
    )


def _repair_bad_number(slip: UnexpectedToken) -> Repair | None:
    kind = next((kind for kind in ("FLOAT", "INT") if kind in slip.choices), None)
    if slip.token.type != BAD_NUMBER or kind is None:
        return None
    return Repair(
        finding(
            QueryCode.NUMBER,
            span_of(slip.token),
            f"malformed number {render_token(slip.token)}",
            label=_number_hint(slip.token),
            expected="digits, or digits.digits",
        ),
        (slip.meant(kind, "0"),),
    )


def _number_hint(token: Token) -> str:
    if token.endswith("."):
        return "digits are missing behind the point"
    return "a space is missing before the word" if token.isalnum() else "one point is enough"


_RULES: tuple[Callable[[UnexpectedToken], Repair | None], ...] = (
    _repair_missing_parameters,
    _repair_equals_for_colon,
    _repair_comma,
    _repair_upper_keyword,
    _repair_missing_colon,
    _repair_upper_name,
    _repair_unknown_scalar,
    _repair_lower_type,
    _repair_foreign_sign,
    _repair_single_quotes,
    _repair_semicolon,
    _repair_bad_number,
)
