"""The position of the parser in a query text, the brackets still open there, and a token that does not fit."""

from dataclasses import field

from lark import Token

from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import Diagnostic, finding
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.tokens import span_of
from omnigraphdb.language.query.wording import describe_accepted
from omnigraphdb.language.source import Source
from omnigraphdb.values import dataclass

_OPENING = frozenset({"LBRACE", "_LPAREN", "GROUP", "LBRACKET", "CASE"})
_CLOSING = frozenset({"RBRACE", "RPAREN", "RBRACKET", "CASE_END"})
_PREFIXES = frozenset({"NOT", "SIGN"})
_NESTING = _OPENING | _CLOSING | _PREFIXES
HOPS = "hop bounds"
NO_TOKEN = Token("", "", 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class OpenBracket:
    """A bracket that waits for its partner, with the token before it; `weight` counts the levels it adds.

    `query` is the name of the query whose parameters or body it opens.
    """

    token: Token
    previous: Token
    query: Token | None
    weight: int

    @property
    def owner(self) -> str:
        """The construct that the bracket belongs to."""
        if self.token.type in ("GROUP", "LBRACKET", "CASE"):
            return str(self.token)
        if self.query is not None and self.previous.type not in ("ANNOTATION", "MCP"):
            return f"query {shorten(str(self.query))}"
        if self.token.type == "LBRACE" and self.previous.type in ("WORD", "GREATER"):
            return HOPS
        return shorten(str(self.previous))


@dataclass(slots=True)
class ParserState:
    """The state of one reading, moved forward by `take`."""

    previous: Token = NO_TOKEN
    before: Token = NO_TOKEN
    query: Token | None = None
    closed: OpenBracket | None = None
    opened: list[OpenBracket] = field(default_factory=list)
    depth: int = 0
    topics: set[str] = field(default_factory=set)
    _prefixes: int = 0

    @property
    def inside(self) -> OpenBracket | None:
        """The innermost open bracket."""
        return self.opened[-1] if self.opened else None

    def first_time(self, topic: str) -> bool:
        """Whether a topic was not yet raised in this query."""
        if topic in self.topics:
            return False
        self.topics.add(topic)
        return True

    def take(self, token: Token, kind: str) -> int:
        """Move past a token that was read as a terminal; give how deep the tree is behind it."""
        previous = self.previous
        self.before = previous
        self.previous = token
        if kind in _NESTING:
            return self._nest(token, kind, previous)
        self._prefixes = 0
        if kind == "WORD" and previous.type == "QUERY":
            self.query = token
        return self.depth

    def _nest(self, token: Token, kind: str, previous: Token) -> int:
        if kind in _OPENING:
            self._open(token, kind, previous)
        elif kind in _CLOSING and self.opened:
            self._close(kind)
        # A chain of `not` or of signs nests without brackets, so it counts as depth as well.
        self._prefixes = self._prefixes + 1 if kind in _PREFIXES else 0
        return self.depth + self._prefixes

    def _open(self, token: Token, kind: str, previous: Token) -> None:
        # The `not` of `not {` is the block itself; before a condition it is a level of its own.
        weight = 1 if kind == "LBRACE" else 1 + self._prefixes
        query = None if self.opened else self.query
        self.opened.append(OpenBracket(token, previous, query, weight))
        self.depth += weight

    def _close(self, kind: str) -> None:
        self.closed = self.opened.pop()
        self.depth -= self.closed.weight
        if kind == "RBRACE" and not self.opened:
            self.query = None
            self.topics.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFailure:
    """A token that does not fit, and everything known about its position."""

    source: Source
    token: Token
    kind: str
    following: tuple[Token, Token, Token]
    state: ParserState
    accepted: frozenset[str]

    @property
    def owner(self) -> str:
        """The construct that the innermost open bracket belongs to; empty outside all brackets."""
        return self.state.inside.owner if self.state.inside else ""

    @property
    def outside(self) -> bool:
        """Whether a new query could begin here."""
        return "QUERY" in self.accepted

    def expected(self) -> str:
        """Name the tokens that would fit, in words."""
        return describe_accepted(self.accepted, self.state.previous)

    def refuse(
        self,
        code: QueryCode,
        message: str,
        *,
        label: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> Diagnostic:
        """Build a finding at the token."""
        return finding(code, span_of(self.token), message, label=label, expected=expected, fix=fix)


def is_call(token: Token, after: Token) -> bool:
    """Whether a word is written as a function, its parenthesis right behind it."""
    return after.type == "_LPAREN" and after.start_pos == token.end_pos
