"""The first word of a schema text that does not fit, and the state of the parser there."""

import re
from dataclasses import field
from functools import cached_property

from lark import Token

from omnigraphdb.language.diagnostics import Diagnostic, finding
from omnigraphdb.language.schema.build import token_span
from omnigraphdb.language.source import Span
from omnigraphdb.values import dataclass, replace

DECLARATIONS = ("INTERFACE", "NODE", "EDGE")
KEYWORDS = ("interface", "node", "edge")

_OPENS = {"LBRACE": "RBRACE", "LPAR": "RPAR", "LSQB": "RSQB"}
_MARKS = ("GROUP", "RANGE", "CHECK", "CARD")
_FOUND = re.compile(
    r"""
      "[^"\n]*+"?+                 # a text, closed or not
    | -[0-9]++(?:\.[0-9]++)?+      # a number with a sign
    | \w++
    | -> | \.\. | // | /\* | \*/
    | [\s\S]
    """,
    re.VERBOSE,
)
_LOOK_BACK_MAX = 200


@dataclass(slots=True)
class Progress:
    """The state of a reading: the declaration at hand, the brackets open, the last token."""

    declaration: tuple[Token, Token | None] | None = None
    opened: list[Token] = field(default_factory=list)
    mark: Token | None = None
    last: Token | None = None

    def saw(self, token: Token) -> None:
        """Take note of a token that the parser accepted."""
        kind = token.type
        if kind in _OPENS:
            self.opened.append(token)
        elif self.opened and kind == _OPENS[self.opened[-1].type]:
            self.opened.pop()
            self.mark = None
        elif kind in _MARKS:
            self.mark = token
        elif kind in DECLARATIONS:
            self.declaration = (token, None)
        elif kind == "TYPE_NAME" and self.declaration and self.declaration[1] is None:
            self.declaration = (self.declaration[0], token)
        self.last = token

    def at_member(self) -> "Progress":
        """Return the progress of the same declaration at the start of a member of its body."""
        return Progress(declaration=self.declaration, opened=self.opened[:1])


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The first word that the grammar does not allow, and the terminals that it would have allowed."""

    text: str
    span: Span
    accepts: frozenset[str]
    progress: Progress

    @cached_property
    def word(self) -> str:
        """The word that does not fit; empty at the end of the text."""
        return self.text[self.span.start : self.span.end]

    @property
    def at_end(self) -> bool:
        """Whether the text ended too early."""
        return self.span.start == self.span.end

    @property
    def last(self) -> Token | None:
        """The last token that fitted."""
        return self.progress.last

    @property
    def bracket(self) -> Token | None:
        """The innermost bracket still open."""
        return self.progress.opened[-1] if self.progress.opened else None

    @property
    def in_body(self) -> bool:
        """Whether the position is inside a body."""
        return self.bracket is not None and self.bracket.type == "LBRACE"

    @property
    def swallowed(self) -> Token | None:
        """The keyword of a declaration that was read as a property, the body before it being open."""
        last = self.last
        if last is None or not self.in_body or self.accepts != {"COLON"}:
            return None
        return last if last in KEYWORDS and re.match(r"\w", self.word) else None

    @property
    def keyword(self) -> str | None:
        """`interface`, `node` or `edge`: the declaration at hand."""
        return str(self.progress.declaration[0]) if self.progress.declaration else None

    @property
    def owner(self) -> str:
        """The declaration at hand for a message: `node 'Port'`."""
        if self.progress.declaration is None:
            return "the schema"
        keyword, name = self.progress.declaration
        return f"{keyword} '{name}'" if name else f"the {keyword} declaration"

    def refuse(
        self, message: str, *, label: str | None = None, fix: str | None = None
    ) -> Diagnostic:
        """Build a finding at the word that does not fit."""
        return finding("S001", self.span, message, label=label, fix=fix)


def fault_at(text: str, offset: int, accepts: frozenset[str], progress: Progress) -> Fault:
    """Describe the word at an offset that does not fit there."""
    start = offset
    if re.match(r"\w", text[offset]):
        before = text[max(0, offset - _LOOK_BACK_MAX) : offset]
        start -= len(before) - len(re.sub(r"\w+\Z", "", before))
    match = _FOUND.match(text, start)
    end = match.end() if match else offset + 1
    return Fault(text=text, span=Span(start, end), accepts=accepts, progress=_freeze(progress))


def fault_at_end(text: str, accepts: frozenset[str], progress: Progress) -> Fault:
    """Describe a text that ends too early; the position is after its last token."""
    end = token_span(progress.last).end if progress.last else 0
    return Fault(text=text, span=Span(end, end), accepts=accepts, progress=_freeze(progress))


def _freeze(progress: Progress) -> Progress:
    return replace(progress, opened=list(progress.opened))
