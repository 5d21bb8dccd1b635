"""Reports about query texts for editors: mistakes with their ends, what queries take, and what may be written next."""

from collections.abc import Iterator
from dataclasses import field, replace

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.check import check
from omnigraphdb.compile.checked import Checked
from omnigraphdb.compile.choices import find_choices
from omnigraphdb.compile.complete import complete
from omnigraphdb.compile.descriptor import ValueDescriptor, describe_value
from omnigraphdb.compile.lint import lint_report
from omnigraphdb.errors import QueryError, UserInputError
from omnigraphdb.language.diagnostics import Diagnostic
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.tree import Query
from omnigraphdb.language.source import Source
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding(Value):
    """One finding about a text, with the place where it begins and ends; lines and columns count from 1."""

    code: str
    severity: str
    message: str
    hint: str | None
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedQuery(Value):
    """A query of a text, and what it takes; nothing is said about one with mistakes."""

    name: str
    writes: bool
    parameters: tuple[ValueDescriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedText(Value):
    """What is wrong or doubtful in a text."""

    diagnostics: tuple[LintFinding, ...]
    queries: tuple[LintedQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionItem(Value):
    """A text that may be written next."""

    label: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionItems(Value):
    """The texts that may replace the text from an offset up to the cursor."""

    start: int = field(metadata=wire("from"))
    items: tuple[CompletionItem, ...]


def lint_text(text: str, catalog: Catalog) -> LintedText:
    """Check a query text against the types of a schema."""
    source = Source(text, "<text>")
    report = lint_report(catalog, source)
    return LintedText(
        diagnostics=tuple(_describe_finding(source, finding) for finding in report.findings),
        queries=tuple(_list_queries(source, catalog)),
    )


def _describe_finding(source: Source, finding: Diagnostic) -> LintFinding:
    end = source.position(finding.span.end)
    return LintFinding(
        code=finding.code or "",
        severity=str(finding.severity),
        message=finding.message,
        hint=finding.fix,
        line=finding.position.line,
        column=finding.position.column,
        end_line=end.line,
        end_column=end.column,
    )


def _list_queries(source: Source, catalog: Catalog) -> Iterator[LintedQuery]:
    """List the queries of a text; nothing is said about those with mistakes."""
    try:
        queries = parse_queries(source).queries
    except QueryError:
        return
    for query in queries:
        checked = _check_query(query, source, catalog)
        if checked is not None:
            yield LintedQuery(
                name=query.name.text,
                writes=query.is_mutation,
                parameters=tuple(_describe_parameters(checked)),
            )


def _check_query(query: Query, source: Source, catalog: Catalog) -> Checked | None:
    try:
        return check(query, catalog, source)
    except QueryError:
        return None


def _describe_parameters(checked: Checked) -> Iterator[ValueDescriptor]:
    choices = find_choices(checked)
    for name, parameter in checked.params.items():
        yield replace(describe_value(name, parameter.type), choices=choices.get(name))


def complete_text(text: str, offset: int, catalog: Catalog) -> CompletionItems:
    """List the texts that may be written next at an offset of a query text."""
    if not 0 <= offset <= len(text):
        raise UserInputError(f"'offset' is {offset}, and the text has {len(text)} characters")
    words = complete(text, offset, catalog)
    return CompletionItems(
        start=words[0].start if words else offset,
        items=tuple(
            CompletionItem(label=word.text, kind=str(word.kind), detail=word.detail)
            for word in words
        ),
    )
