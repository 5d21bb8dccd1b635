"""A query as a whole: its parameters and body together, and the error its findings make."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check.context import (
    ANONYMOUS,
    Context,
    Namer,
    list_block_introductions,
    list_introductions,
)
from omnigraphdb.compile.check.mutation import check_mutation
from omnigraphdb.compile.check.pattern import check_block
from omnigraphdb.compile.check.read import check_read
from omnigraphdb.compile.checked import Checked, Parameter
from omnigraphdb.compile.codes import CHECK_CODES
from omnigraphdb.errors import OmniError, Problem, data_error
from omnigraphdb.language.diagnostics import (
    Diagnostic,
    Findings,
    Stage,
    locate,
    query_error,
)
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Source, pause_collection
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from omnigraphdb.values import replace


def check(query: tree.Query, catalog: Catalog, source: Source) -> Checked:
    """Check one query against a schema, or raise all its errors."""
    checked, findings = check_findings(query, catalog, source)
    if checked is None:
        raise check_error(findings, catalog, source)
    return checked


def check_findings(
    query: tree.Query, catalog: Catalog, source: Source
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Check one query and list its errors instead of raising them; the first finding leads."""
    report = Findings(source, query_name=query.name.text)
    context = Context(
        catalog=catalog,
        params=check_parameters(query.params, report),
        findings=report,
        namer=Namer(Counter(_list_names(query.body))),
        variables={},
        check_block=check_block,
    )
    check_exposure(query.mcp or (), report)
    checked: Checked
    if isinstance(query.body, tree.Read):
        checked = check_read(query, query.body, context)
    else:
        checked = check_mutation(query, query.body, context)
    # Errors of the text lead; errors of values follow, as they do when a query runs.
    ordered = sorted(report.found, key=_concerns_value)
    diagnostics = tuple(locate(source, _say_expected(diagnostic)) for diagnostic in ordered)
    return (None if diagnostics else checked), diagnostics


def check_file(file: tree.QueryFile, catalog: Catalog, source: Source) -> tuple[Checked, ...]:
    """Check every query of a file, or raise the errors of all queries."""
    errors = list(find_repeated_names(file))
    checked: list[Checked] = []
    with pause_collection(source):
        for query in file.queries:
            checked_query, findings = check_findings(query, catalog, source)
            errors += findings
            checked += [checked_query] if checked_query is not None else []
    if errors:
        raise check_error(errors, catalog, source)
    return tuple(checked)


def find_repeated_names(file: tree.QueryFile) -> tuple[Diagnostic, ...]:
    """Report every query whose name an earlier one of the file has."""
    first: dict[str, int] = {}
    repeated: dict[str, tree.Name] = {}
    for number, query in enumerate(file.queries):
        if first.setdefault(query.name.text, number) != number:
            repeated.setdefault(query.name.text, query.name)
    return tuple(
        _say_expected(_report_repeated(name))
        for name in islice(repeated.values(), PROBLEMS_SHOWN_MAX)
    )


def _report_repeated(name: tree.Name) -> Diagnostic:
    return Diagnostic(
        message=f"two queries of this file are called '{name.text}'; give one another name",
        code="T30",
        stage=Stage.TYPECHECK,
        span=name.span,
        query_name=name.text,
    )


def _say_expected(finding: Diagnostic) -> Diagnostic:
    """Add the expectation of its code to a finding that offers no fix."""
    if finding.fix or finding.expected:
        return finding
    code = CHECK_CODES.get(finding.code or "")
    return replace(finding, expected=code.expected if code else "a value that the property takes")


def check_error(findings: Sequence[Diagnostic], catalog: Catalog, source: Source) -> OmniError:
    """Return the error that findings make; the first decides whether query or data is to blame."""
    if not _concerns_value(findings[0]):
        return query_error(source, findings)
    return data_error(
        [_problem(finding, catalog) for finding in findings if _concerns_value(finding)]
    )


def _concerns_value(finding: Diagnostic) -> bool:
    return (finding.code or "").startswith("W")


def _problem(finding: Diagnostic, catalog: Catalog) -> Problem:
    name = finding.type_name or ""
    table = catalog.nodes.get(name) or catalog.edges.get(name)
    return Problem(
        rule=finding.code or "",
        message=finding.message,
        table_key=table.table_key if table else None,
        property=finding.property,
    )


def _list_names(body: tree.Read | tuple[tree.Statement, ...]) -> Iterator[str]:
    """List the names of variables, as often as they are introduced."""
    if isinstance(body, tuple):
        for statement in body:
            yield from _list_statement_names(statement)
        return
    yield from _list_stage_names((*body.stages, body))
    for _, other in body.union:
        yield from _list_names(other)


