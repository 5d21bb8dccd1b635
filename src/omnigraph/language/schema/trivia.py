"""What the grammar ignores and the formatter keeps: comments and blank lines."""

import re
from collections.abc import Iterator

from omnigraph.language.schema.tree import Comment
from omnigraph.language.source import Span

_PIECE = re.compile(
    r"""
      (?P<space> [ \t\r\n]++ )
    | (?P<comment> //[^\n]*+ | /\*[\s\S]*?\*/ )
    | "(?:[^"\\]++|\\[\s\S])*+"
    | [^ \t\r\n"/]++
    | [\s\S]
    """,
    re.VERBOSE,
)


def read_trivia(text: str) -> tuple[tuple[Comment, ...], frozenset[int]]:
    """Find the comments of a text that parses, and the offsets that follow a blank line."""
    comments: list[Comment] = []
    gaps: set[int] = set()
    for found, own_line in _pieces(text):
        if found["comment"] is not None:
            written = found["comment"].rstrip(" \t\r")
            span = Span(found.start(), found.start() + len(written))
            comments.append(Comment(text=written, own_line=own_line, span=span))
        elif found["space"] is not None and found["space"].count("\n") > 1:
            gaps.add(found.end())
    return tuple(comments), frozenset(gaps)


def _pieces(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Every piece of the text, and whether it is the first on its line."""
    first = True
    for found in _PIECE.finditer(text):
        yield found, first
        space = found["space"]
        first = (first or "\n" in space) if space is not None else False
