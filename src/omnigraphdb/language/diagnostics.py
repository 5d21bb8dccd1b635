"""Findings about a text of either language, their form for people, and the error that they make."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

from omnigraphdb.errors import (
    OmniError,
    QueryError,
    SchemaError,
    did_you_mean,
    shorten,
    suggestion,
)
from omnigraphdb.language.source import NOWHERE, Position, Source, Span
from omnigraphdb.limits import (
    LINE_SHOWN_CHARS_MAX,
    NAMES_SHOWN_MAX,
    PROBLEMS_SHOWN_MAX,
    SUGGESTION_CANDIDATES_MAX,
)
from omnigraphdb.values import dataclass, replace

_COMPARED_CHARS_MAX = 128
_FIX_CHARS_MAX = 120

Case = TypeVar("Case")


class Severity(StrEnum):
    """The weight of a finding; the order is the order of reports."""

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
        """Return the wire form; absent facts are left out."""
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


def finding(
    code: str,
    span: Span,
    message: str,
    *,
    label: str | None = None,
    expected: str | None = None,
    fix: str | None = None,
) -> Diagnostic:
    """Build a finding about a position of the text, with the text that would be right there."""
    return Diagnostic(
        message=message, code=str(code), span=span, label=label, expected=expected, fix=fix
    )


def first_finding(
    rules: Iterable[Callable[[Case], Diagnostic | None]], case: Case
) -> Diagnostic | None:
    """Return the finding of the first rule that knows the case; the rules are asked in order."""
    return next((diagnostic for rule in rules if (diagnostic := rule(case))), None)


def find_half_character(source: Source, code: str, what: str) -> Diagnostic | None:
    """Report the first half of a surrogate pair: it has no form in UTF-8."""
    try:
        source.text.encode("utf-8")
    except UnicodeEncodeError as error:
        character = f"U+{ord(source.text[error.start]):04X}"
        message = f"the character {character} is half of a pair; a {what} is UTF-8 text"
        expected = "characters that UTF-8 knows"
        return finding(code, Span(error.start, error.start + 1), message, expected=expected)
    return None


# ---- gathering


@dataclass(slots=True)
class Findings:
    """The errors of one text, gathered while it is checked; each step of the check has a bounded number of them.

    `stored` marks a text that was accepted before some rules existed: those rules are skipped.
    """

    source: Source
    query_name: str | None = None
    stored: bool = False
    steps: Mapping[str, int] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)
    _counts: Counter[int] = field(default_factory=Counter)

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        type_name: str | None = None,
        property_name: str | None = None,
        label: str | None = None,
        fix: str | None = None,
        earlier: Span | None = None,
        near: tuple[str, Iterable[str]] | None = None,
        later: bool = False,
    ) -> None:
        """Add one error; past the bound of its step it is dropped.

        `earlier` is where the other half of a clash is, `near` a name and those it may have meant;
        `later` marks a rule that stored texts need not obey.
        """
        if later and self.stored:
            return
        step = self.steps.get(code, 0)
        self._counts[step] += 1
        if self._counts[step] > PROBLEMS_SHOWN_MAX:
            return
        other = f"; the other stands at {self._position(earlier)}" if earlier else ""
        meant = near_names(*near) if near else []
        self.found.append(
            Diagnostic(
                message=message + other + suggestion(meant),
                code=code,
                stage=Stage.TYPECHECK,
                span=span,
                label=label,
                fix=fix or (f"write {meant[0]}" if meant else None),
                query_name=self.query_name,
                type_name=type_name,
                property=property_name,
            )
        )

    @property
    def full(self) -> bool:
        """Whether anything more would be dropped, when all checks are one step."""
        return len(self.found) >= PROBLEMS_SHOWN_MAX

    def ordered(self) -> list[Diagnostic]:
        """Return the findings in the order of the steps, then of the text; at most as many as a report shows."""
        diagnostics = sorted(
            self.found,
            key=lambda diagnostic: (self.steps.get(diagnostic.code or "", 0), diagnostic.span),
        )
        return diagnostics[:PROBLEMS_SHOWN_MAX]

    def written(self, span: Span, otherwise: object) -> str:
        """Return the text of a span, for a message, or the value where the tree has no spans."""
        text = self.source.text[span.start : span.end]
        return shorten(text) if text else str(otherwise)

    def _position(self, span: Span) -> str:
        at = self.source.position(span.start)
        return f"line {at.line}, column {at.column}"


# ---- suggestions


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """List the names close to a name; of very many only the first are compared, for the time it takes."""
    return did_you_mean(name[:_COMPARED_CHARS_MAX], islice(names, SUGGESTION_CANDIDATES_MAX))


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, to offer as a fix."""
    return next(iter(near_names(name, names)), None)