def _list_statement_names(statement: tree.Statement) -> Iterator[str]:
    if not isinstance(statement.origin, tree.Matched):
        return
    assignments = () if isinstance(statement, tree.Delete) else statement.assignments
    yield from list_introductions(statement.origin.clauses)
    yield from _list_stage_names(statement.origin.stages)
    yield from list_block_introductions(assignment.value for assignment in assignments)


def _list_stage_names(stages: Iterable[tree.Stage | tree.Read]) -> Iterator[str]:
    for stage in stages:
        yield from list_introductions(stage.clauses)
        yield from list_block_introductions(item.expr for item in stage.items)
        yield from list_block_introductions(stage.having)
        yield from list_block_introductions(key.expr for key in stage.order)


# ---- parameters


DIMENSION_MAX = 2**31 - 1
RESERVED_PREFIX = "__"

_SCALARS = {str(scalar): scalar for scalar in Scalar}


_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_exposure(options: Sequence[tree.Option], report: Findings) -> None:
    """Check the options of `@mcp(…)`: `expose` is true or false, `tool_name` a word, each at most once."""
    seen: set[str] = set()
    for option in options:
        name, value = option.name.text, option.value
        if name in seen or not _is_option(name, value):
            message = (
                f"'{name}' is not an option of @mcp here: it takes expose: true or false, and tool_name: a"
                " text of letters, digits and underscores, each at most once"
            )
            report.report(
                "T64", option.span, message, fix='@mcp(expose: true, tool_name: "find_person")'
            )
        seen.add(name)


def _is_option(name: str, value: str | bool) -> bool:
    if name == "expose":
        return isinstance(value, bool)
    return name == "tool_name" and isinstance(value, str) and bool(_TOOL_NAME.fullmatch(value))


def check_parameters(declared: Sequence[tree.Param], report: Findings) -> Mapping[str, Parameter]:
    """Check the declared parameters; a parameter of a wrong type stays, so that its uses are understood."""
    parameters: dict[str, Parameter] = {}
    for param in declared:
        name = param.name.text
        if name in parameters:
            message = f"parameter '${name}' is declared twice; one of them must go"
            report.report("T31", param.name.span, message)
            continue
        problem = _declaration_problem(param)
        if problem is not None:
            report.report("T28", param.span, f"parameter '${name}' {problem}")
        parameters[name] = Parameter(name=name, type=_type(param.type), span=param.span)
    return parameters


def _declaration_problem(param: tree.Param) -> str | None:
    written = param.type
    if param.name.text.startswith(RESERVED_PREFIX):
        return f"begins with '{RESERVED_PREFIX}', and such names are reserved"
    if param.name.text == ANONYMOUS:
        return "stands for nobody: '$_' is the anonymous variable"
    if written.fields:
        return _records_problem(written)
    if written.dimension is not None:
        if 1 <= written.dimension <= DIMENSION_MAX:
            return None
        return f"has dimension {written.dimension}; a Vector has 1 to {DIMENSION_MAX}"
    if written.scalar not in _SCALARS:
        return f"has the unknown type '{written.scalar}'; types are {', '.join(Scalar)}"
    if written.is_list and written.scalar == Scalar.BLOB:
        return "is a list of Blob, which does not exist"
    return None


def _records_problem(written: tree.ParamType) -> str | None:
    names = Counter(field.name.text for field in written.fields)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        return f"has two fields '{twice}'; one of them must go"
    if any(field.type.fields for field in written.fields):
        return "has records inside of records; a field is a scalar, a list of scalars or a Vector"
    problems = ((field, _declaration_problem(field)) for field in written.fields)
    first = next(((field, problem) for field, problem in problems if problem is not None), None)
    return None if first is None else f"has a field '{first[0].name.text}' that {first[1]}"


def _type(written: tree.ParamType) -> PropertyType:
    if written.fields:
        fields = tuple((field.name.text, _type(field.type)) for field in written.fields)
        return PropertyType(
            scalar=Scalar.STRING, is_list=True, nullable=written.nullable, fields=fields
        )
    if written.dimension is not None:
        return PropertyType(
            scalar=Scalar.F32, dimension=written.dimension, nullable=written.nullable
        )
    return PropertyType(
        scalar=_SCALARS.get(written.scalar or "", Scalar.STRING),
        is_list=written.is_list,
        nullable=written.nullable,
    )
