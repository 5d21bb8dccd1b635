"""Completion: what may be written next at an offset of a query text, by its grammar and by the schema."""

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
"""What makes a body a query: a body may say all that the language knows."""
_ENDS = ("from", "to")
_IDS = ("id", "src", "dst")


class CompletionKind(StrEnum):
    """What a completion is."""

    KEYWORD = "keyword"
    FUNCTION = "function"
    TYPE = "type"
    EDGE = "edge"
    PROPERTY = "property"
    VARIABLE = "variable"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text that may replace the one from `start` up to the offset that was asked for."""

    text: str
    kind: CompletionKind
    start: int
    detail: str = ""


def complete(source: str, offset: int, catalog: Catalog) -> list[Completion]:
    """Every word that may be written at an offset; what the text has begun there is a prefix of each.

    A text without a declaration is read as the body of a query.
    """
    shift = len(BARE_HEAD) if is_bare(source) else 0
    expected = expect_at(BARE_HEAD + source if shift else source, offset + shift)
    start = expected.start - shift
    begun = source[start:offset]
    found = {one.text: one for one in _list_choices(expected, catalog, start)}
    return [one for text, one in found.items() if text != begun and _fits(text, begun)]


def is_bare(source: str) -> bool:
    """Whether a text is the body of a query without its head."""
    return next(read_words(source)) in _BODY or _BEGUN.match(source) is not None


def _fits(text: str, begun: str) -> bool:
    return text.lower().startswith(begun.lower())


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
    """Edges that leave the type of the variable before the offset; all of them when it is not known."""
    variable = next((one for one in reversed(expected.taken) if one.type == "VARIABLE"), None)
    if variable is not None and expected.taken[-1].type == "_COLON":
        variable = scope.find_start(variable)
    known = scope.types.get(str(variable))
    if "ANY_EDGE" in expected.choices:
        yield ANY_EDGE, "any edge, either way"
    for edge in scope.catalog.edges.values():
        # From the type at its end an edge is walked backwards.
        leaves = known is None or known.name in (edge.source, edge.target)
        if leaves and _joins_walk(edge, expected, scope):
            word = edge.name[0].lower() + edge.name[1:]
            yield word, f"{edge.source} -> {edge.target}"


def _joins_walk(edge: EdgeType, expected: Expected, scope: "Scope") -> bool:
    """Whether an edge fits the walk that is begun: edges walked in either direction connect one type with itself."""
    begun = list(takewhile(lambda one: one.type in ("WORD", "_PIPE"), reversed(expected.taken)))
    opener = expected.taken[-1 - len(begun)] if len(begun) < len(expected.taken) else None
    if opener is not None and opener.type == "EDGE_OPEN" and edge.source != edge.target:
        return False
    named = [scope.catalog.edge(str(one)) for one in begun if one.type == "WORD"]
    ends = {(one.source, one.target) for one in named if one is not None}
    return edge not in named and ends <= {(edge.source, edge.target)}


def _properties(expected: Expected, scope: "Scope") -> Iterator[tuple[str, str]]:
    """Properties of the entity that the offset is about."""
    taken = expected.taken
    if "WORD" not in expected.choices:
        return
    if len(taken) > 1 and taken[-1].type == "_DOT" and taken[-2].type == "VARIABLE":
        owner = scope.types.get(str(taken[-2]))
        yield from scope.fields(str(taken[-2]))
        yield from _describe(owner, ids=_IDS if isinstance(owner, EdgeType) else _IDS[:1])
    elif len(taken) > 1 and taken[-1].type == "_DOT" and taken[-2].type == "ROW":
        yield from _describe(scope.written_type(), ids=())
    elif (walked := scope.walked_type(expected.opened)) is not None:
        if taken[-1].type in (*_TESTED, "_BY"):
            yield from _describe(walked, ids=())
    elif (part := scope.written_part(expected.opened)) and expected.choices >= _EXPRESSION:
        yield from _describe(scope.written_type(), ids=_ENDS)
        if part == "_RETURNING":
            yield from _returned(scope)
    elif (
        taken
        and taken[-1].type != "_COLON"
        and "LBRACE" in (taken[number].type for number in expected.opened[-1:])
    ):
        opened = expected.opened[-1]
        given = {str(one) for one in taken[opened:] if one.type == "WORD"}
        # An update cannot move the ends of an edge.
        ends = () if taken[opened - 1].type == "_SET" else _ENDS
        names = _describe(scope.braced_type(opened), ids=ends)
        yield from ((f"{name}: ", detail) for name, detail in names if name not in given)


def _returned(scope: "Scope") -> Iterator[tuple[str, str]]:
    """What a statement returns besides the properties of its rows."""
    yield "id", "String"
    if scope.tells_created():
        yield "created", "Bool"


def _describe(owner: TableType | None, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    if owner is None:
        return
    yield from ((name, str(one.type)) for name, one in owner.properties.items())
    if ids != _ENDS or isinstance(owner, EdgeType):
        yield from ((name, "String") for name in ids)


def _values(expected: Expected, scope: "Scope") -> Iterator[tuple[str, str]]:
    """Values of the enum that is compared or assigned."""
    found = _assigned_property(expected, scope) or _compared_property(expected, scope)
    if found is not None:
        yield from ((f'"{value}"', str(found.type)) for value in found.type.enum_values)


def _assigned_property(expected: Expected, scope: "Scope") -> Property | None:
    taken = expected.taken
    if len(taken) < 2 or taken[-1].type != "_COLON" or not expected.opened:
        return None
    owner = scope.braced_type(expected.opened[-1])
    return owner.properties.get(str(taken[-2])) if owner else None


def _compared_property(expected: Expected, scope: "Scope") -> Property | None:
    taken = expected.taken
    if len(taken) < 4 or taken[-1].type not in ("EQUAL", "UNEQUAL"):
        return None
    if taken[-3].type == "_DOT":
        owner = scope.types.get(str(taken[-4]))
    else:
        owner = scope.written_type() if scope.written_part(expected.opened) else None
    return owner.properties.get(str(taken[-2])) if owner else None


class Scope:
    """What the tokens before an offset tell of variables and types."""

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
        """Every variable and parameter, with its type where it is known."""
        for token in self._tokens:
            if token.type == "VARIABLE":
                known = self.types.get(str(token))
                yield str(token), known.name if known else ""

    def aliases(self) -> Iterator[tuple[str, str]]:
        """Every name that an item has with `as`."""
        for before, token in pairwise(self._tokens):
            if before.type == "_AS" and token.type == "WORD":
                yield str(token), "item"

    def written_type(self) -> TableType | None:
        """The type of the last statement that writes."""
        for before, token in zip(
            reversed(self._tokens[:-1]), reversed(self._tokens[1:]), strict=True
        ):
            if before.type in _WRITES:
                name = str(token)
                return self._find(name) if token.type == "TYPE" else self.types.get(name)
        return None

    def written_part(self, opened: Sequence[int]) -> str | None:
        """The condition or the returned items of a statement that the innermost braces are about."""
        braces = [one for one in opened if self._tokens[one].type == "LBRACE"]
        last = next((one.type for one in reversed(self._tokens) if one.type in _PARTS), None)
        # Inside of the braces of the query alone, what is open can only be a condition.
        if last == "_WHERE" and len(braces) == 1:
            return last
        if len(braces) == 2 and self._tokens[braces[-1] - 1].type == "_RETURNING":
            return "_RETURNING"
        return None

    def tells_created(self) -> bool:
        """Whether the last statement tells which of its rows are new."""
        kinds = [one.type for one in self._tokens]
        last = max((n for n, kind in enumerate(kinds) if kind in _WRITES), default=0)
        return kinds[last] == "UPSERT" or "ABSENT" in kinds[last:]

    def fields(self, variable: str) -> Iterator[tuple[str, str]]:
        """The fields of the records that a variable unnests."""
        for number, token in enumerate(self._tokens[:-3]):
            if token.type == "UNNEST" and str(self._tokens[number + 3]) == variable:
                yield from self._list_fields(str(self._tokens[number + 1]))

    def find_start(self, named: Token) -> Token:
        """The variable at the start of the walk whose edge has a name."""
        variables = [one for one in self._tokens if one.type == "VARIABLE"]
        return variables[-2] if len(variables) > 1 else named

    def walked_type(self, opened: Sequence[int]) -> TableType | None:
        """The edge type whose walk the innermost braces bound."""
        braces = [one for one in opened if self._tokens[one].type == "LBRACE"]
        before = (
            [one for one in self._tokens[: braces[-1]] if one.type != "GREATER"] if braces else []
        )
        return self.catalog.edge(str(before[-1])) if before and before[-1].type == "WORD" else None

    def braced_type(self, opened: int) -> TableType | None:
        """The type whose properties an open brace lists."""
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
        if [one.type for one in behind] == ["_COLON", "TYPE"]:
            found = self._find(str(behind[1]))
            if found is not None:
                self.types[str(self._tokens[number])] = found

    def _note_traversal(self, number: int) -> None:
        edge = self.catalog.edge(str(self._tokens[number]))
        before = [one for one in self._tokens[:number] if one.type == "VARIABLE"]
        behind = self._find_end(number)
        if edge is None or not before or behind is None:
            return
        named = self._is_named(number)
        if named:
            self.types[str(before[-1])] = edge
        near = before[-2] if named and len(before) > 1 else before[-1]
        ends = self._orient(edge, str(near), str(behind))
        for variable, end in zip((near, behind), ends, strict=True):
            if end in self.catalog.nodes:
                self.types.setdefault(str(variable), self.catalog.nodes[end])

    def _is_named(self, number: int) -> bool:
        before = [one.type for one in self._tokens[:number] if one.type != "EDGE_OPEN"]
        return before[-1:] == ["_COLON"]

    def _orient(self, edge: EdgeType, near: str, far: str) -> tuple[str, str]:
        """The types at both sides of a walk, which goes against the edge where a known type says so."""
        known = self.types.get(near), self.types.get(far)
        names = [one.name if one else None for one in known]
        backwards = names[0] == edge.target or names[1] == edge.source
        if backwards and edge.source != edge.target:
            return edge.target, edge.source
        return edge.source, edge.target

    def _find_end(self, number: int) -> Token | None:
        """The variable behind the edges and the bounds of a walk."""
        depth = 0
        for token in self._tokens[number + 1 :]:
            depth += {"LBRACE": 1, "RBRACE": -1}.get(token.type, 0)
            if depth == 0 and token.type not in ("RBRACE", "WORD", "_PIPE", "GREATER"):
                return token if token.type == "VARIABLE" else None
        return None

    def _list_fields(self, parameter: str) -> Iterator[tuple[str, str]]:
        heads = ["VARIABLE", "_COLON", "LBRACKET", "LBRACE"]
        for number, token in enumerate(self._tokens):
            kinds = [one.type for one in self._tokens[number : number + 4]]
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
        shown = takewhile(lambda one: one.type not in ("_COMMA", "RBRACE"), self._tokens[start:])
        return "".join(str(one) for one in shown)
