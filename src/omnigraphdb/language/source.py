"""A source text, ranges of characters in it, and positions as people count them."""

import gc
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from omnigraphdb.values import dataclass

_LONG_CHARS = 1 << 16
"""From here on the search for garbage takes a third of the time; nothing in a tree points back, so it finds none."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """Return the range from here to the end of another."""
        return Span(min(self.start, other.start), max(self.end, other.end))


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Position:
    """A position as people count it: line and column from 1, in characters; byte from 0."""

    line: int
    column: int
    byte: int

    def to_dict(self) -> dict[str, int]:
        """Return the wire form."""
        return {"line": self.line, "column": self.column, "byte": self.byte}


@dataclass(frozen=True)
class Source:
    """A text and its name.

    `head` and `tail` count characters at its ends that nobody typed and that no message shows; a head has no line break.
    `first_line` is the number of the first line, where the text is a part of a longer one.
    """

    text: str
    name: str = "<text>"
    head: int = 0
    tail: int = 0
    first_line: int = 1

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts += [i + 1 for i, character in enumerate(self.text) if character == "\n"]
        return starts

    def position(self, offset: int) -> Position:
        """Return the position of a character offset, as people count it."""
        bounded = max(self.head, min(offset, self._end))
        line = bisect_right(self._line_starts, bounded)
        before = self.text[self.head : bounded].encode("utf-8", "replace")
        column = bounded - self._start(line) + 1
        return Position(line + self.first_line - 1, column, len(before))

    def line(self, number: int) -> str:
        """Return the text of a line, counted as positions count."""
        start = self._start(number - self.first_line + 1)
        end = self.text.find("\n", start, self._end)
        return self.text[start : end if end >= 0 else self._end].rstrip("\r")

    @property
    def _end(self) -> int:
        return len(self.text) - self.tail

    def _start(self, line: int) -> int:
        return max(self.head, self._line_starts[line - 1])


class SourceText(str):
    """A text that knows its source, so that messages show where people wrote it; to everyone else it is the text."""

    source: Source

    @classmethod
    def of(cls, source: Source) -> "SourceText":
        """Return the text of a source, with the source."""
        text = cls(source.text)
        text.source = source
        return text


@contextmanager
def pause_collection(source: Source) -> Iterator[None]:
    """Build the tree of a long text without searching it for garbage again and again while it grows."""
    if len(source.text) < _LONG_CHARS or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
