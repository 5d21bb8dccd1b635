"""A token that does not fit, with everything known about its place."""

from lark import Token

from omnigraph.language.diagnostics import Diagnostic, finding
from omnigraph.language.query.codes import QueryCode
from omnigraph.language.query.place import Place
from omnigraph.language.query.tokens import span_of
from omnigraph.language.query.wording import describe_accepted
from omnigraph.language.source import Source
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A token that does not fit, and everything known about the place."""

    source: Source
    token: Token
    kind: str
    following: tuple[Token, Token]
    place: Place
    accepted: frozenset[str]

    @property
    def owner(self) -> str:
        """What the innermost open bracket belongs to; empty outside of all."""
        return self.place.inside.owner if self.place.inside else ""

    @property
    def outside(self) -> bool:
        """Whether a new query could begin here."""
        return "QUERY" in self.accepted

    def expected(self) -> str:
        """What would fit, in words."""
        return describe_accepted(self.accepted, self.place.previous, extended=self.place.extended)

    def refuse(
        self,
        code: QueryCode,
        message: str,
        *,
        label: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> Diagnostic:
        """A finding at the token."""
        return finding(code, span_of(self.token), message, label=label, expected=expected, fix=fix)


def is_call(token: Token, after: Token) -> bool:
    """Whether a word is written as a function, its parenthesis right behind it."""
    return after.type == "_LPAREN" and after.start_pos == token.end_pos
