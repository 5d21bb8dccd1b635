"""The comments and blank lines of a query text, each tied to the token behind it."""

from itertools import pairwise

from lark import Token

from omnigraph.language.query.tokens import COMMENT, END, scan
from omnigraph.values import dataclass

# The formatter adds and drops these; the other tokens, the core, keep their number and places.
_FREE = frozenset({"_COMMA", "_LPAREN", "RPAREN", COMMENT, END})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment and the index of the core token behind it."""

    text: str
    index: int
    trailing: bool  # it ends a line that begins with something else
    spaced: bool  # a blank line stands before it
    closes: bool  # a closing parenthesis comes before that core token


@dataclass(frozen=True, slots=True)
class Notes:
    """What a text says besides its tree: comments, and core tokens that follow a blank line."""

    comments: tuple[Comment, ...] = ()
    spaced: frozenset[int] = frozenset()


def core_count(text: str) -> int:
    """How many core tokens a text has."""
    return len(_core(list(scan(text))))


def notes_of(text: str) -> Notes:
    """The comments and blank lines of a text."""
    tokens = list(scan(text))
    core, closing = _core(tokens), _before_parenthesis(tokens)
    comments: list[Comment] = []
    spaced: set[int] = set()
    index, end, on_line = 0, 0, False
    for at, token in enumerate(tokens):
        breaks = text.count("\n", end, token.start_pos)
        if token.type == COMMENT:
            on_line = on_line and breaks == 0
            comments.append(
                Comment(
                    text=token.rstrip(),
                    index=index,
                    trailing=on_line,
                    spaced=breaks > 1,
                    closes=at in closing,
                )
            )
            on_line = on_line and "\n" not in token
        elif at in core:
            if breaks > 1:
                spaced.add(index)
            index, on_line = index + 1, True
        else:
            on_line = on_line and breaks == 0
        end = token.end_pos or 0
    return Notes(tuple(comments), frozenset(spaced))


def _core(tokens: list[Token]) -> set[int]:
    """Positions of the core tokens; the braces of an empty block say nothing and are left out."""
    said = [(at, token.type) for at, token in enumerate(tokens) if token.type != COMMENT]
    empty = {
        at
        for (left, kind), (right, next_kind) in pairwise(said)
        if (kind, next_kind) == ("LBRACE", "RBRACE")
        for at in (left, right)
    }
    return {at for at, kind in said if kind not in _FREE} - empty


def _before_parenthesis(tokens: list[Token]) -> set[int]:
    """Positions of the comments whose next token is a closing parenthesis."""
    found, following = set(), END
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].type != COMMENT:
            following = tokens[at].type
        elif following == "RPAREN":
            found.add(at)
    return found
