"""A query as a whole: its parameters and body together, and the error its findings make."""

from collections.abc import Sequence
from itertools import islice

from omnigraph.catalog.model import Catalog
from omnigraph.compile.check.context import Context
from omnigraph.compile.check.mutation import check_mutation
from omnigraph.compile.check.parameters import parameters
from omnigraph.compile.check.read import check_read
from omnigraph.compile.check.scope import Namer, introductions
from omnigraph.compile.checked import Checked
from omnigraph.errors import OmniError, Problem, data_error
from omnigraph.language.diagnostics import Diagnostic, Findings, Stage, locate, query_error
from omnigraph.language.query import tree
from omnigraph.language.source import Source
from omnigraph.limits import PROBLEMS_SHOWN_MAX


def check(
    query: tree.Query, catalog: Catalog, source: Source, *, extended: bool = False
) -> Checked:
    """Check one query against a schema, or raise everything that is wrong with it."""
    checked, found = findings(query, catalog, source, extended=extended)
    if checked is None:
        raise check_error(found, catalog, source)
    return checked


def findings(
    query: tree.Query, catalog: Catalog, source: Source, *, extended: bool = False
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Check one query and list what is wrong instead of raising; the first finding leads."""
    report = Findings(source, query_name=query.name.text)
    clauses = query.body.clauses if isinstance(query.body, tree.Read) else ()
    context = Context(
        catalog=catalog,
        params=parameters(query.params, report),
        findings=report,
        namer=Namer(introductions(clauses)),
        variables={},
        extended=extended,
    )
    checked: Checked
    if isinstance(query.body, tree.Read):
        checked = check_read(query, query.body, context)
    else:
        checked = check_mutation(query, query.body, context)
    # What is wrong with the text leads; values come after it, as they do when a query runs.
    ordered = sorted(report.found, key=_concerns_value)
    placed = tuple(locate(source, diagnostic) for diagnostic in ordered)
    return (None if placed else checked), placed


def check_file(file: tree.QueryFile, catalog: Catalog, source: Source) -> tuple[Checked, ...]:
    """Check every query of a file, or raise everything that is wrong with any of them."""
    wrong = list(find_repeated_names(file))
    checked: list[Checked] = []
    for query in file.queries:
        one, found = findings(query, catalog, source, extended=file.extended)
        wrong += found
        checked += [one] if one is not None else []
    if wrong:
        raise check_error(wrong, catalog, source)
    return tuple(checked)


def find_repeated_names(file: tree.QueryFile) -> tuple[Diagnostic, ...]:
    """Report every query whose name an earlier one of the file has."""
    first: dict[str, int] = {}
    repeated: dict[str, tree.Name] = {}
    for number, query in enumerate(file.queries):
        if first.setdefault(query.name.text, number) != number:
            repeated.setdefault(query.name.text, query.name)
    return tuple(_report_repeated(name) for name in islice(repeated.values(), PROBLEMS_SHOWN_MAX))


def _report_repeated(name: tree.Name) -> Diagnostic:
    return Diagnostic(
        message=f"two queries of this file are called '{name.text}'; give one another name",
        code="T30",
        stage=Stage.TYPECHECK,
        span=name.span,
        query_name=name.text,
    )


def check_error(found: Sequence[Diagnostic], catalog: Catalog, source: Source) -> OmniError:
    """The error that findings make; the first decides whether query or data is to blame."""
    if not _concerns_value(found[0]):
        return query_error(source, found)
    return data_error([_problem(one, catalog) for one in found if _concerns_value(one)])


def _concerns_value(found: Diagnostic) -> bool:
    return (found.code or "").startswith("W")


def _problem(found: Diagnostic, catalog: Catalog) -> Problem:
    name = found.type_name or ""
    table = catalog.nodes.get(name) or catalog.edges.get(name)
    return Problem(
        rule=found.code or "",
        message=found.message,
        table_key=table.table_key if table else None,
        property=found.property,
    )
