"""The tree of a schema text, built rule by rule while the parser reduces."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast

from lark import Token, Transformer

from omnigraphdb.language.schema.tree import (
    Annotation,
    Argument,
    Card,
    Constraint,
    ConstraintKind,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Name,
    NodeDecl,
    Number,
    Property,
    SchemaTree,
    TypeExpr,
)
from omnigraphdb.language.source import Span
from omnigraphdb.values import dataclass

Part = Any
"""A token, or the value that an earlier rule made of some tokens."""

ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_ESCAPE = re.compile(r"\\([\s\S])")
_DIGITS_MAX = 18
_BEYOND = 10**_DIGITS_MAX
_FORMS: dict[str, Literal["string", "float", "int", "bool", "ident"]] = {
    "STRING": "string",
    "FLOAT": "float",
    "INT": "int",
    "BOOL": "bool",
    "IDENT": "ident",
}


def unescape(quoted: str) -> str:
    """Read a quoted text; an unknown escape stays as written."""
    return _ESCAPE.sub(lambda match: ESCAPES.get(match[1], match[0]), quoted[1:-1])


def bad_escapes(token: Token) -> Iterator[tuple[str, Span]]:
    """Find the escapes of a string token that the language does not have, and their positions."""
    start = token_span(token).start
    for match in _ESCAPE.finditer(token):
        if match[1] not in ESCAPES:
            yield match[0], Span(start + match.start(), start + match.end())


def token_span(token: Token) -> Span:
    """Return the span of a token."""
    return Span(cast(int, token.start_pos), cast(int, token.end_pos))


def whole_number(digits: str) -> int:
    """Read digits; past every bound of the language the value stops growing, however many digits follow."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _DIGITS_MAX else _BEYOND


def mark_word(token: Token) -> str:
    """Return the word of a constraint mark, which may stand apart from its `@`."""
    return re.split(r"\W", token)[-1]


