"""Completion: the texts that may be written next at an offset of a query text, by its grammar and by the schema."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise, takewhile

from lark import Token

from omnigraphdb.catalog.mixed import find_node_type, join_types, list_implementing
from omnigraphdb.catalog.model import Catalog, EdgeType, Property, TableType
from omnigraphdb.language.query.parse import Expected, expect_at
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS, SCALARS, read_words
from omnigraphdb.language.query.tree import ANY_EDGE
from omnigraphdb.values import dataclass

_BODY = frozenset({"match", "unnest", "insert", "upsert", "update", "delete"})
_WRITES = ("INSERT", "UPSERT", "UPDATE", "DELETE")
_TESTED = ("_WHERE", "_AND", "_OR", "NOT", "GROUP")
_PARTS = frozenset({*_WRITES, "_MATCH", "_SET", "_WHERE", "IF", "_RETURNING"})
_EXPRESSION = frozenset({"WORD", "CALL"})
_ANNOTATIONS = {"@description": "ANNOTATION", "@instruction": "ANNOTATION", "@mcp": "MCP"}
_BEGUN = re.compile(r"\s*[a-z]*\Z", re.ASCII)
BARE_HEAD = "use extensions query shell() { "
"""The head that makes a body a query: a body may use every extension of the language."""
_ENDS = ("from", "to")
_IDS = ("id", "src", "dst")


class CompletionKind(StrEnum):
    """The kind of a completion."""

    KEYWORD = "keyword"
    FUNCTION = "function"
    TYPE = "type"
    EDGE = "edge"
    PROPERTY = "property"
    VARIABLE = "variable"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text that may replace the text from `start` up to the requested offset."""

    text: str
    kind: CompletionKind
    start: int
    detail: str = ""


def complete(source: str, offset: int, catalog: Catalog) -> list[Completion]:
    """List the words that may be written at an offset; each begins with the text that stands there already.

    A text without a declaration is read as the body of a query.
    """
    shift = len(BARE_HEAD) if is_bare(source) else 0
    expected = expect_at(BARE_HEAD + source if shift else source, offset + shift)
    start = expected.start - shift
    prefix = source[start:offset]
    words = {word.text: word for word in _list_choices(expected, catalog, start)}
    return [word for text, word in words.items() if text != prefix and _fits(text, prefix)]


def is_bare(source: str) -> bool:
    """Whether a text is the body of a query without its head."""
    return next(read_words(source)) in _BODY or _BEGUN.match(source) is not None


def _fits(text: str, prefix: str) -> bool:
    return text.lower().startswith(prefix.lower())


def _list_choices(expected: Expected, catalog: Catalog, start: int) -> Iterator[Completion]:
    scope = Scope(expected.taken, catalog)

    def offer(texts: Iterable[tuple[str, str]], kind: CompletionKind) -> Iterator[Completion]:
        for text, detail in texts:
            yield Completion(text=text, kind=kind, start=start, detail=detail)

    yield from offer(_values(expected, scope), CompletionKind.VALUE)
    if expected.choices >= _EXPRESSION:
        yield from offer(scope.aliases(), CompletionKind.VALUE)
    yield from offer(_properties(expected, scope), CompletionKind.PROPERTY)
    if "edge_word" in expected.choices:
        yield from offer(_edges(expected, scope), CompletionKind.EDGE)
    if {"VARIABLE", "SUBJECT"} & expected.choices:
        yield from offer(scope.variables(), CompletionKind.VARIABLE)
    yield from offer(_types(expected, catalog), CompletionKind.TYPE)
    yield from offer(_words(expected.choices, KEYWORDS), CompletionKind.KEYWORD)
    yield from offer(_words(expected.choices, _ANNOTATIONS, "("), CompletionKind.KEYWORD)
    yield from offer(_words(expected.choices, FUNCTIONS, "("), CompletionKind.FUNCTION)


def _words(
    choices: frozenset[str], terminals: Mapping[str, str], end: str = ""
) -> Iterator[tuple[str, str]]:
    return ((word + end, "") for word, kind in terminals.items() if kind in choices)


