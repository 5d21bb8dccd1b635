"""Source text, places in it, and what may be said about them."""

import gc
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from omnigraph.errors import OmniError, QueryError, SchemaError
from omnigraph.limits import LINE_SHOWN_CHARS_MAX
from omnigraph.values import dataclass

_LONG_CHARS = 1 << 16
"""From here on the search for garbage takes a third of the time; nothing in a tree points back, so it finds none."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """The range from here to the end of another."""
        return Span(min(self.start, other.start), max(self.end, other.end))


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Position:
    """A place as people count it: line and column from 1, in characters; byte from 0."""

    line: int
    column: int
    byte: int

    def to_dict(self) -> dict[str, int]:
        """The wire form."""
        return {"line": self.line, "column": self.column, "byte": self.byte}


class Severity(StrEnum):
    """How bad a finding is; the order is the order of reports."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Stage(StrEnum):
    """Which step of the compiler noticed."""

    PARSE = "parse"
    TYPECHECK = "typecheck"
    PLAN = "plan"
    LINT = "lint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about a text."""

    message: str
    code: str | None = None
    severity: Severity = Severity.ERROR
    stage: Stage = Stage.PARSE
    span: Span = NOWHERE
    position: Position = Position(1, 1, 0)
    label: str | None = None
    expected: str | None = None
    fix: str | None = None
    source_name: str | None = None
    query_name: str | None = None
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form; absent facts are left out."""
        facts: dict[str, Any] = {
            "code": self.code,
            "severity": str(self.severity),
            "stage": str(self.stage),
            "message": self.message,
            "position": self.position.to_dict(),
            "span": {"start": self.span.start, "end": self.span.end},
            "expected": self.expected,
            "fix": self.fix,
            "source_name": self.source_name,
            "query_name": self.query_name,
            "type_name": self.type_name,
            "property": self.property,
            "query_names": list(self.query_names) or None,
        }
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class Source:
    """A text and its name."""

    text: str
    name: str = "<text>"

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts += [i + 1 for i, character in enumerate(self.text) if character == "\n"]
        return starts

    def position(self, offset: int) -> Position:
        """Where a character offset is, as people count."""
        bounded = max(0, min(offset, len(self.text)))
        line = bisect_right(self._line_starts, bounded)
        start = self._line_starts[line - 1]
        return Position(
            line, bounded - start + 1, len(self.text[:bounded].encode("utf-8", "replace"))
        )

    def line(self, number: int) -> str:
        """The text of a line, counted from 1."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def place(self, diagnostic: Diagnostic) -> Diagnostic:
        """Fill in position and name from the span, kept inside the text."""
        start = max(0, min(diagnostic.span.start, len(self.text)))
        end = max(start, min(diagnostic.span.end, len(self.text)))
        return replace(
            diagnostic,
            span=Span(start, end),
            position=self.position(start),
            source_name=diagnostic.source_name or self.name,
        )

    def render(self, diagnostic: Diagnostic) -> str:
        """The human form: message, arrow, source line, caret, fix."""
        at = diagnostic.position
        code = f"[{diagnostic.code}]" if diagnostic.code else ""
        text, column = _window(self.line(at.line).replace("\t", " "), at.column)
        gutter = " " * len(str(at.line))
        width = max(1, min(diagnostic.span.end - diagnostic.span.start, len(text) - column + 1))
        caret = " " * (column - 1) + "^" * width
        lines = [
            f"{diagnostic.severity}{code}: {diagnostic.message}",
            f" {gutter}--> {self.name}:{at.line}:{at.column}",
            f" {gutter} |",
            f" {at.line} | {text}",
            f" {gutter} | {caret}{' ' + diagnostic.label if diagnostic.label else ''}",
        ]
        if diagnostic.expected:
            lines.append(f" {gutter} = expected: {diagnostic.expected}")
        if diagnostic.fix:
            lines.append(f" {gutter} = fix: {diagnostic.fix}")
        return "\n".join(lines)


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


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around a column, and the column in it."""
    if len(line) <= LINE_SHOWN_CHARS_MAX:
        return line, column
    start = max(0, column - 1 - LINE_SHOWN_CHARS_MAX // 2)
    end = start + LINE_SHOWN_CHARS_MAX
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    return f"{head}{line[start:end]}{tail}", column - start + len(head)


def text_error(source: Source, diagnostics: Sequence[Diagnostic]) -> tuple[str, dict[str, Any]]:
    """Message and details of an error about a text: every finding, the first one leading."""
    placed = [source.place(d) for d in diagnostics]
    message = "\n".join(source.render(d) for d in placed)
    found = [d.to_dict() for d in placed]
    return message, {"diagnostic": found[0], "diagnostics": found}


def schema_error(source: Source, diagnostics: Sequence[Diagnostic]) -> SchemaError:
    """The error of a schema text."""
    message, details = text_error(source, diagnostics)
    return SchemaError(message, details=details, code=diagnostics[0].code)


def query_error(source: Source, diagnostics: Sequence[Diagnostic]) -> QueryError:
    """The error of a query text."""
    message, details = text_error(source, diagnostics)
    return QueryError(message, details=details, code=diagnostics[0].code)


def diagnostics_of(error: OmniError) -> list[dict[str, Any]]:
    """The findings an error carries, in their wire form."""
    return list(error.details.get("diagnostics", ()))