@dataclass(frozen=True, slots=True)
class _Body:
    members: tuple[Property | Constraint, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Implements:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyword:
    name: Name
    value: Argument
    span: Span


def _span(parts: Sequence[Part]) -> Span:
    return _locate(parts[0]).to(_locate(parts[-1]))


def _locate(part: Part) -> Span:
    return token_span(part) if isinstance(part, Token) else part.span


def _name(token: Token) -> Name:
    return Name(str(token), token_span(token))


def _names(parts: Iterable[Part], *types: str) -> tuple[Name, ...]:
    return tuple(_name(part) for part in parts if isinstance(part, Token) and part.type in types)


def _tokens(parts: Iterable[Part], kind: str) -> tuple[Token, ...]:
    return tuple(part for part in parts if isinstance(part, Token) and part.type == kind)


def _argument(token: Token) -> Argument:
    form = _FORMS[token.type]
    text = unescape(token) if form == "string" else str(token)
    return Argument(text=text, form=form, span=token_span(token))


class TreeBuilder(Transformer[Token, SchemaTree]):
    """One method per rule of the grammar, named as the rule; each gets the parts in text order."""

    def schema(self, parts: list[Part]) -> SchemaTree:
        """Build a whole file."""
        return SchemaTree(tuple(cast(list[Declaration], parts)))

    def rest(self, _parts: list[Part]) -> SchemaTree:
        """Build the rest of a file that has errors before; only its own errors are of interest."""
        return SchemaTree()

    def interface(self, parts: list[Part]) -> InterfaceDecl:
        """Build `interface Name { properties }`."""
        return InterfaceDecl(
            name=_name(parts[1]),
            properties=tuple(part for part in parts if isinstance(part, Property)),
            span=_span(parts),
        )

    def node(self, parts: list[Part]) -> NodeDecl:
        """Build `node Name @annotation… implements A, B { members }`."""
        return NodeDecl(
            name=_name(parts[1]),
            annotations=tuple(part for part in parts if isinstance(part, Annotation)),
            implements=next((part.names for part in parts if isinstance(part, _Implements)), ()),
            members=parts[-1].members,
            span=_span(parts),
        )

    def edge(self, parts: list[Part]) -> EdgeDecl:
        """Build `edge Name: From -> To @card(…) @annotation… { members }`."""
        name, source, target = _names(parts, "TYPE_NAME")
        body = parts[-1] if isinstance(parts[-1], _Body) else None
        return EdgeDecl(
            name=name,
            source=source,
            target=target,
            card=next((part for part in parts if isinstance(part, Card)), None),
            annotations=tuple(part for part in parts if isinstance(part, Annotation)),
            members=body.members if body else (),
            has_body=body is not None,
            span=_span(parts),
        )

    def implements(self, parts: list[Part]) -> _Implements:
        """Build `implements A, B`."""
        return _Implements(_names(parts, "TYPE_NAME"), _span(parts))

    def card(self, parts: list[Part]) -> Card:
        """Build `@card(low..high)`."""
        low, *high = (whole_number(token) for token in _tokens(parts, "INT"))
        return Card(low=low, high=high[0] if high else None, span=_span(parts))

    def body(self, parts: list[Part]) -> _Body:
        """Build `{ members }`."""
        return _Body(tuple(parts[1:-1]), _span(parts))

    def property(self, parts: list[Part]) -> Property:
        """Build `name: type @annotation…`."""
        name, _, type_, *annotations = parts
        return Property(
            name=_name(name), type=type_, annotations=tuple(annotations), span=_span(parts)
        )

    def type(self, parts: list[Part]) -> TypeExpr:
        """Build a scalar, a list of scalars, an enum or a vector; maybe nullable."""
        scalars = _tokens(parts, "SCALAR")
        sizes = _tokens(parts, "INT")
        return TypeExpr(
            scalar=str(scalars[0]) if scalars else None,
            is_list=parts[0].type == "LSQB",
            enum_values=_names(parts, "ENUM_VALUE"),
            dimension=whole_number(sizes[0]) if sizes else None,
            nullable=parts[-1].type == "MARK",
            span=_span(parts),
        )

    def group(self, parts: list[Part]) -> Constraint:
        """Build `@key(a, …)`, `@unique(a, …)`, `@index(a, …)`; a literal keeps its quotes for the report."""
        return Constraint(
            kind=cast(ConstraintKind, mark_word(parts[0])),
            columns=_names(parts[1:], "IDENT", "STRING", "FLOAT", "INT"),
            span=_span(parts),
        )

    def range(self, parts: list[Part]) -> Constraint:
        """Build `@range(p, low..high)`, either side open."""
        bounds = parts[4:-1]
        dots = next(i for i, token in enumerate(bounds) if token.type == "DOTDOT")
        return Constraint(
            kind="range",
            columns=(_name(parts[2]),),
            low=_number(bounds[:dots]),
            high=_number(bounds[dots + 1 :]),
            span=_span(parts),
        )

    def check(self, parts: list[Part]) -> Constraint:
        """Build `@check(p, "pattern")`."""
        return Constraint(
            kind="check",
            columns=(_name(parts[2]),),
            pattern=_argument(parts[4]),
            span=_span(parts),
        )

    def annotation(self, parts: list[Part]) -> Annotation:
        """Build `@name`, `@name(value, key=value, …)`."""
        values = [part for part in parts if isinstance(part, Argument)]
        keywords = [part for part in parts if isinstance(part, _Keyword)]
        return Annotation(
            name=str(parts[1]),
            value=values[0] if values else None,
            keywords=tuple((keyword.name, keyword.value) for keyword in keywords),
            extra=tuple(values[1:]),
            span=_span(parts),
        )

    def keyword(self, parts: list[Part]) -> _Keyword:
        """Build `key=value`."""
        return _Keyword(name=_name(parts[0]), value=parts[2], span=_span(parts))

    def argument(self, parts: list[Part]) -> Argument:
        """Build a literal or a name."""
        return _argument(parts[0])

    literal = argument


def _number(tokens: Sequence[Token]) -> Number | None:
    return Number(text=str(tokens[0]), span=token_span(tokens[0])) if tokens else None