def _types(expected: Expected, catalog: Catalog) -> Iterator[tuple[str, str]]:
    if "SCALAR" in expected.choices:
        yield from ((name, "") for name in sorted(SCALARS))
    if "VECTOR" in expected.choices:
        yield "Vector(", ""
    if "TYPE" in expected.choices:
        yield from ((name, "node") for name in sorted(catalog.nodes))
        if expected.taken and expected.taken[-1].type == "_COLON":
            yield from ((name, "interface") for name in sorted(catalog.interfaces))
        if expected.taken and expected.taken[-1].type in _WRITES:
            yield from ((name, "edge") for name in sorted(catalog.edges))


def _edges(expected: Expected, scope: "Scope") -> Iterator[tuple[str, str]]:
    """List the edges that leave the type of the variable before the offset; all edges when its type is not known."""
    variable = next((token for token in reversed(expected.taken) if token.type == "VARIABLE"), None)
    if variable is not None and expected.taken[-1].type == "_COLON":
        variable = scope.find_start(variable)
    start_type = scope.types.get(str(variable))
    if "ANY_EDGE" in expected.choices:
        yield ANY_EDGE, "any edge, either way"
    for edge in scope.catalog.edges.values():
        # From the type at its end an edge is walked backwards.
        leaves = start_type is None or start_type.name in (edge.source, edge.target)
        if leaves and _joins_walk(edge, expected, scope):
            word = edge.name[0].lower() + edge.name[1:]
            yield word, f"{edge.source} -> {edge.target}"


def _joins_walk(edge: EdgeType, expected: Expected, scope: "Scope") -> bool:
    """Whether an edge fits the walk before the offset; edges walked in either direction connect one type with itself."""
    walk = list(takewhile(lambda token: token.type in ("WORD", "_PIPE"), reversed(expected.taken)))
    opener = expected.taken[-1 - len(walk)] if len(walk) < len(expected.taken) else None
    if opener is not None and opener.type == "EDGE_OPEN" and edge.source != edge.target:
        return False
    walked_edges = [scope.catalog.edge(str(token)) for token in walk if token.type == "WORD"]
    ends = {(other.source, other.target) for other in walked_edges if other is not None}
    return edge not in walked_edges and ends <= {(edge.source, edge.target)}


def _properties(expected: Expected, scope: "Scope") -> Iterator[tuple[str, str]]:
    """List the properties of the entity that the offset is about."""
    tokens = expected.taken
    if "WORD" not in expected.choices:
        return
    if len(tokens) > 1 and tokens[-1].type == "_DOT" and tokens[-2].type == "VARIABLE":
        owner = scope.types.get(str(tokens[-2]))
        yield from scope.fields(str(tokens[-2]))
        yield from _describe(owner, ids=_IDS if isinstance(owner, EdgeType) else _IDS[:1])
    elif len(tokens) > 1 and tokens[-1].type == "_DOT" and tokens[-2].type == "ROW":
        yield from _describe(scope.written_type(), ids=())
    elif (walked := scope.walked_type(expected.opened)) is not None:
        if tokens[-1].type in (*_TESTED, "_BY"):
            yield from _describe(walked, ids=())
    elif (part := scope.written_part(expected.opened)) and expected.choices >= _EXPRESSION:
        yield from _describe(scope.written_type(), ids=_ENDS)
        if part == "_RETURNING":
            yield from _returned(scope)
    elif (
        tokens
        and tokens[-1].type != "_COLON"
        and "LBRACE" in (tokens[number].type for number in expected.opened[-1:])
    ):
        opened = expected.opened[-1]
        assigned = {str(token) for token in tokens[opened:] if token.type == "WORD"}
        # An update cannot move the ends of an edge.
        ends = () if tokens[opened - 1].type == "_SET" else _ENDS
        names = _describe(scope.braced_type(opened), ids=ends)
        yield from ((f"{name}: ", detail) for name, detail in names if name not in assigned)


def _returned(scope: "Scope") -> Iterator[tuple[str, str]]:
    """List the columns that a statement can return besides the properties of its rows."""
    yield "id", "String"
    if scope.tells_created():
        yield "created", "Bool"