def list_alternatives(name: str, candidates: Iterable[str], heading: str) -> str:
    """Word the alternatives to a wrong name: the near names, else all candidates, else nothing."""
    names = list(islice(candidates, SUGGESTION_CANDIDATES_MAX))
    near = near_names(name, names)
    if near or not names:
        return suggestion(near)
    more = ", …" if len(names) > NAMES_SHOWN_MAX else ""
    return f"; {heading}: {', '.join(sorted(names)[:NAMES_SHOWN_MAX])}{more}"


def join_alternatives(words: Sequence[str]) -> str:
    """Join words to `a`, `a or b`, `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def fix_line(source: Source, span: Span, replacement: str) -> str:
    """Return the line of a span with the text there replaced: a fix that can be copied."""
    text = source.text
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    before = text[start : span.start].lstrip()
    after = text[span.end : end if end >= 0 else len(text)].rstrip()
    fixed = before + replacement + after
    copied = len(fixed) <= _FIX_CHARS_MAX and "\n" not in fixed
    return fixed if copied else show_text(replacement)


def show_text(text: str) -> str:
    """Cut a text of the user to a bound."""
    return shorten(str(text)).replace('\\"', '"')


# ---- reading


def locate(source: Source, diagnostic: Diagnostic) -> Diagnostic:
    """Fill in position and source name from the span, kept inside the text."""
    start = max(0, min(diagnostic.span.start, len(source.text)))
    end = max(start, min(diagnostic.span.end, len(source.text)))
    return replace(
        diagnostic,
        span=Span(start, end),
        position=source.position(start),
        source_name=diagnostic.source_name or source.name,
    )


def render(source: Source, diagnostic: Diagnostic) -> str:
    """Render a finding for people: message, arrow, source line, caret, fix."""
    at = diagnostic.position
    code = f"[{diagnostic.code}]" if diagnostic.code else ""
    text, column = _window(source.line(at.line).replace("\t", " "), at.column)
    gutter = " " * len(str(at.line))
    width = max(1, min(diagnostic.span.end - diagnostic.span.start, len(text) - column + 1))
    caret = " " * (column - 1) + "^" * width
    lines = [
        f"{diagnostic.severity}{code}: {diagnostic.message}",
        f" {gutter}--> {source.name}:{at.line}:{at.column}",
        f" {gutter} |",
        f" {at.line} | {text}",
        f" {gutter} | {caret}{' ' + diagnostic.label if diagnostic.label else ''}",
    ]
    if diagnostic.expected:
        lines.append(f" {gutter} = expected: {diagnostic.expected}")
    if diagnostic.fix:
        lines.append(f" {gutter} = fix: {diagnostic.fix}")
    return "\n".join(lines)


def _window(line: str, column: int) -> tuple[str, int]:
    """Cut the part of a long line around a column; return it and the column in it."""
    if len(line) <= LINE_SHOWN_CHARS_MAX:
        return line, column
    start = max(0, column - 1 - LINE_SHOWN_CHARS_MAX // 2)
    end = start + LINE_SHOWN_CHARS_MAX
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    return f"{head}{line[start:end]}{tail}", column - start + len(head)


# ---- errors


def schema_error(source: Source, diagnostics: Sequence[Diagnostic]) -> SchemaError:
    """Build the error of a schema text."""
    message, details = _describe(source, diagnostics)
    return SchemaError(message, details=details, code=diagnostics[0].code)


def query_error(source: Source, diagnostics: Sequence[Diagnostic]) -> QueryError:
    """Build the error of a query text."""
    message, details = _describe(source, diagnostics)
    return QueryError(message, details=details, code=diagnostics[0].code)


def _describe(source: Source, diagnostics: Sequence[Diagnostic]) -> tuple[str, dict[str, Any]]:
    """Build the message and the details of an error about a text: every finding, the first one leading."""
    located = [locate(source, diagnostic) for diagnostic in diagnostics]
    message = "\n".join(render(source, diagnostic) for diagnostic in located)
    entries = [diagnostic.to_dict() for diagnostic in located]
    return message, {"diagnostic": entries[0], "diagnostics": entries}


def diagnostics_of(error: OmniError) -> list[dict[str, Any]]:
    """Return the findings that an error carries, in their wire form."""
    return list(error.details.get("diagnostics", ()))
