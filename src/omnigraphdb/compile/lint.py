"""Lint: checks every query of a file, and warns about problems that only the whole file shows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from omnigraphdb.catalog.model import Catalog, NodeType, TableType
from omnigraphdb.compile.check import check_findings, find_repeated_names
from omnigraphdb.compile.checked import (
    Checked,
    CheckedInsert,
    CheckedMutation,
    CheckedUpdate,
    VariableKind,
)
from omnigraphdb.compile.descriptor import Operation, describe_operation
from omnigraphdb.compile.editions import find_changed_meanings
from omnigraphdb.errors import QueryError
from omnigraphdb.language.diagnostics import Diagnostic, Severity, Stage, diagnostics_of, locate
from omnigraphdb.language.query import tree
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import NOWHERE, Source, Span, pause_collection
from omnigraphdb.values import dataclass

_SEVERITIES = {severity: rank for rank, severity in enumerate(Severity)}


def lint(catalog: Catalog, source: Source) -> list[Diagnostic]:
    """List errors and warnings of a query file: errors first, then by type, property, message."""
    return list(lint_report(catalog, source).findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """The outcome of one query: its first error, its warnings, and the operation that it would run."""

    name: str
    kind: str
    error: str | None = None
    warnings: tuple[str, ...] = ()
    operation: Operation | None = None

    @property
    def status(self) -> str:
        """`ok` or `error`."""
        return "ok" if self.error is None else "error"

    def to_dict(self) -> dict[str, Any]:
        """The wire form; `error` and `operation` are left out when there is none."""
        facts: dict[str, Any] = {"name": self.name, "kind": self.kind, "status": self.status}
        if self.error is not None:
            facts["error"] = self.error
        facts["warnings"] = list(self.warnings)
        if self.operation is not None:
            facts["operation"] = self.operation.to_dict()
        return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """All findings of lint about one file."""

    query_path: str
    schema_source: Mapping[str, str] = field(default_factory=dict)
    results: tuple[QueryResult, ...] = ()
    findings: tuple[Diagnostic, ...] = ()

    @property
    def status(self) -> str:
        """`error` when there is any, else `ok`."""
        return "error" if self.count(Severity.ERROR) else "ok"

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "status": self.status,
            "schema_source": dict(self.schema_source),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "infos": self.count(Severity.INFO),
            "results": [result.to_dict() for result in self.results],
            "findings": [_finding(finding) for finding in self.findings],
        }


def _finding(finding: Diagnostic) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "severity": str(finding.severity),
        "code": finding.code,
        "message": finding.message,
    }
    if finding.type_name is not None:
        facts["type_name"] = finding.type_name
    if finding.property is not None:
        facts["property"] = finding.property
    names = finding.query_names or ((finding.query_name,) if finding.query_name else ())
    return facts | {"query_names": list(names)}


def lint_report(
    catalog: Catalog, source: Source, *, schema_source: Mapping[str, str] | None = None
) -> LintReport:
    """Check a query file against a schema; `schema_source` says where the schema came from."""
    with pause_collection(source):
        return _report(catalog, source, dict(schema_source or {}))


def _report(catalog: Catalog, source: Source, origin: Mapping[str, str]) -> LintReport:
    try:
        file = parse_queries(source)
    except QueryError as error:
        findings_of_parser = (_unreadable(error, source),)
        return LintReport(query_path=source.name, schema_source=origin, findings=findings_of_parser)
    outcomes = [_outcome(query, catalog, source) for query in file.queries]
    findings = [locate(source, diagnostic) for diagnostic in find_repeated_names(file)]
    for outcome in outcomes:
        findings += outcome.findings
    findings += [locate(source, warning) for warning in _find_never_set(outcomes, catalog)]
    return LintReport(
        query_path=source.name,
        schema_source=origin,
        results=tuple(_result(outcome, catalog) for outcome in outcomes),
        findings=tuple(sorted(findings, key=_rank)),
    )


def _rank(finding: Diagnostic) -> tuple[int, str, str, str]:
    return (
        _SEVERITIES[finding.severity],
        finding.type_name or "",
        finding.property or "",
        finding.message,
    )


def _unreadable(error: QueryError, source: Source) -> Diagnostic:
    """Report a file that does not parse, at the position of its first error."""
    first = next(iter(diagnostics_of(error)), {})
    span = first.get("span")
    return locate(
        source,
        Diagnostic(
            message=str(first.get("message", error.message)),
            code="Q000",
            stage=Stage.PARSE,
            span=Span(span["start"], span["end"]) if span else NOWHERE,
            fix=first.get("fix"),
            expected=first.get("expected"),
        ),
    )


# ---- one query


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    query: tree.Query
    checked: Checked | None
    findings: tuple[Diagnostic, ...]


def _outcome(query: tree.Query, catalog: Catalog, source: Source) -> _Outcome:
    checked, findings = check_findings(query, catalog, source)
    if query.is_mutation and not query.params:
        findings = (*findings, locate(source, _report_hard_coded(query)))
    findings = (
        *findings,
        *(locate(source, finding) for finding in _find_left_out(query, checked, catalog)),
    )
    changed = find_changed_meanings(query, checked, source)
    findings = (*findings, *(locate(source, finding) for finding in changed))
    return _Outcome(query=query, checked=checked, findings=findings)


def _find_left_out(
    query: tree.Query, checked: Checked | None, catalog: Catalog
) -> Iterator[Diagnostic]:
    """List required vectors that an insert leaves out although nothing embeds on write: the insert will be refused."""
    for insert in _inserts(checked):
        node = catalog.nodes[insert.type_name]
        assigned = {assignment.property for assignment in insert.assignments}
        for name, declared in node.properties.items():
            if name not in assigned and declared.embed is not None and not declared.type.nullable:
                yield Diagnostic(
                    message=f"insert of '{node.name}' does not assign '{name}', which is required, and no vector is"
                    " embedded on write: the mutation will be refused",
                    code="L202",
                    severity=Severity.WARNING,
                    stage=Stage.LINT,
                    span=query.name.span,
                    fix=f"give '{name}' a value, or declare it '{declared.type}?'",
                    type_name=node.name,
                    property=name,
                    query_name=query.name.text,
                    query_names=(query.name.text,),
                )


def _inserts(checked: Checked | None) -> Iterator[CheckedInsert]:
    if isinstance(checked, CheckedMutation):
        for statement in checked.statements:
            if isinstance(statement, CheckedInsert) and statement.kind is VariableKind.NODE:
                yield statement


def _report_hard_coded(query: tree.Query) -> Diagnostic:
    name = query.name.text
    return Diagnostic(
        message=f"mutation '{name}' has no parameters: hard-coded writes are easy to miss",
        severity=Severity.WARNING,
        stage=Stage.LINT,
        span=query.name.span,
        query_name=name,
    )


def _result(outcome: _Outcome, catalog: Catalog) -> QueryResult:
    errors = [f.message for f in outcome.findings if f.severity is Severity.ERROR]
    warnings = tuple(f.message for f in outcome.findings if f.severity is Severity.WARNING)
    checked = outcome.checked
    return QueryResult(
        name=outcome.query.name.text,
        kind="mutation" if outcome.query.is_mutation else "read",
        error=errors[0] if errors else None,
        warnings=warnings,
        operation=describe_operation(checked, catalog) if checked is not None else None,
    )


# ---- problems that only the whole file shows


def _find_never_set(outcomes: Sequence[_Outcome], catalog: Catalog) -> Iterator[Diagnostic]:
    """List nullable properties of an updated type that no update of the file sets."""
    queries: dict[str, dict[str, Span]] = defaultdict(dict)
    assigned: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        for update in _updates(outcome.checked):
            queries[update.type_name][outcome.query.name.text] = outcome.query.name.span
            assigned[update.type_name] |= {a.property for a in update.assignments}
    for type_name, names in queries.items():
        node = catalog.table(type_name)
        for name in sorted(_settable(node) - assigned[type_name]):
            yield Diagnostic(
                message=f"'{type_name}.{name}' is never set by an update of this file"
                f" (updates of {type_name}: {', '.join(sorted(names))})",
                code="L201",
                severity=Severity.WARNING,
                stage=Stage.LINT,
                span=next(iter(names.values())),
                type_name=type_name,
                property=name,
                query_names=tuple(sorted(names)),
            )


def _updates(checked: Checked | None) -> Iterator[CheckedUpdate]:
    if isinstance(checked, CheckedMutation):
        yield from (s for s in checked.statements if isinstance(s, CheckedUpdate))


def _settable(type_: TableType) -> set[str]:
    key = type_.key_columns if isinstance(type_, NodeType) else ()
    return {
        name
        for name, declared in type_.properties.items()
        if declared.type.nullable and declared.embed is None and name not in key
    }