def _describe(owner: TableType | None, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    if owner is None:
        return
    yield from ((name, str(declared.type)) for name, declared in owner.properties.items())
    if ids != _ENDS or isinstance(owner, EdgeType):
        yield from ((name, "String") for name in ids)


def _values(expected: Expected, scope: "Scope") -> Iterator[tuple[str, str]]:
    """List the values of the enum that is compared or assigned."""
    property_ = _assigned_property(expected, scope) or _compared_property(expected, scope)
    if property_ is not None:
        yield from ((f'"{value}"', str(property_.type)) for value in property_.type.enum_values)


def _assigned_property(expected: Expected, scope: "Scope") -> Property | None:
    tokens = expected.taken
    if len(tokens) < 2 or tokens[-1].type != "_COLON" or not expected.opened:
        return None
    owner = scope.braced_type(expected.opened[-1])
    return owner.properties.get(str(tokens[-2])) if owner else None


def _compared_property(expected: Expected, scope: "Scope") -> Property | None:
    tokens = expected.taken
    if len(tokens) < 4 or tokens[-1].type not in ("EQUAL", "UNEQUAL"):
        return None
    if tokens[-3].type == "_DOT":
        owner = scope.types.get(str(tokens[-4]))
    else:
        owner = scope.written_type() if scope.written_part(expected.opened) else None
    return owner.properties.get(str(tokens[-2])) if owner else None


class Scope:
    """The variables and types that the tokens before an offset name."""

    def __init__(self, tokens: Sequence[Token], catalog: Catalog) -> None:
        self.catalog = catalog
        self._tokens = tokens
        self.types: dict[str, TableType] = {}
        for number, token in enumerate(tokens):
            if token.type == "VARIABLE":
                self._note_binding(number)
            elif token.type == "WORD":
                self._note_traversal(number)

    def variables(self) -> Iterator[tuple[str, str]]:
        """List every variable and parameter, with its type where it is known."""
        for token in self._tokens:
            if token.type == "VARIABLE":
                type_ = self.types.get(str(token))
                yield str(token), type_.name if type_ else ""

    def aliases(self) -> Iterator[tuple[str, str]]:
        """List every name that an item has with `as`."""
        for before, token in pairwise(self._tokens):
            if before.type == "_AS" and token.type == "WORD":
                yield str(token), "item"

    def written_type(self) -> TableType | None:
        """Return the type of the last statement that writes."""
        for before, token in zip(
            reversed(self._tokens[:-1]), reversed(self._tokens[1:]), strict=True
        ):
            if before.type in _WRITES:
                name = str(token)
                return self._find(name) if token.type == "TYPE" else self.types.get(name)
        return None

    def written_part(self, opened: Sequence[int]) -> str | None:
        """Return the part of a statement that the innermost braces are in: its condition or its returned items."""
        braces = [position for position in opened if self._tokens[position].type == "LBRACE"]
        last = next((token.type for token in reversed(self._tokens) if token.type in _PARTS), None)
        # Inside of the braces of the query alone, only a condition can be open.
        if last == "_WHERE" and len(braces) == 1:
            return last
        if len(braces) == 2 and self._tokens[braces[-1] - 1].type == "_RETURNING":
            return "_RETURNING"
        return None

    def tells_created(self) -> bool:
        """Whether the last statement tells which of its rows are new."""
        kinds = [token.type for token in self._tokens]
        last = max((n for n, kind in enumerate(kinds) if kind in _WRITES), default=0)
        return kinds[last] == "UPSERT" or "ABSENT" in kinds[last:]

    def fields(self, variable: str) -> Iterator[tuple[str, str]]:
        """List the fields of the records that a variable unnests."""
        for number, token in enumerate(self._tokens[:-3]):
            if token.type == "UNNEST" and str(self._tokens[number + 3]) == variable:
                yield from self._list_fields(str(self._tokens[number + 1]))

    def find_start(self, edge_variable: Token) -> Token:
        """Return the variable at the start of a walk whose edge has a variable."""
        variables = [token for token in self._tokens if token.type == "VARIABLE"]
        return variables[-2] if len(variables) > 1 else edge_variable

    def walked_type(self, opened: Sequence[int]) -> TableType | None:
        """Return the edge type whose walk the innermost braces bound."""
        braces = [position for position in opened if self._tokens[position].type == "LBRACE"]
        before = (
            [token for token in self._tokens[: braces[-1]] if token.type != "GREATER"]
            if braces
            else []
        )
        return self.catalog.edge(str(before[-1])) if before and before[-1].type == "WORD" else None

    def braced_type(self, opened: int) -> TableType | None:
        """Return the type whose properties an open brace lists."""
        if opened and self._tokens[opened].type == "LBRACE":
            before = self._tokens[opened - 1]
            if before.type == "TYPE":
                return self._find(str(before))
            if before.type == "_SET":
                return self.written_type()
        return None

    def _find(self, name: str) -> TableType | None:
        if name in self.catalog.interfaces:
            name = join_types(list_implementing(self.catalog, name))
            return find_node_type(self.catalog, name) if name else None
        return self.catalog.nodes.get(name) or self.catalog.edges.get(name)

    def _note_binding(self, number: int) -> None:
        behind = self._tokens[number + 1 : number + 3]
        if [token.type for token in behind] == ["_COLON", "TYPE"]:
            type_ = self._find(str(behind[1]))
            if type_ is not None:
                self.types[str(self._tokens[number])] = type_

    def _note_traversal(self, number: int) -> None:
        edge = self.catalog.edge(str(self._tokens[number]))
        before = [token for token in self._tokens[:number] if token.type == "VARIABLE"]
        behind = self._find_end(number)
        if edge is None or not before or behind is None:
            return
        is_named = self._is_named(number)
        if is_named:
            self.types[str(before[-1])] = edge
        near = before[-2] if is_named and len(before) > 1 else before[-1]
        ends = self._orient(edge, str(near), str(behind))
        for variable, end in zip((near, behind), ends, strict=True):
            if end in self.catalog.nodes:
                self.types.setdefault(str(variable), self.catalog.nodes[end])

    def _is_named(self, number: int) -> bool:
        before = [token.type for token in self._tokens[:number] if token.type != "EDGE_OPEN"]
        return before[-1:] == ["_COLON"]

    def _orient(self, edge: EdgeType, near: str, far: str) -> tuple[str, str]:
        """Return the types at both sides of a walk; it goes against the edge where a known type says so."""
        types = self.types.get(near), self.types.get(far)
        names = [type_.name if type_ else None for type_ in types]
        backwards = names[0] == edge.target or names[1] == edge.source
        if backwards and edge.source != edge.target:
            return edge.target, edge.source
        return edge.source, edge.target

    def _find_end(self, number: int) -> Token | None:
        """Return the variable behind the edges and the bounds of a walk."""
        depth = 0
        for token in self._tokens[number + 1 :]:
            depth += {"LBRACE": 1, "RBRACE": -1}.get(token.type, 0)
            if depth == 0 and token.type not in ("RBRACE", "WORD", "_PIPE", "GREATER"):
                return token if token.type == "VARIABLE" else None
        return None

    def _list_fields(self, parameter: str) -> Iterator[tuple[str, str]]:
        heads = ["VARIABLE", "_COLON", "LBRACKET", "LBRACE"]
        for number, token in enumerate(self._tokens):
            kinds = [following.type for following in self._tokens[number : number + 4]]
            if kinds == heads and str(token) == parameter:
                yield from self._read_fields(number + 4)
                return

    def _read_fields(self, start: int) -> Iterator[tuple[str, str]]:
        depth = 0
        for number, token in enumerate(self._tokens[start:], start):
            depth += {"LBRACE": 1, "RBRACE": -1}.get(token.type, 0)
            if depth < 0:
                return
            if depth == 0 and token.type == "WORD":
                yield str(token), self._show_type(number + 2)

    def _show_type(self, start: int) -> str:
        tokens = takewhile(
            lambda token: token.type not in ("_COMMA", "RBRACE"), self._tokens[start:]
        )
        return "".join(str(token) for token in tokens)
